"""Serves the API in a thread with its own event loop, so that planner and workers never wait for a request.

The module also has what only this server needs: its TLS certificate, and a filter for repeated errors in its log.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import uvicorn

from onthedot.loop_thread import ping_loop
from onthedot.model.errors import DefinitionError, StateError
from onthedot.model.host_port import Listen
from onthedot.observe.counters import Counters
from onthedot.operations.open_verbs import OpenStore, opened
from onthedot.server import connections
from onthedot.server.app import make_app
from onthedot.server.auth import Keys
from onthedot.server.connections import Connections, TimedProtocol, affordable, listen_at
from onthedot.server.request_origin import Proxies
from onthedot.settings import Settings

T = TypeVar("T")
logger = logging.getLogger("onthedot.server")

_STOP_TIMEOUT = 5  # seconds for requests under way when the server stops


class HttpServer:
    """Serves the API of a store from `start` to `stop`.

    `knows` makes the object that checks keys. With None every caller may do everything; this is allowed on loopback
    only. `counters` are the metrics of the node in this process."""

    def __init__(
        self,
        store: str,
        settings: Settings,
        listen: Listen,
        knows: Callable[[OpenStore], Keys] | None,
        counters: Counters | None = None,
    ) -> None:
        if knows is None and not listen.is_loopback:
            raise DefinitionError(
                f"listen: expected an address of this machine alone for a server that lets everybody in, "
                f"got {listen.host!r}; use 127.0.0.1, or leave --insecure out"
            )
        self._store = store
        self._settings = settings
        self._listen = listen
        self._knows = knows
        self._counters = counters
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._server: uvicorn.Server | None = None
        self._error: BaseException | None = None
        self._certificate: Certificate | None = None
        self._open_store: OpenStore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.url = ""

    def start(self) -> None:
        """Start, and return when the server answers. Raises the error if it cannot start."""
        if self._thread is not None:
            raise StateError("the server is running already; stop it before you start it again")
        settings, proxies = self._settings, Proxies(self._settings.trusted_proxies)
        self._certificate = Certificate(settings.tls_cert, settings.tls_key) if settings.tls_cert else None
        most = affordable(settings.api_clients)
        each = max(1, settings.api_clients_per_address * most // settings.api_clients)
        answers_refused = self._certificate is None
        listening = _bind(self._listen, Connections(most, each, proxies), answers_refused=answers_refused)
        host, port = listening.getsockname()[:2]
        self.url = f"{'https' if self._certificate else 'http'}://{Listen(host, port).text}"
        self._thread = threading.Thread(target=self._main, args=(listening,), name="onthedot api", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    def ask(self, work: Callable[[OpenStore], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the server's event loop, with the server's open store."""
        if self._open_store is None or self._loop is None:
            raise StateError("the server is not running; start it first")
        return asyncio.run_coroutine_threadsafe(work(self._open_store), self._loop).result()

    def ping(self, answer: Callable[[], None]) -> None:
        """Call `answer` on the server's event loop; call it at once if the loop does not run."""
        ping_loop(self._loop, answer)

    def stop(self) -> None:
        """Accept no more requests, let running ones finish within five seconds, and close. It may be called twice."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT + 5)

    def _main(self, listening: socket.socket) -> None:
        try:
            with listening:
                asyncio.run(self._serve(listening))
        except BaseException as error:  # noqa: BLE001 - `start` raises it
            self._error = error
        self._ready.set()

    async def _serve(self, listening: socket.socket) -> None:
        async with opened(self._store, self._settings) as open_store:
            self._open_store, self._loop = open_store, asyncio.get_running_loop()
            keys = None if self._knows is None else self._knows(open_store)
            app = make_app(open_store, keys, counters=self._counters, listen=self._listen)
            config = uvicorn.Config(
                app, log_config=None, access_log=False, lifespan="off", http=TimedProtocol, ws="none",
                server_header=False, proxy_headers=False, timeout_graceful_shutdown=_STOP_TIMEOUT,
            )  # fmt: skip
            self._server = _Server(config, self._certificate, self._ready.set, app.state.followers.close)
            try:
                with repeats_filtered():
                    await self._server.serve(sockets=[listening])
            finally:
                if keys is not None:
                    await keys.close()


def settle_memory() -> None:
    """Exclude the present objects from garbage collection, in a process that only serves. A bulk submit is then 25 %
    faster."""
    gc.collect()
    gc.freeze()


class _Server(uvicorn.Server):
    """Calls `answers` when the server answers, and `stops` when it is about to stop."""

    def __init__(
        self,
        config: uvicorn.Config,
        certificate: Certificate | None,
        answers: Callable[[], None],
        stops: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._certificate = certificate
        self._answers = answers
        self._stops = stops

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, as the parent class does, but with a time-out for TLS handshakes."""
        loop = asyncio.get_running_loop()
        tls: dict[str, Any] = {}
        if self._certificate is not None:
            tls = {"ssl": self._certificate.context, "ssl_handshake_timeout": connections.HEADERS}
            tls["ssl_shutdown_timeout"] = connections.HEADERS

        def connection() -> TimedProtocol:
            return TimedProtocol(config=self.config, server_state=self.server_state, app_state={})

        self.servers = [
            await loop.create_server(connection, sock=one, backlog=self.config.backlog, **tls) for one in sockets or ()
        ]
        self.started = True
        self._answers()

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # once a second
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, TimedProtocol):
                    connection.check(now)
        if counter % 600 == 0 and self._certificate is not None:  # once a minute
            self._certificate.renew()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stops()  # streams do not end by themselves
        await super().shutdown(sockets)


