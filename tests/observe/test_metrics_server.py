"""The metrics server of a node without an API: scrapes, limits and time-outs on real sockets."""

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
    server = MetricsServer(counters, Listen(request.param, 0))
    yield server.start()
    server.stop()
    server.stop()


def ask(url: str, method: str = "GET") -> tuple[int, bytes]:
    asked = urllib.request.Request(url, method=method)  # noqa: S310 - our own, on loopback
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_every_scrape_has_the_current_counts(url: str, counters: Counters):
    counters(started())
    status, text = ask(url)
    assert (status, b'started_total{job_name="import",job_namespace="default"} 1.0' in text) == (200, True)
    counters(started())
    assert b'started_total{job_name="import",job_namespace="default"} 2.0' in ask(url)[1]


def test_a_scrape_is_compressed_if_the_client_accepts_it(url: str, counters: Counters):
    counters(started())
    asked = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})  # noqa: S310 - our own, on loopback
    with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
        assert answer.headers["Content-Encoding"] == "gzip"
        assert b'started_total{job_name="import",job_namespace="default"} 1.0' in gzip.decompress(answer.read())


def test_other_paths_and_methods_are_refused(url: str):
    assert ask(url, "HEAD") == (200, b"")
    assert ask(url.removesuffix("metrics"))[0] == 404
    assert ask(url + "/more")[0] == 404
    assert ask(url, "POST")[0] == 405


def test_an_incomplete_request_times_out(monkeypatch: pytest.MonkeyPatch, counters: Counters):
    monkeypatch.setattr(metrics_server._Asked, "timeout", 0.2)
    server = MetricsServer(counters, Listen("127.0.0.1", 0))
    port = int(server.start().removesuffix("/metrics").rpartition(":")[2])
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as silent:
            silent.sendall(b"GET /met")
            assert silent.recv(1) == b"", "the server must close the connection"
    finally:
        server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=30)
    assert "onthedot metrics" not in {thread.name for thread in threading.enumerate()}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, counters: Counters) -> Iterator[int]:
    """The port of a server with a short time-out."""
    monkeypatch.setattr(metrics_server._Asked, "timeout", 0.5)
    server = MetricsServer(counters, Listen("127.0.0.1", 0))
    yield int(server.start().removesuffix("/metrics").rpartition(":")[2])
    server.stop()


def test_a_very_slow_request_times_out(quick: int, capfd: pytest.CaptureFixture[str]):
    with socket.create_connection(("127.0.0.1", quick), timeout=30) as slow, pytest.raises(ConnectionError):
        dribble(slow)
    assert capfd.readouterr().err == "", "nothing may be logged"


def dribble(slow: socket.socket) -> None:
    slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    for _ in range(300):
        slow.sendall(b"x")
        time.sleep(0.1)


def test_connections_above_the_limit_are_closed(quick: int):
    with ExitStack() as stack:
        for _ in range(metrics_server._AT_ONCE):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", quick), timeout=30))
            held.sendall(b"GET ")
        last = stack.enter_context(socket.create_connection(("127.0.0.1", quick), timeout=30))
        assert last.recv(1) == b""
    wait_until(lambda: answers(quick), "a free connection")


def answers(port: int) -> bool:
    try:
        return ask(f"http://127.0.0.1:{port}/metrics")[0] == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def test_a_used_port_is_reported(counters: Counters):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = Listen("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(DefinitionError, match=r"metrics: expected an address and a port .* got 127\.0\.0\.1:"):
            MetricsServer(counters, listen).start()
