"""Many connections at once: on real sockets, from two addresses of this machine."""

from __future__ import annotations

import errno
import logging
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from onthedot.model.host_port import Listen
from onthedot.server.connections import Connections, affordable, listen_at
from onthedot.server.http_server import HttpServer
from onthedot.server.log_filter import OnceAMinute
from onthedot.server.proxies import Proxies
from onthedot.settings import Settings
from tests.servers.running import free_port

ONTHEDOT = Path(sys.executable).parent / "onthedot"
GET = b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
ANN, BOB = "127.0.0.1", "127.0.0.2"


class Crowd:
    """Clients of a server that stay connected."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stack = ExitStack()

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def join(self, source: str = ANN) -> socket.socket:
        """One more, from this address."""
        client = socket.create_connection(("127.0.0.1", self._port), timeout=20, source_address=(source, 0))
        return self._stack.enter_context(client)


def answer(client: socket.socket) -> bytes:
    """The status line of what this one is answered; empty if it is sent away without one."""
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


def test_one_address_has_only_so_many(crowd: Callable[..., Crowd], caplog: pytest.LogCaptureFixture):
    clients = crowd(api_clients=10, api_clients_per_address=3)
    served = [clients.join() for _ in range(3)]
    assert all(is_served(client) for client in served)
    assert not any(is_served(clients.join()) for _ in range(5))
    assert is_served(clients.join(BOB))
    [told] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "from 127.0.0.1: expected at most 3 from one address; is it a proxy? See --trusted-proxy" in told
    served[0].close()
    assert wait_for(lambda: is_served(clients.join()))


def test_all_together_have_only_so_many(crowd: Callable[..., Crowd], caplog: pytest.LogCaptureFixture):
    clients = crowd(api_clients=4, api_clients_per_address=3)
    served = [clients.join(source) for source in (ANN, ANN, BOB, BOB)]
    assert all(is_served(client) for client in served)
    assert not is_served(clients.join(BOB))
    assert "expected at most 4 in all" in caplog.text
    served[0].close()
    assert wait_for(lambda: is_served(clients.join(BOB)))


def test_a_trusted_proxy_is_many_clients(crowd: Callable[..., Crowd]):
    clients = crowd(api_clients=10, api_clients_per_address=1, trusted_proxies=(BOB,))
    assert all(is_served(client) for client in [clients.join(BOB) for _ in range(5)])


def wait_for(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if holds():
            return True
    return False


@pytest.mark.slow
def test_a_crowd_of_silent_clients_stops_no_server_and_fills_no_log(tmp_path: Path):
    """With as few files as the process may open: fewer than there are clients."""
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


def test_a_process_without_files_reports_that_once_in_each_try(monkeypatch: pytest.MonkeyPatch):
    def fail(_: socket.socket) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with listen_at(Listen(port=0), Connections(9, 9, Proxies(())), tells=True) as listener:
        monkeypatch.setattr(socket.socket, "accept", fail)
        for _ in range(2):
            with pytest.raises(OSError, match="Too many open files"):
                listener.accept()
            with pytest.raises(BlockingIOError):  # here asyncio stops trying
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


def test_a_limit_that_suffices_is_left_alone():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert affordable(5) == 5
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == before[1]


# ── what is logged ───────────────────────────────────────────────────────────────────────────────────────────────


def record(at: float, text: str = "no %s", level: int = logging.WARNING, error: Exception | None = None):
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("x", level, __file__, 1, text, ("bread",) if "%" in text else (), info)
    made.created = at
    return made


def test_what_repeats_is_logged_once_a_minute():
    once = OnceAMinute()
    assert [once.filter(record(at)) for at in (0.0, 1.0, 59.0)] == [True, False, False]
    assert once.filter(record(2.0, "no butter"))
    assert all(once.filter(record(at, level=logging.INFO)) for at in (0.0, 1.0))
    again = record(60.0)
    assert once.filter(again)
    assert again.getMessage() == "no bread (and 2 more like this since the last one)"
    assert not once.filter(record(61.0))


def test_errors_are_the_same_by_where_they_come_from():
    def fail(kind: type[Exception]) -> Exception:
        try:
            raise kind
        except kind as error:
            return error

    once = OnceAMinute()
    assert once.filter(record(0.0, "request 1 broke", logging.ERROR, fail(KeyError)))
    assert not once.filter(record(1.0, "request 2 broke", logging.ERROR, fail(KeyError)))
    assert once.filter(record(2.0, "request 3 broke", logging.ERROR, fail(OSError)))


def test_a_clock_that_was_set_back_silences_nothing():
    once = OnceAMinute()
    assert [once.filter(record(at)) for at in (1_000.0, 1.0, 2.0)] == [True, True, False]


def test_what_is_no_http_is_logged_once(crowd: Callable[..., Crowd], caplog: pytest.LogCaptureFixture):
    clients = crowd()
    for _ in range(10):
        client = clients.join()
        client.sendall(b"hello\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 400 ")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "Invalid HTTP request received."
    ]
