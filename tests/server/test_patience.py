"""Senders that do not go on: on a real socket, with less patience."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from onthedot.listening import Listen
from onthedot.server import patience
from onthedot.server.serving import Serving
from onthedot.settings import Settings

pytestmark = pytest.mark.slow

POST = (
    b"POST /api/v1/schedules/describe HTTP/1.1\r\nHost: [::1]\r\n"
    b"Content-Type: application/json\r\nContent-Length: 27\r\n"
)
BODY = b'{"expression": "0 9 * * *"}'


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    server = Serving(f"sqlite:///{tmp_path / 'api.db'}", Settings(), Listen(port=0), knows=None)
    server.start()
    yield server
    server.stop()


@contextmanager
def connected(serving: Serving) -> Iterator[socket.socket]:
    address = httpx2.URL(serving.url)
    with socket.create_connection((address.host, address.port or 0), timeout=30) as connection:
        yield connection


def rest(connection: socket.socket) -> bytes:
    """All that comes until the server has let go."""
    read = b""
    while piece := connection.recv(65_536):
        read += piece
    return read


@pytest.mark.parametrize("sent", [b"", b"GET /api", b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n"])
def test_headers_that_do_not_come(serving: Serving, monkeypatch: pytest.MonkeyPatch, sent: bytes):
    monkeypatch.setattr(patience, "HEADERS", 0.2)
    with connected(serving) as connection:
        connection.sendall(sent)
        assert rest(connection) == b""


def test_the_headers_of_a_second_request_that_do_not_come(serving: Serving, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(patience, "HEADERS", 1.0)  # time enough for the first one, on any machine
    with connected(serving) as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\nGET /api/v1/h")
        assert rest(connection).count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("kind", [b"application/json", b"application/x-ndjson"])
def test_a_body_that_does_not_come(serving: Serving, monkeypatch: pytest.MonkeyPatch, kind: bytes):
    monkeypatch.setattr(patience, "BODY", 0.2)
    head = b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\nContent-Type: %b\r\n\r\n{"
    with connected(serving) as connection:
        connection.sendall(head % kind)
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (told["status"], "expected the body" in told["detail"]) == (408, True)


def test_a_body_that_is_read_by_the_framework_and_does_not_come(serving: Serving, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(patience, "BODY", 0.2)
    with connected(serving) as connection:
        connection.sendall(POST + b"\r\n" + BODY[:5])
        assert rest(connection).startswith(b"HTTP/1.1 408 ")


def test_who_sends_in_pieces_and_goes_on_is_answered(serving: Serving):
    with connected(serving) as connection:
        for piece in (POST[:20], POST[20:], b"Connection: close\r\n\r\n", BODY[:5], BODY[5:]):
            connection.sendall(piece)
        assert rest(connection).startswith(b"HTTP/1.1 200 ")


def test_who_follows_may_be_silent(serving: Serving, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(patience, "BODY", 0.5)
    monkeypatch.setattr(patience, "HEADERS", 0.5)
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


def test_headers_without_end(serving: Serving, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(patience, "MOST_HEAD", 1_000)
    with connected(serving) as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nX-Long: " + b"x" * 2_000)
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer


def test_what_is_no_request_is_refused_like_everything(serving: Serving):
    with connected(serving) as connection:
        connection.sendall(b"hello\r\n\r\n")
        answer = rest(connection)
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (told["status"], told["type"].rpartition("/")[2]) == (400, "invalid")
