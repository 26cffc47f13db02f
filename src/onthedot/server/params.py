"""What requests say beside their bodies: which run, which page, since when, under which key."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import Header, Path, Query
from pydantic import StringConstraints

from onthedot.access.principal import Principal
from onthedot.clock import Micros, to_micros
from onthedot.model.errors import DefinitionError
from onthedot.schedules.instants import read_instant
from onthedot.server.visibility import HIGHEST

NO_NUL = r"^[^\x00]*$"
"""Text that every store can compare."""

Text = Annotated[str, StringConstraints(max_length=200, pattern=NO_NUL)]
RunId = Annotated[int, Path(alias="run", description="The run's number.", ge=1, le=HIGHEST, examples=[41])]
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

_PREFIX = "idempotency:"


def instant(given: str | None, what: str) -> Micros | None:
    """A point in time that somebody asks about; `DefinitionError` if it is none."""
    return None if given is None else to_micros(read_instant(given, what=what))


def run_key(who: Principal, header: str | None, verb: str, own: str = "") -> str:
    """The key of a run that is asked for: the caller's `own`, or one made of the header. What others send cannot be
    the same, whatever it is; nor what this one sends with another verb.

    >>> from onthedot.access.principal import LOCAL
    >>> run_key(LOCAL, None, "submit", "order-7"), run_key(LOCAL, "7", "submit") == run_key(LOCAL, "7", "trigger")
    ('order-7', False)
    """
    if header is None:
        return own_key(own)
    if own:
        raise DefinitionError("key: expected either a key in the body or the header Idempotency-Key, got both")
    said = "\0".join((who.kind, who.id, verb, header))
    return _PREFIX + hashlib.sha256(said.encode(errors="surrogateescape")).hexdigest()


def own_key(own: str) -> str:
    """A key that the caller has chosen; it must not look like one of ours."""
    if own.startswith(_PREFIX):
        raise DefinitionError(f"key: expected one that does not begin with {_PREFIX!r}; those are made here")
    return own
