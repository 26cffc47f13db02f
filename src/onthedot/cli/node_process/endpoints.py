"""Serves the HTTP API and the metrics of a node's process."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Grant, Role
from onthedot.access.sessions import issue_token
from onthedot.cli.audit import record_change
from onthedot.cli.errors import on_this_store
from onthedot.model.errors import DefinitionError
from onthedot.model.host_port import Listen, read_listen

if TYPE_CHECKING:
    from onthedot.cli.up import ApiOptions
    from onthedot.observe.counters import Counters
    from onthedot.observe.metrics_server import MetricsServer
    from onthedot.operations.open_verbs import OpenStore
    from onthedot.server.http_server import HttpServer
    from onthedot.settings import Settings


class Endpoint(Protocol):
    """A service in a node's process, such as the HTTP API."""

    def start(self) -> list[tuple[str, str]]:
        """Start; return what the banner shows about it, as pairs of a word and a text."""
        ...

    def stop(self) -> None:
        """Stop. May be called twice, and without a start."""
        ...

    def ping(self, answer: Callable[[], None]) -> None:
        """Call `answer` on the service's event loop if that is running; else call it at once."""
        ...


class Api:
    """The HTTP API. If it cannot run here, the banner shows why."""

    def __init__(self, given: ApiOptions, url: str, settings: Settings, counters: Counters | None = None) -> None:
        self._given = given
        self._url = url
        self._settings = settings
        self._counters = counters
        self._serving: HttpServer | None = None
        # Made here: `start` runs on another thread, where click does not know the options of the command.
        self._make_key = on_this_store("'onthedot keys create NAME'")
        self._make_link = on_this_store("'onthedot sessions link URL'")

    def start(self) -> list[tuple[str, str]]:
        """Serve; return what the banner shows about it. `DefinitionError` if `--listen` was given and it cannot run."""
        given = self._given
        if given.off:
            return []
        missing = self._missing()
        if missing:
            if given.listen is not None:
                raise DefinitionError(f"--listen: {missing}")
            return [("api", missing)]
        from onthedot.server.http_server import HttpServer, settle_memory

        knows = None if given.insecure else lambda there: Authenticator(there.store, there.clock)
        self._serving = HttpServer(self._url, self._settings, self._listen(), knows, self._counters)
        self._serving.start()
        settle_memory()
        return [("api", self._told(self._serving)), *self._elsewhere(self._serving), *self._warnings(self._serving)]

    def _listen(self) -> Listen:
        return Listen(elsewhere=True) if self._given.listen is None else read_listen(self._given.listen)

    def _missing(self) -> str:
        if find_spec("fastapi") is None or find_spec("uvicorn") is None:
            return "not available: the HTTP API is not installed (pip install 'onthedot[server]')"
        if self._url.startswith("memory:"):
            return "not available: only this program can use a store in memory; choose another store with --store"
        return ""

    def _told(self, serving: HttpServer) -> str:
        if self._given.insecure:
            return f"{serving.url} (without keys: everybody on this machine has access)"
        if not self._given.link:
            return f"{serving.url} ({self._make_key} makes a key)"
        if not self._given.terminal:  # otherwise every reader of the log could sign in
            link = self._make_link.replace("URL", serving.url, 1)
            return f"{serving.url} ({link} makes a link to sign in with)"

        async def issue(there: OpenStore) -> str:
            token = await issue_token(there.store, "up", Grant(role=Role.ADMIN))
            await record_change(there.store, "sessions.link", "token/up", after={"role": "admin"})
            return token

        token = serving.ask(issue)
        return f"{serving.url}/?token={token} (once, within 15 minutes)"

    def _elsewhere(self, serving: HttpServer) -> list[tuple[str, str]]:
        usual = self._listen()
        if not usual.elsewhere or serving.url.endswith(f":{usual.port}"):
            return []
        return [
            ("port", f"{usual.port} is taken by another program, so the API uses another; --listen HOST:PORT sets it")
        ]

    def _warnings(self, serving: HttpServer) -> list[tuple[str, str]]:
        if self._listen().is_loopback or serving.url.startswith("https:"):
            return []
        return [
            (
                "warning",
                "the API listens beyond this machine in plain HTTP: others on the network can read keys and passwords; "
                "give --tls-cert, or listen on 127.0.0.1 behind a proxy that speaks HTTPS",
            )
        ]

    def stop(self) -> None:
        """Stop. May be called twice."""
        if self._serving is not None:
            self._serving.stop()

    def ping(self, answer: Callable[[], None]) -> None:
        """Call `answer` on the API's event loop."""
        if self._serving is None:
            answer()
        else:
            self._serving.ping(answer)


class Metrics:
    """Metrics for Prometheus, of a node without an API."""

    def __init__(self, counters: Counters, listen: Listen) -> None:
        self._counters = counters
        self._listen = listen
        self._door: MetricsServer | None = None

    def start(self) -> list[tuple[str, str]]:
        """Listen; return what the banner shows about it."""
        from onthedot.observe.metrics_server import MetricsServer

        self._door = MetricsServer(self._counters, self._listen)
        return [("metrics", self._door.start())]

    def stop(self) -> None:
        """Stop. May be called twice."""
        if self._door is not None:
            self._door.stop()

    def ping(self, answer: Callable[[], None]) -> None:
        """Call `answer` at once: there is no event loop, because each request has its own thread."""
        answer()
