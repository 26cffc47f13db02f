"""Senders that do not go on: on a real socket, with less patience."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from onthedot.model.host_port import Listen
from onthedot.server import timeouts
from onthedot.server.http_server import HttpServer
from onthedot.settings import Settings

pytestmark = pytest.mark.slow

POST = (
    b"POST /api/v1/schedules/describe HTTP/1.1\r\nHost: [::1]\r\n"
    b"Content-Type: application/json\r\nContent-Length: 27\r\n"
)
BODY = b'{"expression": "0 9 * * *"}'


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[HttpServer]:
    server = HttpServer(f"sqlite:///{tmp_path / 'api.db'}", Settings(), Listen(port=0), knows=None)
    server.start()
    yield server
    server.stop()


@contextmanager
def connected(serving: HttpServer) -> Iterator[socket.socket]:
    address = httpx2.URL(serving.url)
    with socket.create_connection((address.host, address.port or 0), timeout=30) as connection:
        yield connection


def rest(connection: socket.socket) -> bytes:
    """All that comes until the server has let go."""
    read = b""
    while piece := connection.recv(65_536):
        read += piece
    return read


@pytest.mark.parametrize("sent", [b"", b"GET /api", b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n"])
def test_headers_that_do_not_come(serving: HttpServer, monkeypatch: pytest.MonkeyPatch, sent: bytes):
    monkeypatch.setattr(timeouts, "HEADERS", 0.2)
    with connected(serving) as connection:
        connection.sendall(sent)
        assert rest(connection) == b""


def test_the_headers_of_a_second_request_that_do_not_come(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeouts, "HEADERS", 1.0)  # time enough for the first one, on any machine
    with connected(serving) as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/v1/h")
        assert rest(connection).count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("kind", [b"application/json", b"application/x-ndjson"])
def test_a_body_that_does_not_come(serving: HttpServer, monkeypatch: pytest.MonkeyPatch, kind: bytes):
    monkeypatch.setattr(timeouts, "BODY", 0.2)
    head = b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\nContent-Type: %b\r\n\r\n{"
    with connected(serving) as connection:
        connection.sendall(head % kind)
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (told["status"], "expected the body" in told["detail"]) == (408, True)


def test_a_body_that_is_read_by_the_framework_and_does_not_come(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeouts, "BODY", 0.2)
    with connected(serving) as connection:
        connection.sendall(POST + b"\r\n" + BODY[:5])
        assert rest(connection).startswith(b"HTTP/1.1 408 ")


def test_who_sends_in_pieces_and_goes_on_is_answered(serving: HttpServer):
    with connected(serving) as connection:
        for piece in (POST[:20], POST[20:], b"Connection: close\r\n\r\n", BODY[:5], BODY[5:]):
            connection.sendall(piece)
        assert rest(connection).startswith(b"HTTP/1.1 200 ")


def test_who_follows_may_be_silent(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeouts, "BODY", 0.5)
    monkeypatch.setattr(timeouts, "HEADERS", 0.5)
    with connected(serving) as connection:
        connection.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read = b""
        while b": still here" not in read:
            piece = connection.recv(65_536)
            assert piece, f"it was let go: {read!r}"
            read += piece
        connection.settimeout(1.0)
        with pytest.raises(TimeoutError):  # it is quiet, and nobody has let go
            connection.recv(1)


def test_headers_without_end(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeouts, "MOST_HEAD", 1_000)
    with connected(serving) as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nX-Long: " + b"x" * 2_000)
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer


GET = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def ended(connection: socket.socket, sent: bytes, *, within: float = 20.0) -> bool:
    """Whether the server lets go while this is sent again and again, five times a second."""
    connection.settimeout(0.2)
    for _ in range(round(within / 0.2)):
        try:
            connection.sendall(sent)
            if not connection.recv(65_536):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def answered(connection: socket.socket, request: bytes) -> bytes:
    """The answer to a request: all of it, if it is JSON."""
    connection.sendall(request)
    read = b""
    while b"\r\n\r\n" not in read or (b"json" in read and not read.endswith(b"}")):
        read += connection.recv(65_536)
    return read


def let_go(serving: HttpServer, *, within: float = 20.0) -> bool:
    """Whether the server comes to have no connections and no requests."""
    assert serving._server is not None
    state, until = serving._server.server_state, time.monotonic() + within
    while (state.connections or state.tasks) and time.monotonic() < until:
        time.sleep(0.05)
    return not (state.connections or state.tasks)


@pytest.mark.parametrize("sent", [b"\r\n", b"", b"G"], ids=["line ends", "nothing", "a method without end"])
def test_whoever_got_an_answer_and_does_not_ask_again(
    serving: HttpServer, monkeypatch: pytest.MonkeyPatch, sent: bytes
):
    monkeypatch.setattr(timeouts, "HEADERS", 1.0)
    with connected(serving) as connection:
        assert answered(connection, GET).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"\r\n")
        assert ended(connection, sent)


def test_a_body_that_goes_on_after_its_refusal(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeouts, "HEADERS", 1.0)
    head = b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
    with connected(serving) as connection:
        assert answered(connection, head).startswith(b"HTTP/1.1 413 ")
        assert ended(connection, b"x")


def test_one_who_asks_again_in_time_is_answered(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeouts, "HEADERS", 2.0)
    with connected(serving) as connection:
        for _ in range(4):
            assert answered(connection, b"\r\n" + GET).startswith(b"HTTP/1.1 200 ")
            time.sleep(0.6)  # longer in all than one may wait for headers


@pytest.mark.parametrize(("size", "status"), [(60, b"200"), (70, b"400")])
def test_headers_of_one_piece_are_counted(serving: HttpServer, size: int, status: bytes):
    with connected(serving) as connection:
        request = GET[:-2] + b"X-Long: " + b"x" * (size * 1024) + b"\r\nConnection: close\r\n\r\n"
        assert answered(connection, request).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("trailer", [b"a: b\r\n" * 1_000, b"x" * 6_000], ids=["many", "one without end"])
def test_what_follows_a_body_is_counted_with_the_headers(serving: HttpServer, trailer: bytes):
    head = b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nA: "
    with connected(serving) as connection:
        connection.sendall(head)
        assert ended(connection, trailer, within=10)


def test_small_pieces_of_a_large_body_are_not_counted_as_headers(serving: HttpServer):
    head = b"POST /api/v1/schedules/describe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    blanks = b"1\r\n \r\n" * 30_000
    with connected(serving) as connection:
        connection.sendall(head + blanks + b"1b\r\n" + BODY + b"\r\n0\r\n\r\n")
        assert rest(connection).startswith(b"HTTP/1.1 200 ")


def test_answers_that_nobody_reads(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeouts, "SEND", 1.0)
    assert serving._server is not None
    with connected(serving) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        answered(connection, GET)
        [theirs] = serving._server.server_state.connections
        theirs.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        connection.sendall(b"GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 90)
        assert let_go(serving)


def test_requests_that_do_not_wait_for_answers(serving: HttpServer):
    with connected(serving) as connection:
        connection.sendall(GET * 90 + GET[:-2] + b"Connection: close\r\n\r\n")
        assert rest(connection).count(b"HTTP/1.1 200 ") == 91
    with connected(serving) as connection:
        assert ended(connection, GET * 1_000, within=10)


def test_who_is_gone_follows_no_longer_whatever_else_was_asked(serving: HttpServer):
    assert serving._server is not None
    with connected(serving) as connection:
        answered(connection, b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n" + GET)
        assert len(serving._server.server_state.tasks) == 1
    assert let_go(serving)


def test_what_is_no_request_is_refused_like_everything(serving: HttpServer):
    with connected(serving) as connection:
        connection.sendall(b"hello\r\n\r\n")
        answer = rest(connection)
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (told["status"], told["type"].rpartition("/")[2]) == (400, "invalid")
