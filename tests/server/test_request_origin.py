"""The origin of requests: clients behind proxies, allowed host names, and requests from pages of other sites."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from onthedot.access.permissions import Role
from onthedot.model.errors import DefinitionError
from onthedot.model.host_port import Listen
from onthedot.server.http_server import HttpServer
from onthedot.server.request_origin import PROBES, Hosts, Proxies, ProxyMiddleware, is_own, read_authority
from onthedot.settings import Settings
from tests.server.kit import Served, served

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
    """The statuses of six logins with one name, each with another forwarded address."""
    said = {"username": "ann", "password": "wrong"}
    with httpx2.Client(base_url=serving.url, timeout=60) as client:
        tries = [
            client.post("/api/v1/login", json=said, headers={"X-Forwarded-For": f"192.0.2.{number}"})
            for number in range(6)
        ]
    return {answer.status_code for answer in tries}


def source(serving: HttpServer, *headers: tuple[str, str]) -> str:
    """The source address of a change, from the audit."""
    with httpx2.Client(base_url=serving.url, timeout=60) as client:
        assert client.post("/api/v1/jobs", json={"name": "nap", "sleep": "0s"}, headers=list(headers)).is_success
        entries = client.get("/api/v1/audit").json()["items"]
        [entry] = [entry for entry in entries if entry["verb"] == "jobs.create"]
        text: str = entry["source"]
        return text


@pytest.mark.slow
def test_forwarded_addresses_are_ignored_without_a_trusted_proxy(start: Start):
    serving = start()
    assert logins(serving) == {401, 429}
    assert source(serving, ("X-Forwarded-For", "192.0.2.7")) == "127.0.0.1"


@pytest.mark.slow
def test_forwarded_addresses_of_a_trusted_proxy_are_used(start: Start):
    serving = start(trusted_proxies=HERE)
    assert logins(serving) == {401}
    forwarded = ("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-For", "192.0.2.7:4711")
    assert source(serving, *forwarded) == "192.0.2.7"


@pytest.mark.slow
def test_concurrent_requests_of_one_forwarded_address_are_limited(start: Start):
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
        assert httpx2.get(health).status_code == 200  # a request of the proxy itself


@pytest.mark.parametrize(
    ("peer", "said", "scheme"),
    [
        ("127.0.0.1", b"https", "https"),
        ("127.0.0.1", b"http, https", "https"),
        ("127.0.0.1", b"ftp", "http"),
        ("192.0.2.1", b"https", "http"),
    ],
)
async def test_the_forwarded_scheme_of_a_trusted_proxy_is_used(peer: str, said: bytes, scheme: str):
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
        (["2002:a00:1::1"], "2002:a00:1::1"),  # a 6to4 address of 10.0.0.1, which is no proxy
    ],
)
def test_the_client_is_the_last_address_that_is_no_proxy(said: list[str], client: str):
    headers = [(b"x-forwarded-for", text.encode()) for text in said]
    assert Proxies(["10.0.0.0/8"]).client_of("10.0.0.1", headers) == client


@pytest.mark.parametrize("text", ["", "*", "proxy.example.org", "10.0.0.1/8", "10.0.0.0/33"])
def test_an_invalid_proxy_address_is_refused(text: str):
    with pytest.raises(DefinitionError, match="trusted_proxies: expected an address"):
        Settings(trusted_proxies=(text,))


FILE = "jobs: [{name: theirs, run: id}]"
LOOPBACK = ["localhost", "LOCALHOST:99", "127.0.0.1", "127.0.0.1:1", "127.8.8.8", "[::1]", "[::1]:80", "localhost."]
NAMES = ["evil.example", "evil.example:7411", "localhost.evil.example", "127.0.0.1.evil.example", "foo.localhost"]
MALFORMED = ["", ":80", "a b", "a@localhost", "localhost/x", "localhost:x", "0x7f.1", "[::1", "localhost,evil.example"]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[HttpServer]:
    """A server on loopback without keys, which any page could reach through its user's browser."""
    settings = Settings(allow_hosts=("Jobs.Example.org",))
    server = HttpServer(f"sqlite:///{tmp_path / 'api.db'}", settings, Listen(port=0), None)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served() as server:
        yield server


def status(serving: HttpServer, host: str, path: str = "/api/v1/jobs") -> int:
    return httpx2.get(f"{serving.url}{path}", headers={"Host": host}).status_code


# ── host names ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_requests_with_a_foreign_host_name_are_refused(serving: HttpServer):
    for name in NAMES:
        answer = httpx2.get(f"{serving.url}/api/v1/jobs", headers={"Host": name})
        assert (answer.status_code, "items" in answer.text) == (421, False), name
        assert httpx2.get(f"{serving.url}/", headers={"Host": name}).status_code == 421
        assert httpx2.post(f"{serving.url}/api/v1/jobs", json={}, headers={"Host": name}).status_code == 421
    told = httpx2.get(f"{serving.url}/api/v1/jobs", headers={"Host": "evil.example"})
    assert "--allow-host evil.example" in told.json()["detail"]
    assert told.headers["x-request-id"] == told.json()["request_id"]


def test_the_server_answers_for_its_own_and_allowed_host_names(serving: HttpServer):
    assert {name: status(serving, name) for name in LOOPBACK} == dict.fromkeys(LOOPBACK, 200)
    assert status(serving, "jobs.example.org") == status(serving, "JOBS.example.org:443") == 200
    assert status(serving, "192.0.2.1") == 421