def _bind(listen: Listen, connections: Connections, *, answers_refused: bool) -> socket.socket:
    try:
        return listen_at(listen, connections, answers_refused=answers_refused)
    except OSError as error:
        if listen.elsewhere:
            return _bind(Listen(listen.host, 0), connections, answers_refused=answers_refused)
        raise DefinitionError(
            f"listen: expected {listen.host}:{listen.port} to be free, but {error.strerror or error}; "
            "name another with --listen"
        ) from error


# ── TLS ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Certificate:
    """A certificate chain in PEM and its private key, in one file or two. It is loaded again when the files change.
    `context` is the TLS context of the sockets."""

    def __init__(self, chain: str, key: str = "") -> None:
        self._chain = Path(chain)
        self._key = Path(key or chain)
        self._changed_at = self._when_changed()
        self.context = self._load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))

    def renew(self) -> None:
        """Load the files again if they have changed. If that fails, log the error and keep the current certificate."""
        try:
            changed_at = self._when_changed()
            if changed_at == self._changed_at:
                return
            self._load(
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            )  # try a new context first: a failed load would break the one in use
            self._load(self.context)
        except DefinitionError as error:
            logger.error("the new certificate is not used: %s", error)
            return
        self._changed_at = changed_at
        logger.info("uses the new certificate in %s", self._chain)

    def _when_changed(self) -> tuple[int, int]:
        try:
            return self._chain.stat().st_mtime_ns, self._key.stat().st_mtime_ns
        except OSError as error:
            raise DefinitionError(
                f"tls_cert: expected files with a certificate and its key, but {error.filename}: {error.strerror}"
            ) from error

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        try:
            context.load_cert_chain(self._chain, self._key, password=_no_password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise DefinitionError(
                f"tls_cert: expected a certificate chain in PEM in {self._chain}, and its key without a password in "
                f"{self._key}, got something else ({reason})"
            ) from error
        return context


def _no_password() -> str:
    """Refuse to give a password. Without this function OpenSSL would ask for one on the terminal."""
    raise ValueError("the key has a password")


# ── its log ────────────────────────────────────────────────────────────────────────────────────────────────────

EVERY = 60.0
"""Seconds between two log records of the same error."""
_MOST = 1_000  # different errors in memory


class OnceAMinute(logging.Filter):
    """A log filter for repeated errors, because any client can cause thousands per second.

    It passes the first of several equal warnings or errors. After a minute it passes the next one, with the number of
    those that it dropped. Errors are equal if they have the same type and were raised at the same line. Other records
    are equal if their message is the same without its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[object, tuple[float, int]] = {}  # time of the last passed record, and the count since then

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log this record."""
        if record.levelno < logging.WARNING:
            return True
        key = _key(record)
        at, held = self._seen.get(key, (None, 0))
        if at is not None and 0 <= record.created - at < EVERY:
            self._seen[key] = at, held + 1
            return False
        if len(self._seen) >= _MOST:
            self._seen.clear()
        self._seen[key] = record.created, 0
        if held:
            record.msg, record.args = f"{record.getMessage()} (and {held} more like this since the last one)", ()
        return True


def _key(record: logging.LogRecord) -> object:
    error, trace = record.exc_info[1:] if record.exc_info else (None, None)
    if error is None:
        return record.levelno, record.msg
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return type(error), trace and (trace.tb_frame.f_code.co_filename, trace.tb_lineno)


@contextmanager
def repeats_filtered() -> Iterator[None]:
    """Filter repeated errors in the log of the server and of the running event loop, until the context ends."""
    once = OnceAMinute()
    logger.addFilter(once)
    asyncio.get_running_loop().set_exception_handler(_report)
    try:
        yield
    finally:
        logger.removeFilter(once)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    del loop
    logger.error(str(context.get("message", "error in the event loop")), exc_info=context.get("exception"))
