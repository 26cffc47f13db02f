"""One running program of a guard: its pipes, the record of its output, its live output, and how it ended."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

from onthedot.clock import MILLISECOND, NEVER, SECOND, Clock, Micros
from onthedot.output.capture import Capture
from onthedot.output.records import Mark, Stream
from onthedot.runners.guard import launcher, process_tree, sandbox, users
from onthedot.runners.guard.cgroups import Group
from onthedot.runners.guard.launcher import ISOLATED, Rights
from onthedot.runners.guard.protocol import Kind, Program, ProgramEnd
from onthedot.runners.guard.users import LevelUnavailable, User

READ_MOST = 1 << 16
"""The most bytes that are read from one pipe before the next pipe."""
SAY_EVERY: Micros = 200 * MILLISECOND
SAY_MOST = 1 << 14
"""The most characters of live output that are sent in that time. The rest is only in the record."""

_NEAR = 0.9  # a failed program that had this share of its memory counts as out of memory
_LEFT_IN_PIPE = 32  # reads of READ_MOST bytes: more than a pipe can hold


class RunningProgram:
    """A program that was started. The constructor raises OSError, ValueError or `LevelUnavailable` if the program
    cannot be started."""

    def __init__(self, number: int, program: Program, mark: str, cgroups: list[str], clock: Clock) -> None:
        self.number = number
        self.program = program
        self.clock = clock
        self.stdin = memoryview(program.stdin)
        self.reason: Kind | None = None  # why we ended it; None if we did not
        self.error = ""
        self.ends_at: Micros = clock.steady() + program.timeout if program.timeout else NEVER
        self.kill_at: Micros = NEVER
        self.status: int | None = None  # of the main process; None until it has ended
        self.usage: resource.struct_rusage | None = None
        self.stragglers: set[int] = set()
        self.user: User | None = None
        self.group: Group | None = None
        self._said: list[str] = []
        self._said_length = 0
        self._parts: list[list[Any]] = []  # the time, stream and length of each part of the live output
        self._said_at: Micros = -SAY_EVERY
        self._capture: Capture | None = None
        self._is_recorded = True  # False once the record cannot be written
        try:
            self._start(mark, cgroups)
        except (OSError, ValueError, LevelUnavailable):
            self.release()
            raise
        self.streams: dict[int, Stream] = {self.spawned.out: "out", self.spawned.err: "err"}

    def _start(self, mark: str, cgroups: list[str]) -> None:
        program = self.program
        if program.level in ISOLATED and os.geteuid() == 0:
            self.user = users.take_user(program.workspace)
            users.check_reachable(program.workspace)
        elif program.level == "user":
            raise LevelUnavailable("isolation 'user': expected a worker that runs as root, got one that does not")
        if cgroups:
            self.group = Group(cgroups, mark, program.bounds)
        argv, env, files = [*program.argv], {**program.env, process_tree.MARK: mark}, []
        if program.level == "sandbox":
            uid = self.user.uid if self.user else os.geteuid()
            files = sandbox.sandbox_files(program.env, uid, program.workspace)
            handed = range(3, 3 + len(files))
            argv = [
                *sandbox.bubblewrap(program.directory, program.workspace, handed=handed, network=program.network),
                *argv,
            ]
            env = {process_tree.MARK: mark}  # the environment of bubblewrap; the program inherits it
        rights = Rights(
            user=self.user,
            workspace=program.workspace,
            level=program.level,
            procs_files=self.group.procs_files if self.group else (),
            limits=launcher.limits_of(program.bounds, own_user=self.user is not None),
            files=files,
        )
        self.spawned = launcher.spawn(argv, env, program.directory, reads=bool(program.stdin), rights=rights)

    # ── pipes ────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, pipe: int) -> bool:
        """Read some output. Returns whether there can be more."""
        try:
            data = os.read(pipe, READ_MOST)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if data:
            self._record(self.streams[pipe], data)
        return bool(data)

    def write(self) -> bool:
        """Write some of its standard input. Return whether there is more."""
        try:
            self.stdin = self.stdin[os.write(self.spawned.stdin, self.stdin[:READ_MOST]) :]
        except BlockingIOError:
            return True
        except OSError:  # the program has closed its standard input
            return False
        return bool(self.stdin)

    def drain(self, pipe: int) -> None:
        """Read the rest of a pipe: all its writers are gone."""
        for _ in range(_LEFT_IN_PIPE):
            try:
                data = os.read(pipe, READ_MOST)
            except OSError:  # the pipe is empty, but a process outside of the tree has it open
                return
            if not data:
                return
            self._record(self.streams[pipe], data)

    def _record(self, stream: Stream, data: bytes) -> None:
        if not self._is_recorded:
            return
        try:
            if self._capture is None:  # only now, because most short programs print nothing
                self._capture = self._open_capture()
            self._to_say(stream, self._capture.feed(stream, data))
        except OSError:  # the disk is full: the program continues without a record
            self._is_recorded = False
            self._close_capture()

    def _open_capture(self) -> Capture:
        program = self.program
        return Capture(
            Path(program.log), step=program.label, limit=program.bounds.output, secrets=program.secrets,
            clock=self.clock.now,
        )  # fmt: skip

    def _close_capture(self) -> None:
        capture, self._capture = self._capture, None
        if capture is not None:
            with suppress(OSError):
                for stream, text in capture.close():
                    self._to_say(stream, text)

    # ── live output ───────────────────────────────────────────────────────────────────────────

    def _to_say(self, stream: Stream, text: str) -> None:
        room = SAY_MOST - self._said_length
        if not text or room <= 0:
            return
        text, now = text[:room], self.clock.now()
        self._said.append(text)
        self._said_length += len(text)
        last = self._parts[-1] if self._parts else None
        if last is not None and Mark(last[0], last[1]).covers(Mark(now, stream)):
            last[2] += len(text)
        else:
            self._parts.append([now, stream, len(text)])

    @property
    def say_at(self) -> Micros:
        """Return the time at which the next output is sent."""
        return self._said_at + SAY_EVERY if self._said else NEVER

    def say(self, now: Micros) -> tuple[str, list[list[Any]]]:
        """Return the output to send now, and its parts: the time, stream and length of each."""
        text, parts = "".join(self._said), self._parts
        self._said.clear()
        self._parts = []
        self._said_length = 0
        self._said_at = now
        return text, parts

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def pid(self) -> int:
        """Return the process id of its main process."""
        return self.spawned.pid

    def release(self) -> None:
        """Close its pipes and its record, and give back its cgroup and its user. Call it when the process tree is
        gone."""
        self._close_capture()
        if hasattr(self, "spawned"):
            for end in self.spawned[1:]:
                if end >= 0:
                    with suppress(OSError):
                        os.close(end)
        if self.group is not None:
            self.group.remove()
        if self.user is not None:
            self.user.give_back()

    def end(self) -> ProgramEnd:
        """Return how the program ended. Call it before `release`."""
        usage = self.usage
        cpu = int((usage.ru_utime + usage.ru_stime) * SECOND) if usage else 0
        memory = usage.ru_maxrss * 1024 if usage else 0
        trouble = launcher.trouble_of(self.spawned)
        told = ProgramEnd("stopped", error=self.error, cpu=cpu, memory=memory, stragglers=len(self.stragglers))
        if self.reason is not None:
            return told._replace(kind=self.reason)
        if trouble:
            return told._replace(kind="refused", error=f"{self.program.argv[0]}: could not be started: {trouble}")
        code = os.waitstatus_to_exitcode(self.status or 0)
        if code and self._was_out_of_memory(memory):
            return told._replace(kind="out_of_memory")
        if self.program.level == "sandbox" and 128 < code < 160:  # bubblewrap reports a signal like this
            code = 128 - code
        if code < 0:
            return told._replace(kind="signalled", signal=-code)
        return told._replace(kind="exited", code=code)

    def _was_out_of_memory(self, memory: int) -> bool:
        if self.group is not None and self.group.was_out_of_memory():
            return True
        bound = self.program.bounds.memory
        before = _highest()  # the program began as a copy of the guard
        return bound is not None and memory >= _NEAR * bound and memory > before


def _highest() -> int:
    """Return the most memory that this process itself has used. We do not read `ru_maxrss`, because it includes the
    worker's memory at the start of the guard."""
    with open("/proc/self/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
