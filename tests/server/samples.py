"""One request for each route of the table, about things that are there: for the permission matrix."""

from __future__ import annotations

from typing import Any, NamedTuple


class Sample(NamedTuple):
    """A request that is answered well for whoever may, and can see the things that it names. `about` says whether it
    names things that belong to somebody: then it is 404 for whoever cannot see them; else it is answered, without them.
    """

    path: str = ""  # in place of the table's own, if that has places to fill
    body: Any = None
    about: bool = False
    content_type: str = "application/json"


SAMPLES: dict[str, Sample] = {
    "GET /api/v1/health": Sample(),
    "GET /api/v1/ready": Sample(),
    "GET /api/v1/version": Sample(),
    "GET /api/v1/whoami": Sample(),
    "GET /api/v1/jobs/{job}": Sample("/api/v1/jobs/nap", about=True),
    "DELETE /api/v1/jobs/{job}": Sample("/api/v1/jobs/nap", about=True),
    "POST /api/v1/jobs/{job}/pause": Sample("/api/v1/jobs/nap/pause", {}, about=True),
    "POST /api/v1/runs": Sample("/api/v1/runs", {"job": "nap"}, about=True),
}
