"""The guard's process: `python -m onthedot.runners.guard.main SOCKET TOKEN [CGROUP…]`, started by a worker.

It has one thread and one loop. After every wake-up it first checks the worker's lease, because the guard itself may
have been suspended. No program can block it: it reads no pipe for long, writes to no full pipe, and waits for nothing
that a program could delay.
"""

from __future__ import annotations

import gc
import os
import resource
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

from onthedot.clock import MILLISECOND, NEVER, SECOND, Micros, SystemClock
from onthedot.runners.frames import BadFrame, Inbox, Message, frame
from onthedot.runners.guard import cgroups, process_tree
from onthedot.runners.guard.launcher import NOT_FOR_US
from onthedot.runners.guard.protocol import MOST_TO_GUARD, Kind, ProgramEnd, program_from_json
from onthedot.runners.guard.running_program import RunningProgram
from onthedot.runners.guard.sweeper import Sweeper
from onthedot.runners.guard.users import LevelUnavailable, NoFreeUser

_CHUNK = 1 << 18
_UNHEARD_MOST = 1 << 18  # with more unsent bytes than this, we send no live output
_BEGAN_WITHIN: Micros = 20 * MILLISECOND  # most programs have ended by then, so the worker wakes up only once
_LEASE_ENDED = "its worker did not renew its lease in time"
_WORKER_GONE = "its worker is gone"


