"""Limits how many connections are open, and how long a client may pause while it sends or reads.

Connections are counted when they are accepted, before TLS and HTTP, so a client that sends nothing counts as well.
`TimedProtocol` limits the time for headers and answers: an application sees a request only after its headers are
complete. `TimedReceive` limits the time for bodies. It runs where a body is read, so the time in which the server
itself does not read does not count.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import resource
import socket
from collections import Counter
from contextlib import suppress
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from onthedot.access.login_limits import place_of
from onthedot.model.host_port import Listen
from onthedot.server.problems import MEDIA_TYPE, Problem, shown
from onthedot.server.request_origin import Proxies

logger = logging.getLogger("onthedot.server")

_OUT_OF_FILES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_BACKLOG = 1024
_FOR_THE_REST = 1024  # open files that a process needs besides its connections
_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


# ── how many are open ──────────────────────────────────────────────────────────────────────────────────────────


class Connections:
    """Counts open connections, in all and per address. A trusted proxy has no limit per address, because it serves many
    clients."""

    def __init__(self, most: int, most_per_address: int, proxies: Proxies) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._proxies = proxies
        self._open: Counter[str] = Counter()
        self.count = 0

    def add(self, host: str) -> str | None:
        """Count a connection from an address. Returns the key for `remove`, or None if there are too many."""
        place = place_of(host)
        if self.count >= self._most:
            logger.warning("refused a connection from %s: expected at most %d in all, "
                           "see Settings.api_clients", place, self._most)  # fmt: skip
            return None
        if self._open[place] >= self._most_per_address and not self._proxies.trusts(host):
            logger.warning("refused a connection from %s: expected at most %d from one address; is it a proxy? "
                           "See --trusted-proxy and Settings.api_clients_per_address",
                           place, self._most_per_address)  # fmt: skip
            return None
        self.count += 1
        self._open[place] += 1
        return place

    def remove(self, place: str) -> None:
        """Stop counting a connection that was closed."""
        self.count -= 1
        self._open[place] -= 1
        if not self._open[place]:
            del self._open[place]


class BoundedListener(socket.socket):
    """A listening socket that accepts a limited number of connections."""

    def __init__(self, family: int, connections: Connections, *, answers_refused: bool) -> None:
        # Created as TCP, or asyncio would leave Nagle's algorithm on. Headers and body are two writes, and the second
        # would wait 40 ms for the delayed acknowledgement of the first.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._connections = connections
        self._answers_refused = answers_refused  # whether to answer a refused client in plain HTTP
        self._failed = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection. Raise `ConnectionAbortedError`, which asyncio ignores, if too many are open."""
        if self._failed:  # without this asyncio would retry 1,024 times at once; now it retries in a second
            self._failed = False
            raise BlockingIOError
        try:
            connection, address = super().accept()
        except OSError as error:
            self._failed = error.errno in _OUT_OF_FILES
            raise
        place = self._connections.add(address[0])
        if place is None:
            with connection:
                if self._answers_refused:
                    with suppress(OSError):
                        connection.setblocking(False)
                        connection.send(_REFUSAL)
            raise ConnectionAbortedError
        return _Accepted(connection, self._connections, place), address


class _Accepted(socket.socket):
    """A connection that is counted until it is closed."""

    def __init__(self, accepted: socket.socket, connections: Connections, place: str) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self._connections = connections
        self._place: str | None = place

    def close(self) -> None:
        """Close the connection. It may be called twice."""
        super().close()
        if self._place is not None:
            self._connections.remove(self._place)
            self._place = None


def listen_at(listen: Listen, connections: Connections, *, answers_refused: bool) -> BoundedListener:
    """A socket that listens at this address. Raises `OSError` if it cannot."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    listener = BoundedListener(family, connections, answers_refused=answers_refused)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((listen.host, listen.port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def affordable(most: int) -> int:
    """Return how many connections this process can hold, at most `most`. Connections may use half of the open files
    that the process is allowed. If necessary, the function raises the soft limit of open files."""
    needed = most + max(most, _FOR_THE_REST)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(ValueError, OSError):  # some systems allow less than their hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return most
    fewer = min(most, max(1, soft // 2))
    if fewer < most:
        logger.warning("this process may open %d files: it takes %d connections at a time instead of %d; "
                       "raise the limit (ulimit -n)", soft, fewer, most)  # fmt: skip
    return fewer


# ── time-outs ──────────────────────────────────────────────────────────────────────────────────────────────────

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
    """A body that does not arrive in time. It is an `HTTPException` for the same reason as `TooLarge`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            408, f"expected the body within {seconds:g} s, got a part of it; send it again", {"Connection": "close"}
        )


class TimedReceive:
    """Receives a body. Raises `TooSlow` if it does not arrive in time. After the body it waits without limit, because
    an application waits here for the client to disconnect."""

    def __init__(self, receive: Receive, *, in_pieces: bool) -> None:
        self._receive = receive
        self._in_pieces = in_pieces
        self._until: float | None = None
        self._whole = False

    async def __call__(self) -> Message:
        """Return the next message."""
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
    """One connection. It is closed if headers are late or too large, or if the client does not read its answers."""

    _headers_due: float | None = None  # when `check` closes the connection; a timer for each request costs more
    _answering: RequestResponseCycle | None = None  # uvicorn's `cycle` is the newest, and may wait for this one
    _in_message = False  # a request has begun, and has not ended
    _begun = 0  # requests that began in the data just received
    _has_body = False  # whether that data contains a part of a body
    _head = 0  # bytes of the complete header fields
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
        """Notify the request that is being answered; uvicorn notifies only the newest one."""
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
            self._unread = len(data) if between and self._begun == 1 else 0  # its start in the data is unknown
        if self._unread > MOST_HEAD and not self.transport.is_closing():
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """Handle the start of a request."""
        super().on_message_begin()
        self._in_message, self._head = True, 0
        self._begun += 1

    def on_url(self, url: bytes) -> None:
        """Handle a part of the URL."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header or, after the body, a trailer."""
        super().on_header(name, value)
        self._count(len(name) + len(value) + 4)

    def on_headers_complete(self) -> None:
        """Handle the end of the headers."""
        self._headers_due = None
        if len(self.pipeline) >= MOST_WAITING:
            raise ValueError("too many")  # ends the parser, which refuses the request
        super().on_headers_complete()
        if self._answering is None or self._answering.response_complete:
            self._answering = self.cycle

    def on_body(self, body: bytes) -> None:
        """Handle a part of the body."""
        self._has_body = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Handle the end of a request."""
        self._in_message = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Handle the end of an answer. The time for the next request starts."""
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
        self.transport.close()  # no error can be sent in the middle of another answer

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