def test_an_invalid_host_header_is_refused(serving: HttpServer):
    for text in MALFORMED:
        assert status(serving, text) == 400, text
    host, port = serving.url.removeprefix("http://").split(":")
    for headers in (b"", b"Host: localhost\r\nHost: evil.example\r\n"):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"GET /api/v1/jobs HTTP/1.1\r\n" + headers + b"Connection: close\r\n\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 400 ")


def test_probes_are_answered_for_any_host_name(serving: HttpServer):
    for path in PROBES:
        assert status(serving, "evil.example", path) == 200
    assert status(serving, "evil.example", "/api/v1/health/") != 200


def test_without_keys_metrics_need_a_known_host_name(serving: HttpServer):
    assert status(serving, "evil.example", "/metrics") == 421
    assert status(serving, "localhost", "/metrics") == 200


async def test_with_a_key_metrics_are_answered_for_any_host_name(there: Served):
    headers = there.keys.add(Role.ADMIN) | {"Host": "jobs.internal.example"}
    assert (await there.client.get("/metrics", headers=headers)).status_code == 200
    assert (await there.client.get("/metrics", headers={"Host": "evil.example"})).status_code == 401


def test_a_public_server_answers_for_addresses_and_its_own_names():
    machine = socket.gethostname().lower()
    for listen in (Listen("::"), Listen("192.0.2.9"), Listen("jobs.example.org")):
        hosts = Hosts(listen)
        assert all(hosts.has(host) for host in ("192.0.2.1", "2001:db8::1", "127.0.0.1", "localhost", machine))
        assert not hosts.has("evil.example")
        assert hosts.has("jobs.example.org") == (listen.host == "jobs.example.org")


@pytest.mark.parametrize("name", ["http://jobs.example.org", "jobs.example.org:443", "*", "a b", ""])
def test_an_invalid_allowed_host_is_refused(name: str):
    with pytest.raises(DefinitionError, match="allow_hosts: expected"):
        Settings(allow_hosts=(name,))


# ── writes ───────────────────────────────────────────────────────────────────────────────────────────────────────

FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://server:81"},
    {"Origin": "http://server.evil.example"},
    {"Origin": "http://user@server"},
    {"Origin": "file://server"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},  # another port of the same host, too
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://server"},
]


@pytest.mark.parametrize("headers", FOREIGN)
async def test_a_page_of_another_origin_changes_nothing(there: Served, headers: dict[str, str]):
    """A valid key does not help."""
    admin = there.keys.add(Role.ADMIN)
    for method, path in (("POST", "/api/v1/submit_job"), ("PUT", "/api/v1/jobs/x"), ("DELETE", "/api/v1/jobs/x")):
        answer = await there.client.request(method, path, content=FILE, headers={**admin, **headers})
        assert answer.status_code == 403, answer.text
        assert answer.json()["detail"].startswith(("Origin: expected", "Sec-Fetch-Site: expected"))
    login = await there.client.post("/api/v1/login", json={"token": "x"}, headers=headers)
    assert login.status_code == 403
    assert await there.there.verbs().list_jobs() == []
    assert (await there.client.get("/api/v1/jobs", headers={**admin, **headers})).status_code == 200


@pytest.mark.parametrize(
    "kind", [{}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}]
)
async def test_no_route_reads_a_body_of_a_type_that_any_page_may_send(there: Served, kind: dict[str, str]):
    """Such bodies need no preflight: browsers send them without asking the server."""
    headers = {**there.keys.add(Role.ADMIN), **kind}
    bodies = {"/api/v1/jobs": b'{"name": "x", "noop": true}', "/jobs": b'{"name": "x", "noop": true}'}
    bodies |= {"/api/v1/runs": b'{"job": "x"}', "/api/v1/submit_job": FILE.encode(), "/api/v1/login": b'{"token": "x"}'}
    for path, body in bodies.items():
        answer = await there.client.post(path, content=body, headers=headers)
        assert answer.status_code in (415, 422), (path, answer.text)
    assert await there.there.verbs().list_jobs() == []


OWN = [
    {},
    {"Origin": "http://server"},
    {"Origin": "https://server"},  # TLS ends at a proxy
    {"Origin": "http://server:80", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
]


@pytest.mark.parametrize("headers", OWN)
async def test_programs_and_the_servers_own_pages_may_write(there: Served, headers: dict[str, str]):
    admin = there.keys.add(Role.ADMIN)
    body = {"name": "ours", "noop": True}
    assert (await there.client.post("/api/v1/jobs", json=body, headers={**admin, **headers})).status_code == 201


@pytest.mark.parametrize(
    ("scheme", "host", "origin", "own"),
    [
        ("https", "jobs.example.org", "https://jobs.example.org", True),
        ("https", "jobs.example.org", "http://jobs.example.org", False),
        ("http", "jobs.example.org:443", "https://jobs.example.org", True),
        ("http", "jobs.example.org:80", "https://jobs.example.org", False),
        ("http", "[::1]:7411", "http://[::1]:7411", True),
        ("http", "127.0.0.1:7411", "http://localhost:7411", False),
        ("http", "127.0.0.1:7411", "http://127.0.0.1:7412", False),
    ],
)
def test_an_origin_is_compared_by_scheme_host_and_port(scheme: str, host: str, origin: str, own: bool):
    assert is_own(origin, {"scheme": scheme, "headers": [(b"host", host.encode())]}) is own


def test_a_host_header_is_parsed_strictly():
    assert all(read_authority(text) is None for text in MALFORMED)
    assert all(read_authority(text) is not None for text in [*LOOPBACK, *NAMES])
