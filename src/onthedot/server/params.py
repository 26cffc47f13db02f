"""The parameters of requests in paths, queries and headers, which several routes share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Path, Query
from pydantic import StringConstraints

from onthedot.clock import Micros, to_micros
from onthedot.model.run import HIGHEST_RUN
from onthedot.schedules.instants import read_instant
from onthedot.server.models import Line

NO_NUL = r"^[^\x00]*$"
"""Text without NUL, which every store can compare."""

Text = Annotated[str, StringConstraints(max_length=200, pattern=NO_NUL)]
RunId = Annotated[int, Path(alias="run", description="The run's number.", ge=1, le=HIGHEST_RUN, examples=[41])]
PageSize = Annotated[int, Query(ge=1, le=1000, description="How many there are on a page at the most.")]
After = Annotated[str | None, Query(max_length=500, pattern=NO_NUL, description="What the page before said is next.")]
Instant = Annotated[
    str | None,
    Query(
        max_length=50,
        description="RFC 3339, with an offset.",
        examples=["2026-01-01T08:00:00Z"],
        json_schema_extra={"format": "date-time"},
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="Sent again with the same key, a request gives the run that the first one made. Each API key has "
        "its own.",
    ),
]

# ── of jobs and queues ─────────────────────────────────────────────────────────────────────────────────────────

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]*$"
Name = Annotated[str, Path(description="The job's name.", max_length=100, pattern=NAME, examples=["nightly_report"])]
Namespace = Annotated[str, Query(description="Where the name is looked up.", max_length=100, pattern=NAME)]
JobsLimit = Annotated[int, Query(description="How many at the most.", ge=1, le=1000)]
JobsAfter = Annotated[str | None, Query(description="Where to go on: `next` of the page before.", max_length=1000)]
Word = Annotated[Line | None, Query(max_length=200)]
JobName = Annotated[Text | None, Query(description="Of this job only.", examples=["nightly_report"])]
QueueName = Annotated[str, Path(max_length=100, pattern=NAME, examples=["mail"])]


def instant(given: str | None, what: str) -> Micros | None:
    """Read an instant of a query; `DefinitionError` if it is none."""
    return None if given is None else to_micros(read_instant(given, what=what))
