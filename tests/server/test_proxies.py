"""Behind proxies: whose address counts. On real sockets, where the proxy is whoever connects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from onthedot.model.errors import DefinitionError
from onthedot.model.host_port import Listen
from onthedot.server.http_server import HttpServer
from onthedot.server.proxies import Proxies, ProxyMiddleware
from onthedot.settings import Settings

Start = Callable[..., HttpServer]
HERE = ("127.0.0.1",)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(**settings: object) -> HttpServer:
            url = f"sqlite:///{tmp_path / 'api.db'}"
            server = HttpServer(url, Settings(**settings), Listen(port=0), knows=None)  # type: ignore[arg-type]
            server.start()
            stack.callback(server.stop)
            return server

        yield begin


def logins(serving: HttpServer) -> set[int]:
    """The answers to six tries of one name, each of which says that it comes from elsewhere."""
    said = {"username": "ann", "password": "wrong"}
    with httpx2.Client(base_url=serving.url, timeout=60) as client:
        tries = [
            client.post("/api/v1/login", json=said, headers={"X-Forwarded-For": f"192.0.2.{number}"})
            for number in range(6)
        ]
    return {answer.status_code for answer in tries}


def source(serving: HttpServer, *headers: tuple[str, str]) -> str:
    """Where a change came from, as the audit has it."""
    with httpx2.Client(base_url=serving.url, timeout=60) as client:
        assert client.post("/api/v1/jobs", json={"name": "nap", "sleep": "0s"}, headers=list(headers)).is_success
        entries = client.get("/api/v1/audit").json()["items"]
        [entry] = [entry for entry in entries if entry["verb"] == "jobs.create"]
        text: str = entry["source"]
        return text


@pytest.mark.slow
def test_everybody_can_say_where_they_come_from(start: Start):
    serving = start()
    assert logins(serving) == {401, 429}
    assert source(serving, ("X-Forwarded-For", "192.0.2.7")) == "127.0.0.1"


@pytest.mark.slow
def test_a_trusted_proxy_is_believed(start: Start):
    serving = start(trusted_proxies=HERE)
    assert logins(serving) == {401}
    forwarded = ("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-For", "192.0.2.7:4711")
    assert source(serving, *forwarded) == "192.0.2.7"


@pytest.mark.slow
def test_one_forwarded_address_has_only_so_many_requests_at_once(start: Start):
    serving = start(trusted_proxies=HERE, api_clients_per_address=2)
    ann, bob = ({"X-Forwarded-For": f"192.0.2.{number}"} for number in (1, 2))
    health, events = f"{serving.url}/api/v1/health", f"{serving.url}/api/v1/events"
    with ExitStack() as stack:
        for _ in range(2):
            assert stack.enter_context(httpx2.stream("GET", events, headers=ann, timeout=60)).status_code == 200
        refused = httpx2.get(health, headers=ann)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert "from one address" in refused.json()["detail"]
        assert httpx2.get(health, headers=bob).status_code == 200
        assert httpx2.get(health).status_code == 200  # the proxy's own


@pytest.mark.parametrize(
    ("peer", "said", "scheme"),
    [
        ("127.0.0.1", b"https", "https"),
        ("127.0.0.1", b"http, https", "https"),
        ("127.0.0.1", b"ftp", "http"),
        ("192.0.2.1", b"https", "http"),
    ],
)
async def test_the_scheme_is_what_a_trusted_proxy_says(peer: str, said: bytes, scheme: str):
    seen = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["scheme"])

    async def nothing(*_: object) -> Any:
        raise AssertionError

    scope = {"type": "http", "client": (peer, 1), "scheme": "http", "headers": [(b"x-forwarded-proto", said)]}
    await ProxyMiddleware(note, proxies=Proxies(HERE), most=1)(scope, nothing, nothing)
    assert seen == [scheme]


@pytest.mark.parametrize(
    ("said", "client"),
    [
        ([], "10.0.0.1"),
        (["192.0.2.7"], "192.0.2.7"),
        (["203.0.113.9, 192.0.2.7"], "192.0.2.7"),
        (["203.0.113.9", "192.0.2.7, 10.0.0.3", "10.0.0.2"], "192.0.2.7"),
        (["192.0.2.7:80"], "192.0.2.7"),
        (["[2001:db8::7]:80"], "2001:db8::7"),
        (["2001:db8::7"], "2001:db8::7"),
        (["::ffff:192.0.2.7"], "192.0.2.7"),
        (["10.0.0.9, 10.0.0.8"], "10.0.0.9"),
        (["192.0.2.7, unknown, 10.0.0.2"], "10.0.0.2"),
        ([""], "10.0.0.1"),
        (["192.0.2.7\r\n"], "192.0.2.7"),
        (["2002:a00:1::1"], "2002:a00:1::1"),  # holds 10.0.0.1, and is no proxy
    ],
)
def test_the_last_address_that_is_no_proxy_is_the_client(said: list[str], client: str):
    headers = [(b"x-forwarded-for", text.encode()) for text in said]
    assert Proxies(["10.0.0.0/8"]).client_of("10.0.0.1", headers) == client


@pytest.mark.parametrize("text", ["", "*", "proxy.example.org", "10.0.0.1/8", "10.0.0.0/33"])
def test_what_is_no_address_of_a_proxy(text: str):
    with pytest.raises(DefinitionError, match="trusted_proxies: expected an address"):
        Settings(trusted_proxies=(text,))
