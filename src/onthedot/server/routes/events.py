"""The stream of events."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from onthedot.model.errors import DefinitionError
from onthedot.server.auth import Who
from onthedot.server.event_feed import read_id
from onthedot.server.event_stream import event_content
from onthedot.server.feeds import FeedsOfApp
from onthedot.server.router import Routes
from onthedot.server.routes.logs import LastEventId

routes = Routes(prefix="/api/v1", tags=["events"])

_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `started`, `ended`, and `left_out` with how many were, at least.",
        "content": event_content("started", "ended", "left_out"),
    }
}


@routes.get("/events", response_class=Response, responses=_EVENTS)
async def follow_events(request: Request, who: Who, feeds: FeedsOfApp, last_event_id: LastEventId = None) -> Response:
    """Which runs start and end, in the whole cluster, as server-sent events. Those that end have ids: sent back as
    `Last-Event-ID`, to whichever server, what has ended since comes first. Who reads too slowly is told how many events
    were left out, and goes on."""
    since = None if last_event_id is None else read_id(last_event_id)
    if last_event_id is not None and since is None:
        raise DefinitionError(
            f"Last-Event-ID: expected the id of an event like '1767225600000000.41', got {last_event_id!r}; "
            "leave it away to begin now"
        )
    return feeds.stream(request, feeds.events.follow(who, since))
