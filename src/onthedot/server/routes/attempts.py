"""Attempts of all runs, newest end first."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from onthedot.server.answering import json_answer
from onthedot.server.asked import After, Instant, PageSize, Text, instant
from onthedot.server.door import There, Who
from onthedot.server.finding import find_attempts
from onthedot.server.routing import Routes
from onthedot.server.shapes import AttemptsOut, attempt_out
from onthedot.stores.queries import AttemptFilter

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
    wanted = AttemptFilter(node=worker, since=instant(since, "since"), until=instant(until, "until"))
    found, following = await find_attempts(there, who, wanted, after=after, limit=limit)
    return json_answer({"items": [attempt_out(attempt) for attempt in found], "next": following})
