"""Closes connections whose clients stop sending or reading, or send headers without end.

`TimedProtocol` limits headers and answers: no application knows of a request before its headers are complete.
`TimedReceive` limits bodies where they are read: a sender is not slow while the server itself does not read.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from onthedot.server.problems import MEDIA_TYPE, Problem, shown

logger = logging.getLogger("onthedot.server")

HEADERS = 10.0
"""Seconds from the connection, or from the last answer, to the end of a request's headers."""
BODY = 30.0
"""Seconds for the whole body, or for each piece of a bulk submit."""
SEND = 30.0
"""Seconds for which a client may read nothing of its answer."""
MOST_HEAD = 64 * 1024
"""Bytes of a request's URL, headers and trailers."""
MOST_WAITING = 100
"""Requests of one connection that may wait for the answer to the one before."""


class TooSlow(HTTPException):
    """A body that does not come in time. It is an `HTTPException`, as `TooLarge` is."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            408, f"expected the body within {seconds:g} s, got a part of it; send it again", {"Connection": "close"}
        )


class TimedReceive:
    """Receives a body; `TooSlow` if it does not come in time. After the body it waits without limit, because this is
    how an application notices a disconnect."""

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


class TimedProtocol(HttpToolsProtocol):
    """One connection. It is closed if headers are late or too large, and if answers are not read."""

    _headers_due: float | None = None  # when `check` closes it; a timer for each request costs more
    _answering: RequestResponseCycle | None = None  # uvicorn's `cycle` is the newest, which may wait for this one
    _in_message = False  # a request has begun, and has not ended
    _begun = 0  # requests that began in the data at hand
    _has_body = False  # whether that data has a part of a body
    _head = 0  # bytes of complete fields
    _unread = 0  # bytes of the request since its beginning, or since its body
    _unsent = 0
    _sent_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self.logger = logger
        self._sent_at = self.loop.time()
        self._headers_due = self._sent_at + HEADERS

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request that is being answered: uvicorn notifies only the newest one."""
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of one or several requests."""
        between, self._begun, self._has_body = not self._in_message, 0, False
        super().data_received(data)
        if not self._in_message or self._has_body:
            self._unread = 0
        elif not self._begun:
            self._unread += len(data)
        else:
            self._unread = len(data) if between and self._begun == 1 else 0  # where in the data it began is not known
        if self._unread > MOST_HEAD and not self.transport.is_closing():
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_message, self._head = True, 0
        self._begun += 1

    def on_url(self, url: bytes) -> None:
        """A part of its URL."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; or, after the body, a trailer."""
        super().on_header(name, value)
        self._count(len(name) + len(value) + 4)

    def on_headers_complete(self) -> None:
        """A request has its headers."""
        self._headers_due = None
        if len(self.pipeline) >= MOST_WAITING:
            raise ValueError("too many")  # ends the parser, which refuses the request
        super().on_headers_complete()
        if self._answering is None or self._answering.response_complete:
            self._answering = self.cycle

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        self._has_body = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has ended."""
        self._in_message = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer has ended: the time for the next request begins."""
        following = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if following is not None:
            self._answering = following
        else:
            self._headers_due = self.loop.time() + HEADERS

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid request with a problem."""
        if max(self._head, self._unread) > MOST_HEAD:
            msg = f"expected at most {MOST_HEAD} bytes of headers, got more."
        if self._answering is None or self._answering.response_complete:
            self._refuse(
                b"400 Bad Request", shown(Problem(400, "invalid", f"{msg} Expected a request of HTTP/1.1."), "")
            )
        self.transport.close()  # in the middle of another answer there is no way to say more

    def check(self, now: float) -> None:
        """Close the connection of a client that does not send or does not read. Called about once a second."""
        if self._headers_due is not None and now > self._headers_due:
            self.transport.close()
        left = self.transport.get_write_buffer_size()
        if left < self._unsent or not (left or self.transport.is_closing()):
            self._sent_at = now
        elif now - self._sent_at > SEND:
            self.transport.abort()  # `close` would wait until all is sent
        self._unsent = left

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > MOST_HEAD:
            raise ValueError("too large")  # ends the parser, which refuses the request

    def _refuse(self, status: bytes, told: dict[str, Any]) -> None:
        body = json.dumps(told).encode()
        head = b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, MEDIA_TYPE.encode(), len(body)) + body)
