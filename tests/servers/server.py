"""A server of ours: on a free loopback port, in a folder of its own, signalled by its own process id and no other.

    with PostgresServer() as server:
        …

It needs no root, and if we are root it runs as nobody. Nothing is kept: its folder goes with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from tests.servers import running


class Server(ABC):
    """One server, from its first start to the end of its folder. Its port stays the same when it is started again."""

    what: ClassVar[str]
    """What it is called in errors."""

    stopped_by: ClassVar[signal.Signals] = signal.SIGTERM
    """In order: it writes its files to the end."""

    killed_by: ClassVar[signal.Signals] = signal.SIGKILL
    """At once: what it had not written is gone."""

    def __init__(self) -> None:
        self.folder = running.make_folder(self.what.lower())
        self.port = running.free_port()
        self.log = self.folder / "log"
        self._popen: subprocess.Popen[bytes] | None = None
        self._paused: list[int] = []
        try:
            self._prepare()
        except BaseException:  # a Ctrl-C, too: nobody else would remove the folder
            running.remove_folder(self.folder)
            raise

    # ── what a kind of server says ───────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _prepare(self) -> None:
        """Write into the folder what has to be there before the first start."""

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """How it is started."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it does."""

    def _helpers(self) -> list[int]:
        """The processes that it has started itself."""
        return []

    # ── start and stop ───────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> Self:
        """Start it, and wait until it answers."""
        assert self._popen is None, "this server is running already"
        self._popen = running.start(self._command(), log=self.log)
        try:
            running.wait_answers(self._answers, self._popen, self.log, self.what)
        except running.ServerTrouble:
            self.kill()
            raise
        return self

    @property
    def pid(self) -> int:
        assert self._popen is not None, "this server is not running"
        return self._popen.pid

    def stop(self) -> None:
        """In order."""
        self._end(self.stopped_by)

    def kill(self) -> None:
        """At once: the next start makes do with what is on the disk."""
        self._end(self.killed_by)

    def restart_immediately(self) -> None:
        """Kill it, and start it again."""
        self.kill()
        self.start()

    def _end(self, how: signal.Signals) -> None:
        if self._popen is None:
            return
        self.resume()
        if self._popen.poll() is None:
            self._popen.send_signal(how)
        popen, self._popen = self._popen, None
        running.wait_ended(popen, self.what)

    def pause(self) -> list[int]:
        """SIGSTOP to the server and to every process it has: connections stay, nothing answers. Who was stopped."""
        os.kill(self.pid, signal.SIGSTOP)  # first, so that it cannot start another while we look
        self._paused = [self.pid, *self._helpers()]
        for pid in self._paused[1:]:
            _signal(pid, signal.SIGSTOP)
        # The signal is sent, not delivered: a process on another core may still answer for a moment.
        running.wait_until(lambda: all(running.state_of(pid) in "TZ" for pid in self._paused), f"{self.what} to pause")
        return self._paused

    def resume(self) -> None:
        """SIGCONT to whom `pause` has stopped."""
        for pid in reversed(self._paused):
            _signal(pid, signal.SIGCONT)
        self._paused = []

    def close(self) -> None:
        """End it if it runs, at once, because nothing of it is kept; and remove its folder."""
        try:
            self.kill()
        finally:
            running.remove_folder(self.folder)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended since