class GuardLoop:
    """The loop of a guard, with all programs of its worker."""

    def __init__(self, talk: socket.socket, token: str, groups: list[str]) -> None:
        self._talk = talk
        self._token = token
        self._groups = cgroups.usable(groups)
        self._clock = SystemClock()
        self._inbox = Inbox(MOST_TO_GUARD)
        self._unsent = bytearray()
        self._send_at: Micros = NEVER
        self._is_full = False  # the socket to the worker takes no more bytes
        self._lease: Micros = NEVER
        self._worker_gone = False
        self._running: dict[int, RunningProgram] = {}
        self._sweeper = Sweeper(self._running, token)
        self._selector = selectors.DefaultSelector()
        talk.setblocking(False)
        self._selector.register(talk, selectors.EVENT_READ, self._hear)
        self._told_of_deaths = _wake_up_for_deaths()
        self._selector.register(self._told_of_deaths, selectors.EVENT_READ, self._deaths)

    def run(self) -> None:
        """Run until the worker and all of its programs are gone."""
        self._send({"ready": os.getpid()})
        while self._running or not self._worker_gone:
            wait = self._next() - self._clock.steady()
            ready = self._selector.select(None if wait > NEVER // 2 else max(0, wait) / SECOND)
            self._check_lease()
            for key, events in ready:
                act: Callable[[int], None] = key.data
                act(events)
            self._reap()
            self._look_at_clock()
        self._sweeper.kill_everybody()

    # ── the worker ───────────────────────────────────────────────────────────────────────────────────────────

    def _hear(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush()
        if not events & selectors.EVENT_READ:
            return
        try:
            data = self._talk.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            for message in self._inbox.feed(data):
                self._obey(message)
        except (BadFrame, KeyError, TypeError, ValueError) as error:
            print(f"onthedot guard: got an invalid message from its worker: {error}", file=sys.stderr)
            data = b""
        if not data:
            self._lose_worker()

    def _obey(self, message: Message) -> None:
        match message:
            case {"start": int(number)}:
                self._start(number, message["program"])
            case {"stop": int(number)}:
                if number in self._running:
                    self._end(self._running[number], "stopped")
            case {"renew": int(until)}:
                self._lease = until
                self._send({"renewed": until})
            case _:
                raise BadFrame(f"expected start, stop or renew, got {', '.join(message)[:100]!r}")

    def _lose_worker(self) -> None:
        self._worker_gone = True
        self._selector.unregister(self._talk)
        self._talk.close()
        self._kill_all(_WORKER_GONE)

    def _send(self, message: Message, within: Micros = 0) -> None:
        """Send at the end of this iteration or later (`within`), so that several frames wake the worker only once."""
        if not self._worker_gone:
            self._unsent += frame(message)
            self._send_at = min(self._send_at, self._clock.steady() + within)

    def _flush(self) -> None:
        if self._worker_gone:
            return
        self._send_at = NEVER
        with suppress(OSError):  # full: we send later; the worker is gone: `_hear` notices that
            while self._unsent:
                del self._unsent[: self._talk.send(self._unsent)]
        if bool(self._unsent) != self._is_full:
            self._is_full = not self._is_full
            writes = selectors.EVENT_WRITE if self._is_full else 0
            self._selector.modify(self._talk, selectors.EVENT_READ | writes, self._hear)

    # ── programs ─────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, number: int, data: Message) -> None:
        program = program_from_json(data)
        try:
            if not program.argv:
                raise LevelUnavailable("expected a program and its arguments, got nothing")
            if self._clock.steady() >= self._lease:
                raise LevelUnavailable(_LEASE_ENDED)
            running = RunningProgram(number, program, f"{self._token}.{number}", self._groups, self._clock)
        except NoFreeUser as error:
            self._send({"ended": number, "end": ProgramEnd("no_room", error=str(error))})
            return
        except (OSError, LevelUnavailable, ValueError) as error:
            self._send({"ended": number, "end": ProgramEnd("refused", error=f"could not be started: {error}")})
            return
        self._running[number] = running
        self._selector.register(running.spawned.out, selectors.EVENT_READ, self._reader(running, running.spawned.out))
        self._selector.register(running.spawned.err, selectors.EVENT_READ, self._reader(running, running.spawned.err))
        if running.spawned.stdin >= 0:
            self._selector.register(running.spawned.stdin, selectors.EVENT_WRITE, self._writer(running))
        self._send({"began": number, "pid": running.pid}, _BEGAN_WITHIN)

    def _reader(self, running: RunningProgram, pipe: int) -> Callable[[int], None]:
        def read(events: int) -> None:
            del events
            if not running.read(pipe):
                self._selector.unregister(pipe)

        return read

    def _writer(self, running: RunningProgram) -> Callable[[int], None]:
        def write(events: int) -> None:
            del events
            if not running.write():
                self._selector.unregister(running.spawned.stdin)
                os.close(running.spawned.stdin)
                running.spawned = running.spawned._replace(stdin=-1)

        return write

    def _end(self, running: RunningProgram, reason: Kind) -> None:
        """Ask the program to end, and kill it after its grace."""
        if running.reason is None and running.status is None:
            running.reason = reason
            running.kill_at = self._clock.steady() + running.program.grace
            self._sweeper.ask_to_end(running)

    def _kill_all(self, why: str) -> None:
        for running in self._running.values():
            if running.status is None:
                running.reason, running.error = running.reason or "stopped", why
            self._kill(running)

    def _kill(self, running: RunningProgram) -> None:
        running.ends_at = NEVER
        running.kill_at = self._clock.steady() + SECOND  # kill again if a process is still alive then
        self._sweeper.kill(running)

    # ── deaths ───────────────────────────────────────────────────────────────────────────────────────────────

    def _deaths(self, events: int) -> None:
        del events
        with suppress(BlockingIOError):
            while self._told_of_deaths.recv(4096):
                pass

    def _reap(self) -> None:
        mains = {running.pid: running for running in self._running.values() if running.status is None}
        somebody_died = False
        with suppress(ChildProcessError):
            while (died := os.wait4(-1, os.WNOHANG))[0]:
                pid, status, usage = died
                somebody_died = True
                self._sweeper.forget(pid)
                if pid in mains:
                    running = mains[pid]
                    running.status, running.usage = status, usage
                    running.ends_at = running.kill_at = NEVER
        if somebody_died:
            self._sweep()

    def _sweep(self) -> None:
        for running in self._sweeper.sweep(self._clock.steady()):
            del self._running[running.number]
            self._conclude(running)

    def _conclude(self, running: RunningProgram) -> None:
        for pipe in running.streams:
            running.drain(pipe)
        for pipe in running.spawned[1:-1]:
            with suppress(KeyError, ValueError):
                self._selector.unregister(pipe)
        end = running.end()
        running.release()
        self._say(running)
        self._send({"ended": running.number, "end": end})

    # ── the clock ────────────────────────────────────────────────────────────────────────────────────────────

    def _check_lease(self) -> None:
        if self._clock.steady() >= self._lease and self._running:
            self._kill_all(_LEASE_ENDED)

    def _next(self) -> Micros:
        """Return the next time at which there is something to do."""
        next_at = min(self._sweeper.again_at, self._send_at)
        if self._running:
            next_at = min(next_at, max(self._lease, self._clock.steady() + 20 * MILLISECOND))
        for running in self._running.values():
            next_at = min(next_at, running.ends_at, running.kill_at, running.say_at)
        return next_at

    def _look_at_clock(self) -> None:
        now = self._clock.steady()
        for running in self._running.values():
            if running.kill_at <= now:
                self._kill(running)
            elif running.ends_at <= now:
                running.ends_at = NEVER
                self._end(running, "timed_out")
            if running.say_at <= now:
                self._say(running)
        if self._sweeper.again_at <= now:
            self._sweep()
        if self._send_at <= self._clock.steady():
            self._flush()

    def _say(self, running: RunningProgram) -> None:
        text, parts = running.say(self._clock.steady())
        if text and len(self._unsent) < _UNHEARD_MOST:
            self._send({"said": running.number, "text": text, "parts": parts})


def _wake_up_for_deaths() -> socket.socket:
    """Return a socket that becomes readable when a child has died."""
    ours, signals = socket.socketpair()
    ours.setblocking(False)
    signals.setblocking(False)
    signal.set_wakeup_fd(signals.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return ours


def main(arguments: list[str]) -> None:
    """Run the guard of one worker."""
    descriptor, token, *groups = arguments
    for number in NOT_FOR_US:
        signal.signal(number, signal.SIG_IGN)
    process_tree.become_subreaper()
    os.umask(0o077)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each running program needs four descriptors
    gc.freeze()  # a new process that collects garbage would copy all of this first
    with socket.socket(fileno=int(descriptor)) as talk:
        talk.set_inheritable(False)  # it was inheritable only so that we could inherit it
        GuardLoop(talk, token, groups).run()


if __name__ == "__main__":
    main(sys.argv[1:])
