"""Serves `GET /metrics` for Prometheus, in a thread, for a node that serves no API."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from onthedot.model.errors import DefinitionError
from onthedot.model.host_port import Listen
from onthedot.observe.content_negotiation import compressed
from onthedot.observe.counters import Counters
from onthedot.observe.metrics import NodeMetrics, exposed

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

logger = logging.getLogger("onthedot.metrics")

_TIMEOUT = 10  # seconds for a connection, from its beginning to its end
_AT_ONCE = 16


class MetricsServer:
    """Serves a node's metrics from `start` to `stop`, to everyone who can reach the address: it checks no keys."""

    def __init__(self, counters: Counters, listen: Listen) -> None:
        self._metrics = NodeMetrics(counters)
        self._listen = listen
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Start, and return the URL when it answers. `DefinitionError` if the address is not available."""
        host, port = self._listen.host, self._listen.port
        server = _Server6 if ":" in host else _Server
        try:
            self._server = server((host, port), _Asked)
        except OSError as error:
            told = f"expected an address and a port of this machine that are free, got {self._listen.text}"
            raise DefinitionError(f"metrics: {told} ({error.strerror or error})") from error
        self._server.set_app(self._answer)
        self._thread = threading.Thread(target=self._server.serve_forever, name="onthedot metrics", daemon=True)
        self._thread.start()
        return f"http://{Listen(host, self._server.server_port).text}/metrics"

    def stop(self) -> None:
        """Stop. It may be called twice."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None

    def _answer(self, asked: WSGIEnvironment, begin: StartResponse) -> Iterable[bytes]:
        status, media_type, body = "200 OK", "text/plain; charset=utf-8", b""
        more: dict[str, str] = {}
        if asked["PATH_INFO"] != "/metrics":
            status, body = "404 Not Found", b"expected /metrics, got another path\n"
        elif asked["REQUEST_METHOD"] not in ("GET", "HEAD"):
            status, body = "405 Method Not Allowed", b"expected GET or HEAD, got another method\n"
        else:
            body, media_type = exposed(self._metrics.collect(), asked.get("HTTP_ACCEPT", ""))
            body, more = compressed(body, asked.get("HTTP_ACCEPT_ENCODING", ""))
        told = [("Content-Type", media_type), ("Content-Length", str(len(body))), ("Server", "onthedot"), *more.items()]
        begin(status, [*told, ("Allow", "GET, HEAD")] if status.startswith("405") else told)
        return [] if asked["REQUEST_METHOD"] == "HEAD" else [body]


class _Asked(WSGIRequestHandler):
    """One connection. It ends after a time-out, and writes nothing to the terminal."""

    timeout = _TIMEOUT

    def setup(self) -> None:
        """Begin, and start the time-out."""
        super().setup()
        self._end = threading.Timer(self.timeout, self._hang_up)
        self._end.daemon = True
        self._end.start()

    def finish(self) -> None:
        """End, and stop the time-out."""
        self._end.cancel()
        super().finish()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, *given: Any) -> None:
        self._seats = threading.Semaphore(_AT_ONCE)
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread, or close it if too many are open."""
        if self._seats.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle one connection, from beginning to end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._seats.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log errors of clients for debugging only."""
        del request
        logger.debug("metrics: a connection of %s ended with an error", client_address, exc_info=True)

    def server_bind(self) -> None:
        """Bind like the grandparent: the parent looks up the name of this machine, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _Server6(_Server):
    address_family = socket.AF_INET6
