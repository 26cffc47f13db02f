"""One request for each route of the table, about things that are there: for the permission matrix."""

from __future__ import annotations

from typing import Any, NamedTuple


class Sample(NamedTuple):
    """A request that is answered well for whoever may, and can see the things that it names. `about` says whether it
    names things that belong to somebody: then it is 404 for whoever cannot see them; else it is answered, without them.
    """

    path: str = ""  # in place of the table's own, if that has places to fill; {key} and {run} are there
    body: Any = None
    about: bool = False
    gives: bool = False  # it gives somebody more than one who sees only a part has: 403 for those
    content_type: str = "application/json"


SAMPLES: dict[str, Sample] = {
    "GET /api/v1/health": Sample(),
    "GET /api/v1/ready": Sample(),
    "GET /api/v1/version": Sample(),
    "GET /api/v1/whoami": Sample(),
    "POST /api/v1/login": Sample(body={"username": "ann", "password": "a good long password"}),
    "POST /api/v1/logout": Sample(),
    "GET /api/v1/keys": Sample(),
    "POST /api/v1/keys": Sample(body={"name": "ci", "role": "viewer"}, gives=True),
    "DELETE /api/v1/keys/{key}": Sample("/api/v1/keys/{key}", about=True),
    "GET /api/v1/users": Sample(),
    "POST /api/v1/users": Sample(
        body={"name": "bob", "password": "a good long password", "role": "viewer"}, gives=True
    ),
    "PATCH /api/v1/users/{user}": Sample("/api/v1/users/ann", {"disabled": True}, about=True),
    "DELETE /api/v1/users/{user}": Sample("/api/v1/users/ann", about=True),
    "GET /api/v1/audit": Sample(),
    "GET /api/v1/jobs/{job}": Sample("/api/v1/jobs/nap", about=True),
    "DELETE /api/v1/jobs/{job}": Sample("/api/v1/jobs/nap", about=True),
    "POST /api/v1/jobs/{job}/pause": Sample("/api/v1/jobs/nap/pause", {}, about=True),
    "POST /api/v1/runs": Sample("/api/v1/runs", {"job": "nap"}, about=True),
    "PUT /api/v1/sources/{source:path}": Sample(
        "/api/v1/sources/jobs.yaml", {"jobs": [{"name": "nap", "sleep": "1s"}]}, about=True
    ),
    "GET /api/v1/runs/{run}/standing": Sample("/api/v1/runs/{run}/standing", about=True),
}
