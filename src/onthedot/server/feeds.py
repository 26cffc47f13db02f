"""The feeds of one application: events and logs that many readers follow, over one read of the store for all."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import Depends, Request

from onthedot.operations.open_verbs import OpenStore
from onthedot.server.auth import auth_of
from onthedot.server.event_feed import EventFeed
from onthedot.server.event_stream import EventStream, Followers
from onthedot.server.log_feed import LogFeeds


class Feeds:
    """The feeds, and who follows them. `close` ends all streams, so that a server can stop without waiting for them."""

    def __init__(self, there: OpenStore) -> None:
        self.followers = Followers(there.settings.api_followers, there.settings.api_followers_each)
        self.logs = LogFeeds(there)
        self.events = EventFeed(there)

    def stream(self, request: Request, pieces: AsyncGenerator[bytes]) -> EventStream:
        """A response that lasts while its reader is connected and may follow."""
        who = request.state.who
        return EventStream(self.followers, who, pieces, may_follow=lambda: auth_of(request).still_admits(request))

    def close(self) -> None:
        """End all streams."""
        self.followers.close()


async def _feeds(request: Request) -> Feeds:
    feeds: Feeds = request.app.state.feeds
    return feeds


FeedsOfApp = Annotated[Feeds, Depends(_feeds)]
