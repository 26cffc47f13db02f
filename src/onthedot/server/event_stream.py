"""Server-sent events: who follows, how many of them, and what becomes of one that does not read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onthedot.access.principal import Principal
from onthedot.model.errors import StoreUnavailable
from onthedot.server.json_response import to_json
from onthedot.server.problems import Problem

PATIENCE = 30.0
"""How long one piece may take to be sent, in seconds: who reads nothing for so long is let go."""
PING_EVERY = 15.0
"""How long it may be quiet, in seconds: whatever is in between must not think that nobody is there any more."""
LOOK_EVERY = 3.0
"""How often it is asked whether who follows may still do so, in seconds."""
TURN = 8
"""How many followers are woken in one turn of the loop: a hundred at once would keep requests waiting."""
PING = b": still here\n\n"


def frame(event: str, data: Mapping[str, Any], *, id: str | None = None) -> bytes:
    """One event, as it is sent. JSON has no line ends of its own.

    >>> frame("log", {"text": "one\\ntwo"}, id="1.r.8")
    b'event: log\\nid: 1.r.8\\ndata: {"text":"one\\\\ntwo"}\\n\\n'
    """
    said = "" if id is None else f"id: {id}\n"
    return f"event: {event}\n{said}data: {to_json(data)}\n\n".encode()


def event_content(*events: str) -> dict[str, Any]:
    """How the document of the API tells of a stream with these events: what one of them is."""
    one = {
        "type": "object",
        "properties": {
            "event": {"type": "string", "enum": list(events)},
            "data": {"type": "string", "contentMediaType": "application/json"},
            "id": {"type": "string", "description": "Where it is: for `Last-Event-ID`."},
        },
        "required": ["event", "data"],
    }
    return {"text/event-stream": {"schema": one}}


class Followers:
    """Bounds how many follow this server at once: in all, and of each principal."""

    def __init__(self, most: int, most_each: int) -> None:
        self.most = most
        self.most_each = most_each
        self.count = 0
        self._of: Counter[str] = Counter()
        self._streams: set[asyncio.Task[Any]] = set()

    @contextmanager
    def place(self, who: Principal) -> Iterator[None]:
        """For as long as somebody follows; raises `Problem` if it is one too many. The sessions of a user count
        together: another one takes only another login."""
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
        """For as long as this task sends: `close` cancels it."""
        self._streams.add(task)
        try:
            yield
        finally:
            self._streams.discard(task)

    def close(self) -> None:
        """End every stream: for a server that stops. Whoever followed may go on with another one."""
        for stream in self._streams:
            stream.cancel()


def _too_many(detail: str) -> Problem:
    return Problem(429, "too-many", detail, headers={"Retry-After": "5"})


class EventStream(Response):
    """Sends what an iterator gives, one piece at a time, and asks for the next when that was sent: nothing is held for
    one who does not read. It ends with the iterator, when the other side is gone, or after `PATIENCE`."""

    media_type = "text/event-stream"

    def __init__(
        self,
        followers: Followers,
        who: Principal,
        pieces: AsyncGenerator[bytes],
        *,
        still: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._followers = followers
        self._who = who
        self._pieces = pieces
        self._still = still

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        with self._followers.place(self._who):
            await self._follow(receive, send)

    async def _follow(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        telling = asyncio.ensure_future(self._tell(send))
        others = [asyncio.ensure_future(_gone(receive)), asyncio.ensure_future(self._locked_out())]
        try:
            with self._followers.stream(telling):
                await asyncio.wait((telling, *others), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (telling, *others):
                task.cancel()
            await asyncio.gather(telling, *others, return_exceptions=True)
            await self._pieces.aclose()
        error = None if telling.cancelled() else telling.exception()
        if error is not None and not isinstance(error, TimeoutError):
            raise error

    async def _locked_out(self) -> None:
        """Until who follows may not do so any more. A store that does not answer locks nobody out."""
        allowed = True
        while allowed:
            await asyncio.sleep(LOOK_EVERY)
            with suppress(StoreUnavailable):
                allowed = await self._still()

    async def _tell(self, send: Send) -> None:
        async for piece in self._pieces:
            await _send(send, {"type": "http.response.body", "body": piece, "more_body": True})
        await _send(send, {"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, message: dict[str, Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        await send(message)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
