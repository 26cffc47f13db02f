"""Sends server-sent events. Limits the followers, and ends a stream when its reader has disconnected, has stopped
reading, or may no longer follow."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any

from fastapi import Header, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onthedot.access.permissions import Principal
from onthedot.model.errors import StoreUnavailable
from onthedot.server.auth import auth_of
from onthedot.server.models import to_json
from onthedot.server.problems import Problem

SEND_TIMEOUT = 30.0
"""Seconds for one piece. A reader that takes longer is disconnected."""
PING_EVERY = 15.0
"""Seconds without an event until a comment is sent, so that proxies keep the connection."""
CHECK_EVERY = 3.0
"""Seconds between two checks of the follower's permission."""
TURN = 8
"""How many followers are woken in one turn of the loop, so that requests do not wait for a hundred."""
PING = b": still here\n\n"

LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        max_length=100,
        description="The `id` of the last event that you read. The stream continues after it.",
    ),
]


def frame(event: str, data: Mapping[str, Any], *, id: str | None = None) -> bytes:
    """Return one event as bytes. JSON on one line contains no line ends.

    >>> frame("log", {"text": "one\\ntwo"}, id="1.r.8")
    b'event: log\\nid: 1.r.8\\ndata: {"text":"one\\\\ntwo"}\\n\\n'
    """
    id_line = "" if id is None else f"id: {id}\n"
    return f"event: {event}\n{id_line}data: {to_json(data)}\n\n".encode()


def event_content(*events: str) -> dict[str, Any]:
    """The OpenAPI content of a stream with these events."""
    one = {
        "type": "object",
        "properties": {
            "event": {"type": "string", "enum": list(events)},
            "data": {"type": "string", "contentMediaType": "application/json"},
            "id": {"type": "string", "description": "Send it as `Last-Event-ID` to continue after this event."},
        },
        "required": ["event", "data"],
    }
    return {"text/event-stream": {"schema": one}}


class Followers:
    """Limits the followers of this server: in all, and for each principal."""

    def __init__(self, most: int, most_each: int) -> None:
        self.most = most
        self.most_each = most_each
        self.count = 0
        self._of: Counter[str] = Counter()
        self._streams: set[asyncio.Task[Any]] = set()

    @contextmanager
    def seat(self, who: Principal) -> Iterator[None]:
        """Count a follower while the context lasts. Raises 429 if there are too many. All sessions of a user count
        together, because a user can open any number of sessions."""
        principal = f"session {who.name}" if who.kind == "session" else f"{who.kind} {who.id}"
        if self._of[principal] >= self.most_each:
            raise _too_many(f"expected at most {self.most_each} followers at once of {who.name}; end some first")
        if self.count >= self.most:
            raise _too_many(f"expected at most {self.most} followers at once; ask again later, or another server")
        self.count += 1
        self._of[principal] += 1
        try:
            yield
        finally:
            self.count -= 1
            self._of[principal] -= 1
            if not self._of[principal]:
                del self._of[principal]

    @contextmanager
    def stream(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Register a sending task while the context lasts; `close` cancels it."""
        self._streams.add(task)
        try:
            yield
        finally:
            self._streams.discard(task)

    def close(self) -> None:
        """End every stream, because the server stops. Followers can reconnect to another server."""
        for stream in self._streams:
            stream.cancel()


def _too_many(detail: str) -> Problem:
    return Problem(429, "too-many", detail, headers={"Retry-After": "5"})


class EventStream(Response):
    """Sends the pieces of an iterator. It takes a piece only after the previous one was sent, so a reader that does not
    read costs no memory. It ends when the iterator ends, when the reader disconnects, or when sending a piece takes
    longer than `SEND_TIMEOUT`."""

    media_type = "text/event-stream"

    def __init__(
        self,
        followers: Followers,
        who: Principal,
        pieces: AsyncGenerator[bytes],
        *,
        may_follow: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._followers = followers
        self._who = who
        self._pieces = pieces
        self._may_follow = may_follow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        with self._followers.seat(self._who):
            await self._follow(receive, send)

    async def _follow(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send(send))
        others = [asyncio.ensure_future(_gone(receive)), asyncio.ensure_future(self._until_forbidden())]
        try:
            with self._followers.stream(sending):
                await asyncio.wait((sending, *others), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, *others):
                task.cancel()
            await asyncio.gather(sending, *others, return_exceptions=True)
            await self._pieces.aclose()
        error = None if sending.cancelled() else sending.exception()
        if error is not None and not isinstance(error, TimeoutError):
            raise error

    async def _until_forbidden(self) -> None:
        """Return when the follower loses its permission. If the store does not answer, the stream continues."""
        allowed = True
        while allowed:
            await asyncio.sleep(CHECK_EVERY)
            with suppress(StoreUnavailable):
                allowed = await self._may_follow()

    async def _send(self, send: Send) -> None:
        async for piece in self._pieces:
            await _send(send, {"type": "http.response.body", "body": piece, "more_body": True})
        await _send(send, {"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, message: dict[str, Any]) -> None:
    async with asyncio.timeout(SEND_TIMEOUT):
        await send(message)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


def follow(request: Request, pieces: AsyncGenerator[bytes]) -> EventStream:
    """Stream these pieces for as long as the caller of a request is connected and may follow."""
    followers: Followers = request.app.state.followers
    return EventStream(followers, request.state.who, pieces, may_follow=lambda: auth_of(request).still_admits(request))
