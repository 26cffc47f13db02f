"""Gives every request an id, a size limit, security headers, time-outs for its body, and a line in the log."""

from __future__ import annotations

import logging
import re
import time

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onthedot.ids import RandomIds
from onthedot.server.connections import TimedReceive, TooSlow
from onthedot.server.permissions import EVERYBODY, ROUTE_PERMISSIONS
from onthedot.server.problems import Problem, answer, problem_of_framework
from onthedot.server.router import HEAD

logger = logging.getLogger("onthedot.server")

MOST_BYTES = 1024 * 1024
"""The limit of a body. Bulk submits are read in pieces and have their own limit."""
MOST_BYTES_WITHOUT_KEY = 256 * 1024  # the longest ID token, with every character escaped, is 192 KiB
"""The limit for routes that need no key, because their bodies are read before the caller is known."""

_INSTEAD = "send less at once, or many runs as application/x-ndjson"
_PLAIN_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]


_WITHOUT_KEY = frozenset(line for line, permission in ROUTE_PERMISSIONS.items() if permission is EVERYBODY)


class TooLarge(HTTPException):
    """A body over its limit. An `HTTPException`, because FastAPI reports any other error as an unreadable body."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"expected a body of at most {most} bytes; {_INSTEAD}")


class RequestMiddleware:
    """The outermost middleware. It is plain ASGI, which costs a request only some microseconds."""

    def __init__(self, app: ASGIApp, *, in_pieces: tuple[str, str, str]) -> None:
        self._app = app
        self._in_pieces = in_pieces  # method, path and content type of the requests with their own limit
        self._ids = RandomIds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        is_head = scope["method"] == "HEAD"
        if is_head:  # answered like GET, without the body; see `Guarded`
            scope = {**scope, "method": "GET", HEAD: True}
        headers = dict(scope["headers"])
        scope["request_id"] = request_id = self._id_of(headers)
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                more = [header for header in _HEADERS if header[0] not in own]
                message["headers"] = [*message["headers"], *more, (b"x-request-id", request_id.encode())]
            elif is_head:
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._bounded(scope, headers, receive, send_with_headers)
        except (TooLarge, TooSlow) as error:
            await answer(problem_of_framework(error, scope), scope)(scope, receive, send_with_headers)
        except Exception:  # a bug in a route: answer and log this request; other requests continue
            logger.exception("request %s: %s %s broke", request_id, scope["method"], _shown(scope["path"]))
            if status == 0:  # nothing was sent yet
                detail = f"this is a bug; the server's log says more under {request_id}, or under one like it before"
                await answer(Problem(500, "broken", detail), scope)(scope, receive, send_with_headers)
        took = (time.perf_counter() - began) * 1000
        logger.debug("%s %s %s: %d in %.1f ms", request_id, scope["method"], _shown(scope["path"]), status, took)

    def _id_of(self, headers: dict[bytes, bytes]) -> str:
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        return given if _PLAIN_ID.fullmatch(given) else self._ids.token()[:16]

    async def _bounded(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        if (scope["method"], scope["path"], _kind_of(scope)) == self._in_pieces:
            await self._app(scope, TimedReceive(receive, in_pieces=True), send)
            return
        length = headers.get(b"content-length", b"")
        most = MOST_BYTES_WITHOUT_KEY if f"{scope['method']} {scope['path']}" in _WITHOUT_KEY else MOST_BYTES
        if length.isdigit() and int(length) > most:
            raise TooLarge(most)
        seen = 0
        timed = TimedReceive(receive, in_pieces=False)

        async def count() -> Message:
            nonlocal seen
            message = await timed()
            seen += len(message.get("body", b""))
            if seen > most:
                raise TooLarge(most)
            return message

        await self._app(scope, count, send)


def _kind_of(scope: Scope) -> str:
    """Return the content type that a route reads. If there are several headers, it is the first."""
    kind: bytes = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    return kind.partition(b";")[0].strip().decode("latin-1").lower()


def _shown(path: str) -> str:
    """A path for the log, escaped, so that a client cannot write log lines."""
    return path.encode("unicode_escape").decode()[:200]
