"""One PostgreSQL for a whole test run, shared by the processes of pytest-xdist.

Who needs it first starts a *keeper* (`python -m tests.servers.shared`), a process that runs the server and does
nothing else. Everybody who uses the server holds a connection to the keeper; when the last one is closed, be it
because its process was killed, the keeper stops the server and ends. So there is nothing to count, and nothing is left.
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
FIRST_VISIT = 60.0  # seconds within which the one who has started a keeper comes to it

_keepers: list[subprocess.Popen[str]] = []  # who has started one does not wait for it: others may still be there


class SharedPostgres:
    """A place at the run's server, and databases on it. `folder` is the same for all processes of the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _locked(folder / "postgres.lock"):
            self._place, about = _visit(folder / "postgres.keeper") or _start_keeper(folder)
        self.port, self.password = int(about["port"]), about["password"]
        self.admin_url = postgres.url(self.port, self.password, "postgres")

    def create(self, template: str = "template1") -> str:
        """A new database; its URL."""
        return postgres.create_database(self.admin_url, template)

    def drop(self, url: str) -> None:
        postgres.drop_database(self.admin_url, postgres.name_of(url))

    def template(self, name: str, prepare: Callable[[str], None]) -> str:
        """The name of a database to copy; prepared once in a run, by whoever comes first. `prepare` gets its URL, and
        has left it when it returns: a database that somebody is connected to cannot be copied."""
        done = self._folder / f"postgres.template.{name}"
        with _locked(self._folder / "postgres.template.lock"):
            if not done.exists():
                prepare(postgres.create_database(self.admin_url, name=name))
                done.touch()
        return name

    def close(self) -> None:
        """Leave. The last one out ends the server."""
        self._place.close()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _visit(address: Path) -> tuple[socket.socket, dict[str, str]] | None:
    """Come to a keeper: the connection that holds it, and what it says. None: there is none, or it has just ended."""
    if not address.exists():
        return None
    try:
        place = socket.create_connection(("127.0.0.1", int(address.read_text())), timeout=running.PATIENCE)
    except ConnectionError:
        return None
    with place.makefile("rb") as heard:
        try:
            said = heard.readline()
        except ConnectionError:
            said = b""
    if not said.endswith(b"\n"):
        place.close()
        return None
    about: dict[str, str] = json.loads(said)
    return place, about


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
    found = _visit(folder / "postgres.keeper")
    assert found is not None, "the keeper of PostgreSQL ended before anybody came"
    return found


def keep() -> None:
    """The keeper: say where it listens, tell each visitor where the server is, and end when all have left."""
    with postgres.PostgresServer() as server, socket.create_server(("127.0.0.1", 0)) as door:
        about = json.dumps({"port": str(server.port), "password": server.password}).encode() + b"\n"
        print(door.getsockname()[1], flush=True)
        visitors: set[socket.socket] = set()
        empty_at = time.monotonic() + FIRST_VISIT
        with selectors.DefaultSelector() as selector:
            selector.register(door, selectors.EVENT_READ)
            while visitors or time.monotonic() < empty_at:
                for key, _ in selector.select(None if visitors else empty_at - time.monotonic()):
                    if key.fileobj is door:
                        visitor, _ = door.accept()
                        visitor.sendall(about)
                        visitors.add(visitor)
                        selector.register(visitor, selectors.EVENT_READ)
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        selector.unregister(key.fileobj)
                        visitors.discard(key.fileobj)
                        key.fileobj.close()
                        empty_at = time.monotonic()


if __name__ == "__main__":
    keep()
