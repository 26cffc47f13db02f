"""A real HTTP server on a loopback port whose pages are functions: for tests of HTTP jobs."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Page = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Passes each request to the function of its path, and records it."""

    server: Server
    body = b""

    def answer(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        """Send a complete answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _any(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.site.asked.append(self)
        page = self.server.site.pages.get(self.path.partition("?")[0])
        with suppress(BrokenPipeError, ConnectionResetError):  # the client may disconnect early
            page(self) if page else self.answer(404, b"no such page")

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = _any  # noqa: N815 - the library's names

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@dataclass
class Site:
    """The server's pages, the requests that it got, and its address."""

    port: int
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[Handler] = field(default_factory=list)
    # Set at the end of the test: pages that wait must end.
    over: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


class Server(ThreadingHTTPServer):
    daemon_threads = True
    site: Site

    def handle_error(self, request: object, client_address: object) -> None:
        """Some tests are about a client that disconnects."""


@contextmanager
def serving(pages: dict[str, Page], context: ssl.SSLContext | None = None) -> Iterator[Site]:
    """A server with these pages, until the block ends. With `context` it uses TLS."""
    server = Server(("127.0.0.1", 0), Handler)
    server.site = Site(server.server_address[1], pages)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.site
    finally:
        server.site.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
