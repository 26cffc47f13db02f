"""Runs several nodes as child processes of one command: starts, restarts and stops them together.

Each child has its own session: Ctrl-C reaches only this process, which passes it on. Each child reads its standard
input, and drains when that ends. The input ends when this process ends, even if it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import FrameType

import click

from onthedot.cli.errors import BAD_INPUT, BROKEN
from onthedot.cli.node_process import signals
from onthedot.cli.node_process.systemd import Notifier, NotifierGroup
from onthedot.clock import SECOND, Micros, SystemClock

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a dead child is started again
STEADY: Micros = 60 * SECOND  # a child that ran this long did not fail at its start


@dataclass
class _Child:
    """One node, with all processes that it had."""

    name: str
    own: list[str]
    process: subprocess.Popen[str] | None = None
    pause: float = FIRST_PAUSE
    codes: list[int] = field(default_factory=list)


def worst(codes: Sequence[int]) -> int:
    """The exit code of all children: the highest; a child that was killed counts as 1.

    >>> worst([0, -9, 0]), worst([1, 130]), worst([0, 0])
    (1, 130, 0)
    """
    return max((code if code >= 0 else BROKEN for code in codes), default=0)


class WorkerProcesses:
    """Nodes with a common command line. They differ by name and by the arguments of `own(number)`, from zero."""

    def __init__(
        self,
        arguments: list[str],
        name: str | None,
        count: int,
        *,
        as_json: bool,
        own: Callable[[int], list[str]],
    ) -> None:
        self._arguments = arguments
        stem = name or f"{os.uname().nodename}-{os.getpid()}"
        self._children = [_Child(f"{stem}-{number + 1}", own(number)) for number in range(count)]
        self._as_json = as_json
        self._lock = threading.Lock()  # guards what the signal handler and the threads share
        self._asked = 0  # number of requests to stop
        self._stopping = threading.Event()
        self._unread = False
        self._family = NotifierGroup(Notifier.take(os.environ), count, self._lives)

    def run(self) -> int:
        """Run until all have ended: after a signal, or because they cannot start. Return the exit code."""
        with closing(self._family), signals.node_signals(self._on_signal):
            threads = [threading.Thread(target=self._look_after, args=(child,)) for child in self._children]
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)  # in steps, so that signals are handled in between
        return worst([child.codes[-1] for child in self._children if child.codes])

    def _look_after(self, child: _Child) -> None:
        """Start one node, and start it again when it dies."""
        clock = SystemClock()
        while True:
            born = clock.steady()
            process = self._start(child)
            if process is None:
                return
            self._pass_on(child.name, process)
            code = process.wait()
            child.codes.append(code)
            if self._stopping.is_set() or code == 0:
                return
            if code == BAD_INPUT and len(child.codes) == 1:  # a later one may be temporary, such as a port in use
                self._stop_all()
                return
            if clock.steady() - born > STEADY:
                child.pause = FIRST_PAUSE
            click.echo(f"process {child.name} ended with {code}; it starts again in {child.pause:g} s", err=True)
            if self._stopping.wait(child.pause):
                return
            child.pause = min(2 * child.pause, LONGEST_PAUSE)

    def _start(self, child: _Child) -> subprocess.Popen[str] | None:
        own = [*child.own, "--node-id", child.name, "--with-parent"]
        environment = {**os.environ, **self._family.environment(self._children.index(child))}
        command = [sys.executable, "-m", "onthedot", *self._arguments, *own]
        with self._lock:
            if self._asked:
                return None
            child.process = subprocess.Popen(  # noqa: S603 - our own command line, once more
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace",
                start_new_session=True, env=environment,
            )  # fmt: skip
            return child.process

    def _lives(self, number: int) -> bool:
        process = self._children[number].process
        return process is not None and process.poll() is None

    def _pass_on(self, name: str, process: subprocess.Popen[str]) -> None:
        """Print the child's lines with its name, until the child ends."""
        if process.stdout is None or process.stdin is None:
            return
        with process.stdout, process.stdin:
            for line in process.stdout:
                if self._as_json and line.startswith("{"):
                    self._say(f'{{"process": {json.dumps(name)}, {line[1:]}')
                else:
                    self._say(f"{name}  {line}")

    def _say(self, line: str) -> None:
        """Print a line. If the reader is gone, stop all, as one process would."""
        if self._unread:
            return
        try:
            click.echo(line, nl=False)
        except BrokenPipeError:
            self._unread = True
            self._stop_all()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if signals.is_ignored(number, draining=self._asked > 0):
            return
        threading.Thread(target=self._stop_all).start()  # not here: the interrupted code may hold the lock

    def _stop_all(self) -> None:
        """Pass SIGTERM on: the first drains, the second stops now."""
        with self._lock:
            self._asked += 1
            if self._asked == 1:
                self._family.stopping()
            for child in self._children:
                if child.process is not None and child.process.poll() is None:
                    child.process.send_signal(signal.SIGTERM)
        self._stopping.set()
