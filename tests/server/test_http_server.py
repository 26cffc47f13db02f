"""The API on a real socket, in a thread of its own."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import onthedot.server.http_server
from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Grant, Role
from onthedot.access.sessions import issue_token
from onthedot.model.errors import DefinitionError, StateError, StoreError
from onthedot.model.host_port import Listen, read_listen
from onthedot.server.http_server import HttpServer
from onthedot.settings import Settings
from tests.server.kit import MadeUpKeys

ANY = Listen(port=0)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'api.db'}"


@pytest.fixture
def serving(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    """One whose patience with requests under way is far beyond what a busy machine takes to stop it."""
    monkeypatch.setattr(onthedot.server.http_server, "_STOP_TIMEOUT", 60)
    server = HttpServer(url, Settings(), ANY, knows=None)
    server.start()
    yield server
    server.stop()


def test_it_answers_when_it_has_started_and_not_when_it_has_stopped(serving: HttpServer):
    assert httpx2.get(f"{serving.url}/api/v1/ready").json() == {"status": "ok"}
    with pytest.raises(StateError):
        serving.start()
    serving.stop()
    serving.stop()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{serving.url}/api/v1/health")
    assert not [thread for thread in threading.enumerate() if thread.name == "onthedot api"]


def test_no_answer_waits_for_an_acknowledgement(serving: HttpServer):
    with httpx2.Client(base_url=serving.url) as client:
        client.get("/api/v1/health")
        assert serving._server is not None
        [connection] = serving._server.server_state.connections
        theirs = connection.transport.get_extra_info("socket")
        assert theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_connection_that_stays_open_does_not_keep_it_from_stopping(serving: HttpServer):
    with httpx2.Client(base_url=serving.url) as client:
        assert client.get("/api/v1/health").status_code == 200
        began = time.monotonic()
        serving.stop()
        assert time.monotonic() - began < 30


@pytest.mark.slow
def test_who_follows_does_not_keep_it_from_stopping(serving: HttpServer):
    with httpx2.stream("GET", f"{serving.url}/api/v1/events", timeout=20) as following:
        assert following.status_code == 200
        began = time.monotonic()
        serving.stop()
        assert time.monotonic() - began < 30


def test_whoever_has_no_key_is_refused(url: str):
    keys = MadeUpKeys()
    server = HttpServer(url, Settings(), ANY, knows=lambda there: keys)
    server.start()
    try:
        assert httpx2.get(f"{server.url}/api/v1/whoami").status_code == 401
        known = keys.add(Role.VIEWER)
        assert httpx2.get(f"{server.url}/api/v1/whoami", headers=known).json()["role"] == "viewer"
    finally:
        server.stop()


@pytest.mark.slow
def test_whichever_server_is_asked_is_the_same(url: str):
    """Behind a load balancer: every request goes to the other one."""
    servers = [
        HttpServer(url, Settings(), ANY, knows=lambda there: Authenticator(there.store, there.clock)) for _ in range(2)
    ]
    for server in servers:
        server.start()
    turn = itertools.cycle(servers)

    def ask(method: str, path: str, bearer: str = "", **body: object) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        return httpx2.request(method, f"{next(turn).url}/api/v1{path}", headers=headers, json=body or None)

    try:
        once = servers[0].ask(lambda there: issue_token(there.store, "up", Grant(role=Role.ADMIN)))
        token = ask("POST", "/login", token=once).json()["token"]
        assert ask("POST", "/jobs", token, name="nap", sleep="0s").status_code == 201
        assert ask("GET", "/jobs/nap", token).json()["revision"] == 1
        assert ask("POST", "/runs", token, job="nap", key="k").json() == {"run_id": 1, "created": True}
        assert ask("POST", "/runs", token, job="nap", key="k").json() == {"run_id": 1, "created": False}
        assert ask("POST", "/logout", token).status_code == 204
        time.sleep(2.1)  # a server believes what it has read for two seconds: this is what is waited for
        assert {ask("GET", "/whoami", token).status_code for _ in servers} == {401}
    finally:
        for server in servers:
            server.stop()


@pytest.mark.parametrize("host", ["::", "192.0.2.1", "example.org"])
def test_nobody_listens_to_everybody_for_everybody(url: str, host: str):
    with pytest.raises(DefinitionError, match="--insecure"):
        HttpServer(url, Settings(), Listen(host=host), knows=None)


def test_a_port_that_is_taken_is_told_or_another_is_used(url: str):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DefinitionError, match=rf"127.0.0.1:{port} to be free.*--listen"):
            HttpServer(url, Settings(), Listen(port=port), knows=None).start()
        server = HttpServer(url, Settings(), Listen(port=port, elsewhere=True), knows=None)
        server.start()
        try:
            assert str(port) not in server.url
            assert httpx2.get(f"{server.url}/api/v1/health").status_code == 200
        finally:
            server.stop()


def test_a_store_that_cannot_be_opened_is_raised_to_whoever_starts_it(tmp_path: Path):
    (tmp_path / "no.db").write_text("this is no database, and is long enough not to be taken for an empty one" * 20)
    with pytest.raises(StoreError):
        HttpServer(f"sqlite:///{tmp_path / 'no.db'}", Settings(), ANY, knows=None).start()


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:70000", "::1:80", "host:-1", "host:\uff11"])
def test_what_is_no_place_to_listen_at(text: str):
    with pytest.raises(DefinitionError, match="HOST:PORT"):
        read_listen(text)
