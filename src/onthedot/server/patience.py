"""How long a sender may take: whoever begins a request and does not go on is let go.

Headers are looked after by the protocol, because no application knows of a request before it has them; bodies where
they are asked for, because only there it is known who waits for whom: a sender is not slow while it is we who do not
read.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from onthedot.server.problems import MEDIA_TYPE, Problem, shown

HEADERS = 10.0
"""From a connection, or the first byte of its next request, to the end of the headers, in seconds."""
BODY = 30.0
"""For the whole body, in seconds; for each piece of one that is read in pieces."""
MOST_HEAD = 64 * 1024
"""Bytes of headers, about."""


class TooSlow(HTTPException):
    """A body that does not come. Of the framework's own kind, as `TooLarge` is."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            408, f"expected the body within {seconds:g} s, got a part of it; send it again", {"Connection": "close"}
        )


class Patient:
    """Asks for a body until all of it is there; `TooSlow` if it does not come. What comes after it is waited for as
    long as it takes: that is how an application knows that somebody is gone."""

    def __init__(self, receive: Receive, *, in_pieces: bool) -> None:
        self._receive = receive
        self._in_pieces = in_pieces
        self._until: float | None = None
        self._whole = False

    async def __call__(self) -> Message:
        """The next message."""
        if self._whole:
            return await self._receive()
        if self._until is None or self._in_pieces:
            self._until = asyncio.get_running_loop().time() + BODY
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow(BODY) from None
        self._whole = not message.get("more_body", False)
        return message


class Protocol(HttpToolsProtocol):
    """The server's own, which waits for headers only so long, and holds only so many."""

    _headers_due: asyncio.TimerHandle | None = None
    _seen = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody is gone."""
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request."""
        super().data_received(data)
        if self._headers_due is not None:
            self._seen += len(data)
            if self._seen > MOST_HEAD and not self.transport.is_closing():
                self.send_400_response(f"expected at most {MOST_HEAD} bytes of headers, got more")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._expect_headers()

    def on_headers_complete(self) -> None:
        """A request has its headers."""
        self._expect_nothing()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no request is told so in the shape of all refusals."""
        told = shown(Problem(400, "invalid", f"{msg} Expected a request of HTTP/1.1."), "")
        self._refuse(b"400 Bad Request", told)

    def _refuse(self, status: bytes, told: dict[str, Any]) -> None:
        body = json.dumps(told).encode()
        head = b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, MEDIA_TYPE.encode(), len(body)) + body)
        self.transport.close()

    def _expect_headers(self) -> None:
        if self._headers_due is None:
            self._seen = 0
            self._headers_due = self.loop.call_later(HEADERS, self._let_go)

    def _expect_nothing(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _let_go(self) -> None:
        self._headers_due = None
        if not self.transport.is_closing():
            self.transport.close()
