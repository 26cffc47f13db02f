"""What is shared by all who follow something at this server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import Depends, Request

from onthedot.operations.open_verbs import OpenStore
from onthedot.server.auth import door_of
from onthedot.server.event_feed import EventFeed
from onthedot.server.event_stream import EventStream, Followers
from onthedot.server.log_feed import LogFeeds


class Live:
    """Of one application. `close` ends all streams, so that a server which stops need not wait for them."""

    def __init__(self, there: OpenStore) -> None:
        self.followers = Followers(there.settings.api_followers, there.settings.api_followers_each)
        self.logs = LogFeeds(there)
        self.events = EventFeed(there)

    def stream(self, request: Request, pieces: AsyncGenerator[bytes]) -> EventStream:
        """An answer that goes on for as long as its reader is there and may read it."""
        who = request.state.who
        return EventStream(self.followers, who, pieces, still=lambda: door_of(request).still_lets_in(request))

    def close(self) -> None:
        """Nobody follows any more."""
        self.followers.close()


async def _live(request: Request) -> Live:
    live: Live = request.app.state.live
    return live


Following = Annotated[Live, Depends(_live)]
