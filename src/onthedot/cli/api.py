"""The HTTP API beside a node: where it listens, and the link that lets its owner in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from onthedot.cli.advice import on_this_store
from onthedot.cli.granting import audit
from onthedot.model.errors import DefinitionError

if TYPE_CHECKING:
    from onthedot.model.host_port import Listen
    from onthedot.observe.counters import Counters
    from onthedot.operations.open_verbs import OpenStore
    from onthedot.server.http_server import HttpServer
    from onthedot.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])


_QUOTAS = {
    "submits": "How many runs one owner may ask for in a minute.  [default: any number]",
    "runs": "How many runs of one owner's jobs may wait or run.  [default: any number]",
    "jobs": "How many jobs one owner may have.  [default: any number]",
}


class ApiGiven(NamedTuple):
    """What was said about it. Without `listen`: at the usual port, or another free one; with `off`, nowhere."""

    listen: str | None = None
    off: bool = False
    insecure: bool = False
    link: bool = False  # whether its owner signs in by a link with a one-time token
    terminal: bool = False  # whether a person reads what is told: only then the link is made and told


class Api:
    """The API of a node's process, from `start` to `stop`. Where there can be none, it says why."""

    def __init__(self, given: ApiGiven, url: str, settings: Settings, counters: Counters | None = None) -> None:
        self._given = given
        self._url = url
        self._settings = settings
        self._counters = counters
        self._serving: HttpServer | None = None
        # Here, because it starts on another thread, where click does not know what the command was given.
        self._make_key = on_this_store("'onthedot keys create NAME'")
        self._make_link = on_this_store("'onthedot sessions link URL'")

    def start(self) -> list[tuple[str, str]]:
        """Serve; what is to be told about it, as pairs of a word and a text."""
        given = self._given
        if given.off:
            return []
        missing = self._missing()
        if missing:
            if given.listen is not None:
                raise DefinitionError(f"--listen: {missing}")
            return [("api", missing)]
        from onthedot.access.authenticator import Authenticator
        from onthedot.server.http_server import HttpServer, settle_memory

        knows = None if given.insecure else lambda there: Authenticator(there.store, there.clock)
        self._serving = HttpServer(self._url, self._settings, self._listen(), knows, self._counters)
        self._serving.start()
        settle_memory()
        return [("api", self._told(self._serving)), *self._elsewhere(self._serving), *self._warnings(self._serving)]

    def _listen(self) -> Listen:
        from onthedot.model.host_port import Listen, read_listen

        return Listen(elsewhere=True) if self._given.listen is None else read_listen(self._given.listen)

    def _missing(self) -> str:
        if find_spec("fastapi") is None or find_spec("uvicorn") is None:
            return "none: it is not installed (pip install 'onthedot[server]')"
        if self._url.startswith("memory:"):
            return "none: a store in memory is for this program alone; name another with --store"
        return ""

    def _told(self, serving: HttpServer) -> str:
        if self._given.insecure:
            return f"{serving.url} (lets everybody on this machine in)"
        if not self._given.link:
            return f"{serving.url} ({self._make_key} makes a key)"
        if not self._given.terminal:  # what is kept or read by others must not let them in
            link = self._make_link.replace("URL", serving.url, 1)
            return f"{serving.url} ({link} makes a link to sign in with)"
        from onthedot.access.grants import Grant
        from onthedot.access.permissions import Role
        from onthedot.access.sessions import issue_token

        async def issue(there: OpenStore) -> str:
            token = await issue_token(there.store, "up", Grant(role=Role.ADMIN))
            await audit(there.store, "sessions.link", "token/up", after={"role": "admin"})
            return token

        token = serving.ask(issue)
        return f"{serving.url}/?token={token} (once, within 15 minutes)"

    def _elsewhere(self, serving: HttpServer) -> list[tuple[str, str]]:
        usual = self._listen()
        if not usual.elsewhere or serving.url.endswith(f":{usual.port}"):
            return []
        return [("port", f"{usual.port} is taken by another program, so this is another; --listen HOST:PORT sets one")]

    def _warnings(self, serving: HttpServer) -> list[tuple[str, str]]:
        if self._listen().is_loopback or serving.url.startswith("https:"):
            return []
        return [
            (
                "warning",
                "the API listens beyond this machine in plain HTTP: others in between can read keys and passwords; "
                "give --tls-cert, or listen on 127.0.0.1 behind a proxy that speaks HTTPS",
            )
        ]

    def stop(self) -> None:
        """Twice is fine."""
        if self._serving is not None:
            self._serving.stop()

    def ping(self, answer: Callable[[], None]) -> None:
        """See `Beside`."""
        if self._serving is None:
            answer()
        else:
            self._serving.ping(answer)


def with_api(command: F) -> F:
    """`--listen`, `--no-api` and `--insecure`, which `api_given` takes; the others are settings."""
    what = "Where the HTTP API listens.  [default: 127.0.0.1:7411, or another port if that is taken]"
    everybody = "Let everybody in without a key: on this machine only."
    chain = "Serve HTTPS with the certificate chain in this file (PEM).  [default: plain HTTP]"
    private = "Its private key.  [default: in the same file]"
    hosts = "Answer requests for this host, too, such as jobs.example.org; more than once.  [default: where it listens]"
    issuer = "Let in who this identity provider knows (OpenID Connect), such as https://example.auth0.com/."
    client = "What the identity provider calls this server.  [with --sign-on]"
    proxy = "An address or network of a proxy whose X-Forwarded-For counts; may be given again.  [default: none]"
    command = click.option(
        "--trusted-proxy", "trusted_proxies", metavar="ADDRESS", multiple=True, envvar="ONTHEDOT_TRUSTED_PROXY",
        help=proxy,
    )(command)  # fmt: skip
    for name, quota in _QUOTAS.items():
        variable = f"ONTHEDOT_QUOTA_{name.upper()}"
        option = click.option(f"--quota-{name}", metavar="N", type=click.IntRange(1), envvar=variable, help=quota)
        command = option(command)
    command = click.option("--sign-on-client", metavar="ID", envvar="ONTHEDOT_SIGN_ON_CLIENT", help=client)(command)
    command = click.option("--sign-on", metavar="ISSUER", envvar="ONTHEDOT_SIGN_ON", help=issuer)(command)
    command = click.option("--tls-key", metavar="FILE", envvar="ONTHEDOT_TLS_KEY", help=private)(command)
    command = click.option("--tls-cert", metavar="FILE", envvar="ONTHEDOT_TLS_CERT", help=chain)(command)
    command = click.option(
        "--allow-host", "allow_hosts", metavar="NAME", multiple=True, envvar="ONTHEDOT_ALLOW_HOST", help=hosts
    )(command)
    command = click.option("--insecure", is_flag=True, help=everybody)(command)
    command = click.option("--no-api", is_flag=True, help="Serve no HTTP API.")(command)
    return click.option("--listen", metavar="HOST:PORT", help=what)(command)


def api_given(options: dict[str, Any], *, link: bool) -> ApiGiven:
    """What was said, taken out of a command's options."""
    listen, off, insecure = options.pop("listen"), options.pop("no_api"), options.pop("insecure")
    if off and (listen is not None or insecure):
        raise click.UsageError("expected --no-api by itself, got --listen or --insecure beside it; leave one out")
    terminal = sys.stdout.isatty() and not options.get("as_json")
    return ApiGiven(listen, off, insecure, link, terminal)
