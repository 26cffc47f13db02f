"""Shares one PostgreSQL between the processes of a test run (pytest-xdist).

The first process that needs it starts a *keeper* (`python -m tests.servers.shared`), a process that runs the server.
Each process that uses the server holds a connection to the keeper. When the last connection closes, also by a kill,
the keeper stops the server and ends. So the server never outlives the test run.
"""

from __future__ import annotations

import fcntl
import json
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers import postgres, running

ROOT = Path(__file__).parents[2]
FIRST_CONNECTION = 60.0  # seconds in which the process that started a keeper must connect

_keepers: list[subprocess.Popen[str]] = []  # not waited for: other processes may still use them


class SharedPostgres:
    """A connection to the shared server, with databases on it. `folder` is the same for all processes of the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _locked(folder / "postgres.lock"):
            self._connection, about = _connect(folder / "postgres.keeper") or _start_keeper(folder)
        self.port, self.password = int(about["port"]), about["password"]
        self.admin_url = postgres.url(self.port, self.password, "postgres")

    def create(self, template: str = "template1") -> str:
        """Create a database and return its URL."""
        return postgres.create_database(self.admin_url, template)

    def drop(self, url: str) -> None:
        postgres.drop_database(self.admin_url, postgres.name_of(url))

    def template(self, name: str, prepare: Callable[[str], None]) -> str:
        """The name of a database to copy. The first process of the run prepares it. `prepare` gets its URL and must
        close its connections, because a database with connections cannot be copied."""
        done = self._folder / f"postgres.template.{name}"
        with _locked(self._folder / "postgres.template.lock"):
            if not done.exists():
                prepare(postgres.create_database(self.admin_url, name=name))
                done.touch()
        return name

    def close(self) -> None:
        """Close the connection. The last one to close ends the server."""
        self._connection.close()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _connect(address: Path) -> tuple[socket.socket, dict[str, str]] | None:
    """Connect to the keeper. Return the connection and its data about the server; None if no keeper runs."""
    if not address.exists():
        return None
    try:
        connection = socket.create_connection(("127.0.0.1", int(address.read_text())), timeout=running.PATIENCE)
    except ConnectionError:
        return None
    with connection.makefile("rb") as reader:
        try:
            line = reader.readline()
        except ConnectionError:
            line = b""
    if not line.endswith(b"\n"):
        connection.close()
        return None
    about: dict[str, str] = json.loads(line)
    return connection, about


def _start_keeper(folder: Path) -> tuple[socket.socket, dict[str, str]]:
    command = [sys.executable, "-m", "tests.servers.shared"]
    with (folder / "postgres.keeper.log").open("a") as log:
        keeper = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    _keepers.append(keeper)
    assert keeper.stdout is not None
    with keeper.stdout:
        port = keeper.stdout.readline().strip()
    if not port:
        raise running.ServerTrouble(
            f"no PostgreSQL for the tests:\n{running.tail(folder / 'postgres.keeper.log', lines=40)}"
        )
    (folder / "postgres.keeper").write_text(port)
    found = _connect(folder / "postgres.keeper")
    assert found is not None, "the keeper of PostgreSQL ended before the first connection"
    return found


def keep() -> None:
    """Run the keeper: print its port, send the server's data to each connection, and end when all have closed."""
    with postgres.PostgresServer() as server, socket.create_server(("127.0.0.1", 0)) as listener:
        about = json.dumps({"port": str(server.port), "password": server.password}).encode() + b"\n"
        print(listener.getsockname()[1], flush=True)
        clients: set[socket.socket] = set()
        empty_at = time.monotonic() + FIRST_CONNECTION
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            while clients or time.monotonic() < empty_at:
                for key, _ in selector.select(None if clients else empty_at - time.monotonic()):
                    if key.fileobj is listener:
                        client, _ = listener.accept()
                        client.sendall(about)
                        clients.add(client)
                        selector.register(client, selectors.EVENT_READ)
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        selector.unregister(key.fileobj)
                        clients.discard(key.fileobj)
                        key.fileobj.close()
                        empty_at = time.monotonic()


if __name__ == "__main__":
    keep()
