"""Connections on real sockets: limits for each address and in all, and time-outs for clients that stop."""

from __future__ import annotations

import errno
import json
import logging
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from onthedot.model.host_port import Listen
from onthedot.server import connections
from onthedot.server.connections import Connections, affordable, listen_at
from onthedot.server.http_server import HttpServer, OnceAMinute
from onthedot.server.request_origin import Proxies
from onthedot.settings import Settings
from tests.servers.running import free_port

ONTHEDOT = Path(sys.executable).parent / "onthedot"
GET = b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
ANN, BOB = "127.0.0.1", "127.0.0.2"


class Crowd:
    """Clients that stay connected to a server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stack = ExitStack()

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def join(self, source: str = ANN) -> socket.socket:
        """Connect another client, from this address."""
        client = socket.create_connection(("127.0.0.1", self._port), timeout=20, source_address=(source, 0))
        return self._stack.enter_context(client)


def answer(client: socket.socket) -> bytes:
    """The status line of the answer; empty if the server closes the connection without one."""
    try:
        client.sendall(GET)
        return client.recv(65_536).partition(b"\r\n")[0]
    except (ConnectionResetError, BrokenPipeError):
        return b""


def is_served(client: socket.socket) -> bool:
    return answer(client) == b"HTTP/1.1 200 OK"


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Callable[..., Crowd]]:
    with ExitStack() as stack:

        def begin(**settings: object) -> Crowd:
            place = f"sqlite:///{tmp_path / 'api.db'}"
            server = HttpServer(place, Settings(**settings), Listen(port=0), knows=None)  # type: ignore[arg-type]
            server.start()
            stack.callback(server.stop)
            return stack.enter_context(Crowd(int(server.url.rpartition(":")[2])))

        yield begin


def test_connections_of_one_address_are_limited(crowd: Callable[..., Crowd], caplog: pytest.LogCaptureFixture):
    clients = crowd(api_clients=10, api_clients_per_address=3)
    served = [clients.join() for _ in range(3)]
    assert all(is_served(client) for client in served)
    assert not any(is_served(clients.join()) for _ in range(5))
    assert is_served(clients.join(BOB))
    [told] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "from 127.0.0.1: expected at most 3 from one address; is it a proxy? See --trusted-proxy" in told
    served[0].close()
    assert wait_for(lambda: is_served(clients.join()))


def test_connections_in_all_are_limited(crowd: Callable[..., Crowd], caplog: pytest.LogCaptureFixture):
    clients = crowd(api_clients=4, api_clients_per_address=3)
    served = [clients.join(source) for source in (ANN, ANN, BOB, BOB)]
    assert all(is_served(client) for client in served)
    assert not is_served(clients.join(BOB))
    assert "expected at most 4 in all" in caplog.text
    served[0].close()
    assert wait_for(lambda: is_served(clients.join(BOB)))


def test_a_trusted_proxy_has_no_limit_per_address(crowd: Callable[..., Crowd]):
    clients = crowd(api_clients=10, api_clients_per_address=1, trusted_proxies=(BOB,))
    assert all(is_served(client) for client in [clients.join(BOB) for _ in range(5)])


def wait_for(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if holds():
            return True
    return False


@pytest.mark.slow
def test_many_silent_clients_do_not_block_the_server_or_fill_the_log(tmp_path: Path):
    """The process may open fewer files than there are clients."""
    port, log = free_port(), tmp_path / "log"
    start = f"ulimit -n 300; exec {ONTHEDOT}"
    command = f"{start} server --insecure --listen 127.0.0.1:{port} --for 100s"
    with log.open("wb") as out:
        process = subprocess.Popen(["sh", "-c", command], cwd=tmp_path, stdout=out, stderr=out)
    try:
        with Crowd(port) as clients:
            assert wait_for(lambda: connects(clients))
            for _ in range(400):
                clients.join().sendall(GET + b"\r\n")
            assert all(is_served(clients.join(BOB)) for _ in range(20))
    finally:
        process.terminate()
        assert process.wait(30) == 0
    assert "it takes 150 connections at a time instead of 1000" in log.read_text()
    assert log.stat().st_size < 10_000


def connects(clients: Crowd) -> bool:
    try:
        return is_served(clients.join(BOB))
    except OSError:
        return False


def test_accept_reports_missing_file_descriptors_once_per_try(monkeypatch: pytest.MonkeyPatch):
    def fail(_: socket.socket) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with listen_at(Listen(port=0), Connections(9, 9, Proxies(())), answers_refused=True) as listener:
        monkeypatch.setattr(socket.socket, "accept", fail)
        for _ in range(2):
            with pytest.raises(OSError, match="Too many open files"):
                listener.accept()
            with pytest.raises(BlockingIOError):  # makes asyncio stop trying
                listener.accept()


@pytest.mark.slow
@pytest.mark.parametrize(("files", "most"), [((100, 5_000), 1_000), ((100, 1_500), 750), ((100, 100), 50)])
def test_the_limit_of_open_files_is_raised(files: tuple[int, int], most: int):
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, {files})
from onthedot.server.connections import affordable
print(affordable(1_000), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(most), str(min(2_024, files[1])), str(files[1])]


def test_a_sufficient_limit_of_open_files_is_left_alone():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert affordable(5) == 5
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == before[1]


# ── logs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def record(at: float, text: str = "no %s", level: int = logging.WARNING, error: Exception | None = None):
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("x", level, __file__, 1, text, ("bread",) if "%" in text else (), info)
    made.created = at
    return made


def test_a_repeated_message_is_logged_once_a_minute():
    once = OnceAMinute()
    assert [once.filter(record(at)) for at in (0.0, 1.0, 59.0)] == [True, False, False]
    assert once.filter(record(2.0, "no butter"))
    assert all(once.filter(record(at, level=logging.INFO)) for at in (0.0, 1.0))
    again = record(60.0)
    assert once.filter(again)
    assert again.getMessage() == "no bread (and 2 more like this since the last one)"
    assert not once.filter(record(61.0))


def test_errors_with_one_origin_count_as_repeated():
    def fail(kind: type[Exception]) -> Exception:
        try:
            raise kind
        except kind as error:
            return error

    once = OnceAMinute()
    assert once.filter(record(0.0, "request 1 broke", logging.ERROR, fail(KeyError)))
    assert not once.filter(record(1.0, "request 2 broke", logging.ERROR, fail(KeyError)))
    assert once.filter(record(2.0, "request 3 broke", logging.ERROR, fail(OSError)))


def test_messages_are_logged_although_the_clock_is_set_back():
    once = OnceAMinute()
    assert [once.filter(record(at)) for at in (1_000.0, 1.0, 2.0)] == [True, True, False]


def test_invalid_http_is_logged_once(crowd: Callable[..., Crowd], caplog: pytest.LogCaptureFixture):
    clients = crowd()
    for _ in range(10):
        client = clients.join()
        client.sendall(b"hello\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 400 ")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "Invalid HTTP request received."
    ]


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
    """Read until the server closes the connection."""
    read = b""
    while piece := connection.recv(65_536):
        read += piece
    return read


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"GET /api", b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_connection_with_missing_headers_is_closed(serving: HttpServer, monkeypatch: pytest.MonkeyPatch, sent: bytes):
    monkeypatch.setattr(connections, "HEADERS", 0.2)
    with connected(serving) as connection:
        connection.sendall(sent)
        assert rest(connection) == b""


@pytest.mark.slow
def test_a_connection_whose_second_request_is_incomplete_is_closed(
    serving: HttpServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "HEADERS", 1.0)  # time enough for the first one, on any machine
    with connected(serving) as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/v1/h")
        assert rest(connection).count(b"HTTP/1.1") == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", [b"application/json", b"application/x-ndjson"])
def test_a_missing_body_is_answered_with_408(serving: HttpServer, monkeypatch: pytest.MonkeyPatch, kind: bytes):
    monkeypatch.setattr(connections, "BODY", 0.2)
    head = b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\nContent-Type: %b\r\n\r\n{"
    with connected(serving) as connection:
        connection.sendall(head % kind)
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (told["status"], "expected the body" in told["detail"]) == (408, True)


@pytest.mark.slow
def test_a_missing_body_that_the_framework_reads_is_answered_with_408(
    serving: HttpServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "BODY", 0.2)
    with connected(serving) as connection:
        connection.sendall(POST + b"\r\n" + BODY[:5])
        assert rest(connection).startswith(b"HTTP/1.1 408 ")


@pytest.mark.slow
def test_a_request_sent_in_pieces_is_answered(serving: HttpServer):
    with connected(serving) as connection:
        for piece in (POST[:20], POST[20:], b"Connection: close\r\n\r\n", BODY[:5], BODY[5:]):
            connection.sendall(piece)
        assert rest(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.slow
def test_a_silent_follower_stays_connected(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "BODY", 0.5)
    monkeypatch.setattr(connections, "HEADERS", 0.5)
    with connected(serving) as connection:
        connection.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read = b""
        while b": still here" not in read:
            piece = connection.recv(65_536)
            assert piece, f"the server closed the connection: {read!r}"
            read += piece
        connection.settimeout(1.0)
        with pytest.raises(TimeoutError):  # the connection is quiet and open
            connection.recv(1)


@pytest.mark.slow
def test_endless_headers_are_refused(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "MOST_HEAD", 1_000)
    with connected(serving) as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nX-Long: " + b"x" * 2_000)
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer


HEALTH = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def ended(connection: socket.socket, sent: bytes, *, within: float = 20.0) -> bool:
    """Whether the server closes the connection while `sent` is sent five times a second."""
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
    """The answer to a request; if it is JSON, with its whole body."""
    connection.sendall(request)
    read = b""
    while b"\r\n\r\n" not in read or (b"json" in read and not read.endswith(b"}")):
        read += connection.recv(65_536)
    return read


def becomes_idle(serving: HttpServer, *, within: float = 20.0) -> bool:
    """Whether the server soon has no connections and no requests."""
    assert serving._server is not None
    state, until = serving._server.server_state, time.monotonic() + within
    while (state.connections or state.tasks) and time.monotonic() < until:
        time.sleep(0.05)
    return not (state.connections or state.tasks)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"\r\n", b"", b"G"], ids=["line ends", "nothing", "a method without end"])
def test_a_connection_without_a_next_request_is_closed(
    serving: HttpServer, monkeypatch: pytest.MonkeyPatch, sent: bytes
):
    monkeypatch.setattr(connections, "HEADERS", 1.0)
    with connected(serving) as connection:
        assert answered(connection, HEALTH).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"\r\n")
        assert ended(connection, sent)


@pytest.mark.slow
def test_a_connection_that_sends_a_refused_body_is_closed(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "HEADERS", 1.0)
    head = b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
    with connected(serving) as connection:
        assert answered(connection, head).startswith(b"HTTP/1.1 413 ")
        assert ended(connection, b"x")


@pytest.mark.slow
def test_requests_in_time_on_one_connection_are_answered(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "HEADERS", 2.0)
    with connected(serving) as connection:
        for _ in range(4):
            assert answered(connection, b"\r\n" + HEALTH).startswith(b"HTTP/1.1 200 ")
            time.sleep(0.6)  # in all longer than the time-out of the headers


@pytest.mark.slow
@pytest.mark.parametrize(("size", "status"), [(60, b"200"), (70, b"400")])
def test_large_headers_in_one_piece_are_refused(serving: HttpServer, size: int, status: bytes):
    with connected(serving) as connection:
        request = HEALTH[:-2] + b"X-Long: " + b"x" * (size * 1024) + b"\r\nConnection: close\r\n\r\n"
        assert answered(connection, request).startswith(b"HTTP/1.1 " + status)


@pytest.mark.slow
@pytest.mark.parametrize("trailer", [b"a: b\r\n" * 1_000, b"x" * 6_000], ids=["many", "one without end"])
def test_trailers_count_as_headers(serving: HttpServer, trailer: bytes):
    head = b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nA: "
    with connected(serving) as connection:
        connection.sendall(head)
        assert ended(connection, trailer, within=10)


@pytest.mark.slow
def test_small_chunks_of_a_body_do_not_count_as_headers(serving: HttpServer):
    head = b"POST /api/v1/schedules/describe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    blanks = b"1\r\n \r\n" * 30_000
    with connected(serving) as connection:
        connection.sendall(head + blanks + b"1b\r\n" + BODY + b"\r\n0\r\n\r\n")
        assert rest(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.slow
def test_a_connection_that_does_not_read_its_answers_is_closed(serving: HttpServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "SEND", 1.0)
    assert serving._server is not None
    with connected(serving) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        answered(connection, HEALTH)
        [theirs] = serving._server.server_state.connections
        theirs.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        connection.sendall(b"GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 90)
        assert becomes_idle(serving)


@pytest.mark.slow
def test_pipelined_requests_are_limited(serving: HttpServer):
    with connected(serving) as connection:
        connection.sendall(HEALTH * 90 + HEALTH[:-2] + b"Connection: close\r\n\r\n")
        assert rest(connection).count(b"HTTP/1.1 200 ") == 91
    with connected(serving) as connection:
        assert ended(connection, HEALTH * 1_000, within=10)


@pytest.mark.slow
def test_a_closed_connection_ends_its_stream_although_requests_wait(serving: HttpServer):
    assert serving._server is not None
    with connected(serving) as connection:
        answered(connection, b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n" + HEALTH)
        assert len(serving._server.server_state.tasks) == 1
    assert becomes_idle(serving)


@pytest.mark.slow
def test_invalid_http_is_answered_with_a_problem(serving: HttpServer):
    with connected(serving) as connection:
        connection.sendall(b"hello\r\n\r\n")
        answer = rest(connection)
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (told["status"], told["type"].rpartition("/")[2]) == (400, "invalid")
