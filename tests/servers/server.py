"""The base class of test servers: each has a free loopback port and its own folder, and signals go to its process only.

    with PostgresServer() as server:
        …

A server needs no root; if we are root, it runs as nobody. Closing it removes its folder.
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
    """One server, which can be started, stopped, killed and paused. It keeps its port after a restart."""

    what: ClassVar[str]
    """Its name in errors."""

    stopped_by: ClassVar[signal.Signals] = signal.SIGTERM
    """The signal for an orderly stop: it finishes its writes."""

    killed_by: ClassVar[signal.Signals] = signal.SIGKILL
    """The signal for an immediate stop: unwritten data is lost."""

    def __init__(self) -> None:
        self.folder = running.make_folder(self.what.lower())
        self.port = running.free_port()
        self.log = self.folder / "log"
        self._popen: subprocess.Popen[bytes] | None = None
        self._paused: list[int] = []
        try:
            self._prepare()
        except BaseException:  # also a Ctrl-C: nothing else removes the folder
            running.remove_folder(self.folder)
            raise

    # ── subclasses define ────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _prepare(self) -> None:
        """Write the files that the first start needs into the folder."""

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """The command that starts it."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it answers now."""

    def _helpers(self) -> list[int]:
        """The ids of its child processes."""
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
        """Stop it in order."""
        self._end(self.stopped_by)

    def kill(self) -> None:
        """Stop it immediately. The next start uses what is on the disk."""
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
        """Send SIGSTOP to the server and its children: connections stay, nothing answers. Return the process ids."""
        os.kill(self.pid, signal.SIGSTOP)  # first, so that it cannot start another child meanwhile
        self._paused = [self.pid, *self._helpers()]
        for pid in self._paused[1:]:
            _signal(pid, signal.SIGSTOP)
        # Signals are delivered later: a process on another core may still answer for a moment.
        running.wait_until(lambda: all(running.state_of(pid) in "TZ" for pid in self._paused), f"{self.what} to pause")
        return self._paused

    def resume(self) -> None:
        """Send SIGCONT to the processes that `pause` stopped."""
        for pid in reversed(self._paused):
            _signal(pid, signal.SIGCONT)
        self._paused = []

    def close(self) -> None:
        """Kill it if it runs, and remove its folder."""
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
        return  # it has ended meanwhile
