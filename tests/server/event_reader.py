"""Reads server-sent events from an application in this process, without a socket. A test can make it stop reading."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message


class Event(NamedTuple):
    """One event that was read."""

    event: str
    data: Any
    id: str | None


class Reader:
    """Reads the answer of an application to one GET."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self._pings = asyncio.Semaphore(0)
        self.body = b""
        self.ended = asyncio.Event()
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.begun = asyncio.Event()
        self.left = asyncio.Event()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self.begun.set()
            return
        await self.may_read.wait()
        self.body += message.get("body", b"")
        *whole, self.body = self.body.split(b"\n\n") if self.status == 200 else (self.body,)
        for text in whole:
            self._take(text.decode())

    def _take(self, text: str) -> None:
        if text.startswith(":"):
            self._pings.release()
            return
        said = dict(line.split(": ", 1) for line in text.split("\n"))
        self.events.put_nowait(Event(said["event"], json.loads(said["data"]), said.get("id")))

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def next(self, event: str | None = None) -> Event:
        """Return the next event; with a name, the next one of that name."""
        async with asyncio.timeout(30):
            while True:
                found = await self.events.get()
                if event in (None, found.event):
                    return found

    async def ping(self) -> None:
        """Wait for a ping. After the first one, the server sends new events."""
        async with asyncio.timeout(30):
            await self._pings.acquire()

    async def rest(self) -> list[Event]:
        """Wait for the end of the stream, and return all events that are left."""
        async with asyncio.timeout(30):
            await self.ended.wait()
        return [self.events.get_nowait() for _ in range(self.events.qsize())]


@asynccontextmanager
async def reading(app: ASGIApp, path: str, headers: dict[str, str]) -> AsyncGenerator[Reader]:
    """Read this path until the block or the answer ends."""
    path, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in {"Host": "server", **headers}.items()],
        "client": ("127.0.0.1", 1), "server": ("server", 80), "state": {},
    }  # fmt: skip
    reader = Reader()

    async def serve() -> None:
        try:
            await app(scope, reader.receive, reader.send)
        finally:
            reader.ended.set()
            reader.begun.set()

    task = asyncio.create_task(serve())
    try:
        await asyncio.wait_for(reader.begun.wait(), 30)
        yield reader
    finally:
        reader.left.set()
        reader.may_read.set()
        await asyncio.wait_for(task, 30)
