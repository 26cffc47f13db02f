"""Serves the API in a thread with its own event loop, so planner and workers never wait for a request."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvicorn

from onthedot.loop_thread import ping_loop
from onthedot.model.errors import DefinitionError, StateError
from onthedot.model.host_port import Listen
from onthedot.observe.counters import Counters
from onthedot.operations.open_verbs import OpenStore, opened
from onthedot.server import timeouts
from onthedot.server.app import make_app
from onthedot.server.auth import Keys
from onthedot.server.connections import Connections, affordable, listen_at
from onthedot.server.log_filter import repeats_filtered
from onthedot.server.proxies import Proxies
from onthedot.server.timeouts import TimedProtocol
from onthedot.server.tls import Certificate
from onthedot.settings import Settings

T = TypeVar("T")

_STOP_TIMEOUT = 5  # seconds for requests under way when the server stops


class HttpServer:
    """Serves the API of a store from `start` to `stop`. `knows` makes the checks of keys for that store. With None
    every caller may do everything, which is allowed on loopback only. `counters` are those of this process' node."""

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
        self._there: OpenStore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.url = ""

    def start(self) -> None:
        """Start, and return when it answers. Raises what keeps it from that."""
        if self._thread is not None:
            raise StateError("the server is running already; stop it before you start it again")
        settings, proxies = self._settings, Proxies(self._settings.trusted_proxies)
        self._certificate = Certificate(settings.tls_cert, settings.tls_key) if settings.tls_cert else None
        most = affordable(settings.api_clients)
        each = max(1, settings.api_clients_per_address * most // settings.api_clients)
        tells = self._certificate is None
        listening = _bind(self._listen, Connections(most, each, proxies), tells=tells)
        host, port = listening.getsockname()[:2]
        self.url = f"{'https' if self._certificate else 'http'}://{Listen(host, port).text}"
        self._thread = threading.Thread(target=self._main, args=(listening,), name="onthedot api", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    def ask(self, work: Callable[[OpenStore], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the server's loop, with the store that it has opened."""
        if self._there is None or self._loop is None:
            raise StateError("the server is not running; start it first")
        return asyncio.run_coroutine_threadsafe(work(self._there), self._loop).result()

    def ping(self, answer: Callable[[], None]) -> None:
        """Call this on the server's event loop; at once if it does not run."""
        ping_loop(self._loop, answer)

    def stop(self) -> None:
        """Take no more requests, let running ones end within five seconds, and close. It may be called twice."""
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
        async with opened(self._store, self._settings) as there:
            self._there, self._loop = there, asyncio.get_running_loop()
            keys = None if self._knows is None else self._knows(there)
            app = make_app(there, keys, counters=self._counters, listen=self._listen)
            config = uvicorn.Config(
                app, log_config=None, access_log=False, lifespan="off", http=TimedProtocol, ws="none",
                server_header=False, proxy_headers=False, timeout_graceful_shutdown=_STOP_TIMEOUT,
            )  # fmt: skip
            self._server = _Server(config, self._certificate, self._ready.set, app.state.feeds.close)
            try:
                with repeats_filtered():
                    await self._server.serve(sockets=[listening])
            finally:
                if keys is not None:
                    await keys.close()


def settle_memory() -> None:
    """Exclude the present objects from garbage collection, in a process that only serves. A bulk submit takes a quarter
    less time."""
    gc.collect()
    gc.freeze()


class _Server(uvicorn.Server):
    """Calls back when it answers, and when it is about to stop."""

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
        """Like its parent, with a time-out for TLS handshakes."""
        loop = asyncio.get_running_loop()
        tls: dict[str, Any] = {}
        if self._certificate is not None:
            tls = {"ssl": self._certificate.context, "ssl_handshake_timeout": timeouts.HEADERS}
            tls["ssl_shutdown_timeout"] = timeouts.HEADERS

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


def _bind(listen: Listen, connections: Connections, *, tells: bool) -> socket.socket:
    try:
        return listen_at(listen, connections, tells=tells)
    except OSError as error:
        if listen.elsewhere:
            return _bind(Listen(listen.host, 0), connections, tells=tells)
        raise DefinitionError(
            f"listen: expected {listen.host}:{listen.port} to be free, but {error.strerror or error}; "
            "name another with --listen"
        ) from error
