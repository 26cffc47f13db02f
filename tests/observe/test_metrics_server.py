"""Metrics beside a node without an API: real sockets."""

from __future__ import annotations

import gzip
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from onthedot.model.errors import DefinitionError
from onthedot.model.host_port import Listen
from onthedot.observe import metrics_server
from onthedot.observe.counters import Counters
from onthedot.observe.metrics_server import MetricsServer
from tests.observe.sample_events import started
from tests.processes.kit import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture(params=["127.0.0.1", "::1"])
def url(request: pytest.FixtureRequest, counters: Counters) -> Iterator[str]:
    door = MetricsServer(counters, Listen(request.param, 0))
    yield door.start()
    door.stop()
    door.stop()


def ask(url: str, method: str = "GET") -> tuple[int, bytes]:
    asked = urllib.request.Request(url, method=method)  # noqa: S310 - our own, on loopback
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_every_scrape_tells_what_was_counted_until_then(url: str, counters: Counters):
    counters(started())
    status, text = ask(url)
    assert (status, b'started_total{job_name="import",job_namespace="default"} 1.0' in text) == (200, True)
    counters(started())
    assert b'started_total{job_name="import",job_namespace="default"} 2.0' in ask(url)[1]


def test_it_is_compressed_for_who_takes_that(url: str, counters: Counters):
    counters(started())
    asked = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})  # noqa: S310 - our own, on loopback
    with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
        assert answer.headers["Content-Encoding"] == "gzip"
        assert b'started_total{job_name="import",job_namespace="default"} 1.0' in gzip.decompress(answer.read())


def test_nothing_else_is_there(url: str):
    assert ask(url, "HEAD") == (200, b"")
    assert ask(url.removesuffix("metrics"))[0] == 404
    assert ask(url + "/more")[0] == 404
    assert ask(url, "POST")[0] == 405


def test_who_connects_and_asks_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch, counters: Counters):
    monkeypatch.setattr(metrics_server._Asked, "timeout", 0.2)
    door = MetricsServer(counters, Listen("127.0.0.1", 0))
    port = int(door.start().removesuffix("/metrics").rpartition(":")[2])
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as silent:
            silent.sendall(b"GET /met")
            assert silent.recv(1) == b"", "it has hung up"
    finally:
        door.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=30)
    assert "onthedot metrics" not in {thread.name for thread in threading.enumerate()}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, counters: Counters) -> Iterator[int]:
    """The port of a door whose patience is short."""
    monkeypatch.setattr(metrics_server._Asked, "timeout", 0.5)
    door = MetricsServer(counters, Listen("127.0.0.1", 0))
    yield int(door.start().removesuffix("/metrics").rpartition(":")[2])
    door.stop()


def test_who_asks_a_letter_at_a_time_is_let_go(quick: int, capfd: pytest.CaptureFixture[str]):
    with socket.create_connection(("127.0.0.1", quick), timeout=30) as slow, pytest.raises(ConnectionError):
        dribble(slow)
    assert capfd.readouterr().err == "", "and nobody is told of it"


def dribble(slow: socket.socket) -> None:
    slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    for _ in range(300):
        slow.sendall(b"x")
        time.sleep(0.1)


def test_who_comes_when_all_places_are_taken_is_let_go(quick: int):
    with ExitStack() as stack:
        for _ in range(metrics_server._AT_ONCE):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", quick), timeout=30))
            held.sendall(b"GET ")
        last = stack.enter_context(socket.create_connection(("127.0.0.1", quick), timeout=30))
        assert last.recv(1) == b""
    wait_until(lambda: answers(quick), "a place again")


def answers(port: int) -> bool:
    try:
        return ask(f"http://127.0.0.1:{port}/metrics")[0] == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def test_a_port_that_is_taken_is_told(counters: Counters):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = Listen("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(DefinitionError, match=r"metrics: expected an address and a port .* got 127\.0\.0\.1:"):
            MetricsServer(counters, listen).start()
