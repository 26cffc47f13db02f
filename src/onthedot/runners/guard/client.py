"""The worker's side of its guards: starts them, sends them programs, and cleans up after one that died.

A guard's process is started with its first program. If the guard dies, the worker kills the guard's remaining processes
and reports those programs as stopped. It starts another guard for the next program.

A second guard helps when many programs start at once. A guard starts one program at a time, and on a busy machine that
takes several milliseconds. Each guard is the parent of its own programs only, and the guards do not know each other.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from onthedot.clock import SECOND, Clock, Micros, SystemClock
from onthedot.ids import Ids, RandomIds
from onthedot.model.task import Level
from onthedot.runners.frames import BadFrame, Inbox, Message, frame
from onthedot.runners.guard import process_tree
from onthedot.runners.guard.protocol import (
    MOST_FROM_GUARD,
    MOST_TO_GUARD,
    OnOutput,
    Program,
    ProgramEnd,
    end_from_json,
    heard_from_json,
    program_to_json,
)
from onthedot.runners.guard.users import STATE_VARIABLE
from onthedot.runners.probes import isolation_levels

MOST = 2
"""The number of guards of a worker. Each takes some 16 MB, and a third one gains little."""
AT_ONCE = 3
"""The number of programs that may wait for one guard before the other one is used."""


class Guards:
    """The guards of a worker. See `Guard`."""

    def __init__(self, *, cgroups: Sequence[str] = (), offers: frozenset[Level] | None = None) -> None:
        self.levels = isolation_levels() if offers is None else offers
        self._guards = [GuardClient(cgroups=cgroups, offers=self.levels) for _ in range(MOST)]

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the running guards."""
        return [guard.pid for guard in self._guards if guard.pid is not None]

    async def run(self, program: Program, said: OnOutput | None = None) -> ProgramEnd:
        return await self._next().run(program, said)

    def _next(self) -> GuardClient:
        """Return the first guard with few waiting programs, or else the one with the fewest."""
        free = (guard for guard in self._guards if guard.starting < AT_ONCE)
        return next(free, min(self._guards, key=lambda guard: guard.starting))

    def renew(self, until: Micros) -> None:
        for guard in self._guards:
            guard.renew(until)

    async def close(self) -> None:
        await asyncio.gather(*(guard.close() for guard in self._guards))


_CHUNK = 1 << 16
_DEAF_FOR: Micros = 10 * SECOND  # a guard that does not answer for this long is killed
_GONE_WITHIN = 400  # the most searches for processes of a dead guard
_LOOK_EVERY = 0.005
_CLOSED_WITHIN = 5.0  # seconds
_CLOSED = "its worker has ended"
_DIED = "its guard died, and it was killed; run it again"


class _Asked(NamedTuple):
    end: asyncio.Future[ProgramEnd]
    said: OnOutput | None


