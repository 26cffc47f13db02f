"""Attempts of all runs, newest end first."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from onthedot.server.answering import json_answer
from onthedot.server.asked import After, Instant, PageSize, Text, instant
from onthedot.server.door import There, Who
from onthedot.server.finding import namespaces_for
from onthedot.server.routing import Routes
from onthedot.server.shapes import AttemptsOut, attempt_out
from onthedot.stores.finding import AttemptCursor, AttemptFilter, decode_cursor, encode_cursor

routes = Routes(prefix="/api/v1", tags=["runs"])


@routes.get("/attempts", response_model=AttemptsOut)
async def list_attempts(
    there: There,
    who: Who,
    worker: Annotated[Text | None, Query(description="The node that tried.", examples=["worker-1"])] = None,
    since: Instant = None,
    until: Instant = None,
    limit: PageSize = 100,
    after: After = None,
) -> Response:
    """Attempts that are over, of one worker or of all, newest end first."""
    wanted = AttemptFilter(
        namespaces=namespaces_for(who, None),
        owner=who.only_owner,
        node=worker,
        since=instant(since, "since"),
        until=instant(until, "until"),
    )
    place = None if after is None else decode_cursor(after, AttemptCursor)
    page = await there.store.find_attempts(wanted, after=place, limit=limit)
    following = None if page.next is None else encode_cursor(page.next)
    return json_answer({"items": [attempt_out(attempt) for attempt in page.items], "next": following})