class GuardClient:
    """One guard. See `Guard`. `cgroups` are directories in which the operator lets us make cgroups."""

    def __init__(
        self,
        *,
        cgroups: Sequence[str] = (),
        offers: frozenset[Level] | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.levels = isolation_levels() if offers is None else offers
        self._cgroups = tuple(cgroups)
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._numbers = itertools.count(1)
        self._lease: Micros | None = None
        self._guard: _GuardProcess | None = None
        self._closed = False
        self._burials: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        """Return the id of the guard's process; None if none runs."""
        return None if self._guard is None else self._guard.pid

    @property
    def starting(self) -> int:
        """Return how many programs were sent to the guard and have neither started nor ended."""
        return 0 if self._guard is None else self._guard.starting

    async def run(self, program: Program, said: OnOutput | None = None) -> ProgramEnd:
        if program.level not in self.levels:
            offered = ", ".join(sorted(self.levels)) or "none of them: programs need Linux"
            return ProgramEnd("refused", error=f"isolation {program.level!r}: this machine offers {offered}")
        if self._closed:
            return ProgramEnd("refused", error=_CLOSED)
        number = next(self._numbers)
        start = frame({"start": number, "program": program_to_json(program)})
        if len(start) > MOST_TO_GUARD:
            most = f"expected at most {MOST_TO_GUARD >> 20} MiB of arguments, environment and standard input"
            return ProgramEnd("refused", error=f"{most}, got {len(start) / (1 << 20):.1f}; hand it over in a file")
        try:
            guard = self._living()
        except OSError as error:
            return ProgramEnd("refused", error=f"no guard could be started: {error}")
        end = guard.ask(number, start, said)
        try:
            return await asyncio.shield(end)
        except asyncio.CancelledError:
            guard.send({"stop": number})
            while not end.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([end])
            raise

    def renew(self, until: Micros) -> None:
        self._lease = until
        if self._guard is not None:
            self._guard.renew(until)

    async def close(self) -> None:
        self._closed = True
        guard = self._guard
        if guard is not None:
            guard.hang_up()
            await asyncio.wait(self._burials, timeout=_CLOSED_WITHIN)
            guard.kill()  # if it did not answer
        if self._burials:
            await asyncio.wait(self._burials)

    def _living(self) -> _GuardProcess:
        if self._guard is None:
            self._guard = guard = _GuardProcess(self._ids.token(), self._cgroups, self._clock)
            burial = asyncio.get_running_loop().create_task(self._accompany(guard), name="onthedot guard")
            self._burials.add(burial)
            burial.add_done_callback(self._burials.discard)
            if self._lease is not None:
                guard.renew(self._lease)
        return self._guard

    async def _accompany(self, guard: _GuardProcess) -> None:
        try:
            await guard.listen()
        finally:
            if self._guard is guard:
                self._guard = None
            await guard.bury()


class _GuardProcess:
    """One process of a guard, from its start until all of its programs are gone."""

    def __init__(self, token: str, cgroups: Sequence[str], clock: Clock) -> None:
        self._token = token
        self._clock = clock
        self._asked: dict[int, _Asked] = {}
        self._mains: dict[int, int] = {}  # the main process of each program, by its number
        self._unheard_since: Micros | None = None
        self._why_lost = _DIED
        self._inbox = Inbox(MOST_FROM_GUARD)
        self._unsent: list[bytes] = []
        self._writer: asyncio.StreamWriter | None = None
        self._talk, theirs = socket.socketpair()
        command = [
            sys.executable,
            "-S",
            "-P",
            "-m",
            "onthedot.runners.guard.main",
            str(theirs.fileno()),
            token,
            *cgroups,
        ]
        found_at = str(Path(__file__).parents[3])
        env = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": found_at}
        env |= {name: os.environ[name] for name in (STATE_VARIABLE,) if name in os.environ}
        try:
            self._process = subprocess.Popen(  # noqa: S603 - words of our own
                command, env=env, cwd="/", pass_fds=(theirs.fileno(),), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError:
            self._talk.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def starting(self) -> int:
        return len(self._asked) - len(self._mains)

    def ask(self, number: int, start: bytes, said: OnOutput | None) -> asyncio.Future[ProgramEnd]:
        """Ask the guard to start a program. Return a future of the program's end."""
        end: asyncio.Future[ProgramEnd] = asyncio.get_running_loop().create_future()
        self._asked[number] = _Asked(end, said)
        self._write(start)
        return end

    def send(self, message: Message) -> None:
        self._write(frame(message))

    def renew(self, until: Micros) -> None:
        now = self._clock.steady()
        if self._unheard_since is not None and now - self._unheard_since > _DEAF_FOR:
            self.kill()
        elif self._unheard_since is None:
            self._unheard_since = now
        self.send({"renew": until})

    def kill(self) -> None:
        self._process.kill()

    def hang_up(self) -> None:
        """Tell the guard to kill all programs, and to end."""
        self._why_lost = _CLOSED
        if self._writer is None:
            self.kill()
        else:
            self._flush()
            with suppress(OSError):
                self._talk.shutdown(socket.SHUT_WR)

    def _write(self, data: bytes) -> None:
        """Send at the end of this iteration of the loop, so that the messages of many attempts wake the guard only
        once."""
        if not self._unsent and self._writer is not None:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(data)

    def _flush(self) -> None:
        data = b"".join(self._unsent)
        self._unsent.clear()
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)

    async def listen(self) -> None:
        """Read the guard's messages until it has ended."""
        reader, self._writer = await asyncio.open_connection(sock=self._talk)
        self._flush()
        with suppress(OSError, BadFrame):  # after either error this guard is lost
            while data := await reader.read(_CHUNK):
                for message in self._inbox.feed(data):
                    self._heard(message)

    def _heard(self, message: Message) -> None:
        self._unheard_since = None
        match message:
            case {"began": int(number), "pid": int(pid)}:
                self._mains[number] = pid
            case {"said": int(number), "text": str(text), "parts": parts}:
                asked = self._asked.get(number)
                if asked is not None and asked.said is not None:
                    for one in heard_from_json(text, parts):
                        asked.said(*one)
            case {"ended": int(number), "end": end}:
                self._mains.pop(number, None)
                self._answer(number, end_from_json(end))
            case {"ready": int()} | {"renewed": int()}:
                pass
            case _:
                raise BadFrame(f"expected began, said or ended, got {', '.join(message)[:100]!r}")

    def _answer(self, number: int, end: ProgramEnd) -> None:
        asked = self._asked.pop(number, None)
        if asked is not None and not asked.end.done():
            asked.end.set_result(end)

    async def bury(self) -> None:
        """End the guard, and all processes that it has left. The search runs in a thread: it reads every process of the
        machine, which would block the loop for too long."""
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()
        self._talk.close()
        self._process.kill()
        await asyncio.to_thread(self._process.wait)
        for _ in range(_GONE_WITHIN):
            if not await asyncio.to_thread(process_tree.kill_found, self._left):
                break
            await asyncio.sleep(_LOOK_EVERY)
        for number in list(self._asked):
            self._answer(number, ProgramEnd("stopped", error=self._why_lost))

    def _left(self) -> list[process_tree.Process]:
        """Return the living processes that this guard has started. It finds them by session and by mark, and adds all
        their descendants."""
        sessions = set(self._mains.values())
        all_there_are = list(process_tree.all_processes())
        roots = [
            process.pid
            for process in all_there_are
            if process.session in sessions or process_tree.mark_of(process.pid).startswith(f"{self._token}.")
        ]
        return process_tree.with_descendants(roots, all_there_are)
