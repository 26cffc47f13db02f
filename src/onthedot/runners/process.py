"""Runs handlers in child processes: a time-out or a cancel really ends them, and a crash does not end the worker.

A thread waits for each child. Children stay warm from one attempt to the next. A child that was asked to end, or that
died, is replaced. A handler that is asked to end gets SIGTERM first (a coroutine is cancelled, a function gets
`Stopped` raised in it), then SIGKILL, with everything that it has started.

The worker trusts nothing that a child sends. If a message has an unknown shape or is too large, the worker ends the
child. The worker's other threads never wait for a child. If the child does not read an answer, the worker ends it, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue
from typing import Any

from onthedot import fault_points
from onthedot.clock import SECOND, Micros
from onthedot.model.errors import DefinitionError, LeaseLost, OnTheDotError, StateError, UnknownHandler
from onthedot.model.job import Call, Job
from onthedot.model.run import Checkpoint, Lease, Progress
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.runners import child_main
from onthedot.runners.attempt import Attempt, stopped_before_start
from onthedot.runners.child_messages import KILL, TERM, lease_to_json, outcome_from_json
from onthedot.runners.frames import BadFrame, frame, receive, send
from onthedot.runners.notes import CHECKPOINT_LIMIT, LOG_LIMIT, Notes
from onthedot.runners.outcomes import failed, timed_out
from onthedot.runners.registry import Importable, importable, main_module
from onthedot.runners.runner import Host, OffLoopRunner
from onthedot.stores.values import Note

# ── one child ───────────────────────────────────────────────────────────────────────────────────────────────────────


_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from onthedot.runners.child_main import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


class ChildGone(Exception):
    """The child has ended, or does not answer any more. The text says how."""


class Child:
    """A warm process that calls one handler after the other.

    It has its own session, so that Ctrl-C at the terminal does not reach it. None of our code runs between fork and
    exec, so this is safe in a process with threads.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._closing = threading.Lock()
        self.spent = False  # it was asked to end, or is gone: do not use it again
        self._group = 0
        self._talk, their_talk = socket.socketpair()
        self._rein, their_rein = socket.socketpair()
        self._news = select.poll()
        for end in (self._talk, self._rein):  # the rein becomes readable only when the keeper is gone
            self._news.register(end, select.POLLIN)
        with their_talk, their_rein:
            fds = (their_talk.fileno(), their_rein.fileno())
            path = json.dumps([entry or os.getcwd() for entry in sys.path])
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and arguments
                [sys.executable, "-c", _BOOT, str(fds[0]), str(fds[1]), path],
                stdin=subprocess.DEVNULL, pass_fds=fds, start_new_session=True,
            )  # fmt: skip

    def warm_up(self, paths: list[Any], main: dict[str, str]) -> None:
        """Load these handlers' modules in the child, and wait until that is done."""
        self.ask({"warm": paths, "main": main})
        group = self.answer().get("ready")
        self._group = group if isinstance(group, int) else 0

    def ask(self, message: dict[str, Any]) -> None:
        """Send one request."""
        try:
            send(self._talk, message)
        except OSError:
            raise ChildGone(self._how_it_ended()) from None

    def answer(self) -> dict[str, Any]:
        """Wait for the next answer. `ChildGone` if there will be none."""
        try:
            if self._talk.fileno() in {fd for fd, _ in self._news.poll()}:
                message = receive(self._talk, self._most)
                if message is not None:
                    return message
        except BadFrame as error:
            self.kill()
            self._process.wait()
            raise ChildGone(f"its process sent an invalid answer: {error}") from None
        except (OSError, ValueError):  # reset, or closed here meanwhile
            pass
        raise ChildGone(self._how_it_ended())

    def reply(self, message: dict[str, Any]) -> None:
        """Send one answer, from any thread. Never waits: a child that does not take the answer is killed."""
        body = frame(message)
        taken = False
        with self._closing, contextlib.suppress(OSError):
            taken = self._talk.send(body, socket.MSG_DONTWAIT) == len(body)
        if not taken:
            self.kill()

    def stop(self) -> None:
        """Ask the handler to end: SIGTERM to its process group."""
        self.spent = True
        self._pull(TERM)

    def kill(self) -> None:
        """End the handler's process group now."""
        self.spent = True
        self._pull(KILL)

    def close(self) -> None:
        """Kill the child if it still runs, and reap it."""
        with self._closing:
            self._talk.close()
            self._rein.close()
        self._process.wait()

    def _pull(self, told: bytes) -> None:
        with self._closing, contextlib.suppress(OSError):  # gone already
            self._rein.send(told)

    def _how_it_ended(self) -> str:
        self._pull(KILL)  # it may still run
        code = self._process.wait()
        if code == -signal.SIGKILL and self._group:  # perhaps only its keeper was killed
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)
        if code >= 0:
            return f"its process ended with exit code {code} before the handler returned"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        why = "; was it out of memory?" if -code == signal.SIGKILL else ""
        return f"its process was killed by {name}{why}"


_MOST_LOG = LOG_LIMIT + 1_000  # includes the line about what was left out
_LARGEST_REVISION = 1 << 62


# ── messages of a child while its handler runs ──────────────────────────────────────────────────────────────────


class RelayedNotes(Notes):
    """The newest notes that a child has sent about its attempt."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease)
        self._text: str | None = None

    def hear(self, progress: Progress | None, log: str | None) -> bool:
        """Keep what the child has sent. Returns whether this is the first news since the last `take`."""
        with self._lock:
            self._progress, self._text = progress, log
            return self._is_first()

    def take(self) -> Note:
        return super().take()._replace(log=self._text)


class Relay:
    """Passes one attempt's notes and checkpoints to the reporter, on the thread that waits for its child."""

    def __init__(self, attempt: Attempt, child: Child) -> None:
        self._attempt = attempt
        self._child = child
        self._notes = RelayedNotes(attempt.lease)
        self._asked: Future[None] | None = None

    def outcome(self) -> Outcome:
        """Forward the child's messages until it sends its outcome, and return that. Raise `ChildGone` or `BadFrame` if
        none comes."""
        while True:
            match self._child.answer():
                case {"note": [progress, (None | str()) as log]}:
                    self._note(_progress(progress), log)
                case {"checkpoint": [int(revision), str(value)]}:
                    self._save(revision, value)
                case other:
                    if self._asked is not None and not self._asked.done():
                        raise BadFrame("expected it to wait for its answer")
                    return outcome_from_json(other.get("outcome"))

    def _note(self, progress: Progress | None, log: str | None) -> None:
        if log is not None and len(log) > _MOST_LOG:
            raise BadFrame(f"expected a log of at most {_MOST_LOG} characters, got {len(log)}")
        if self._notes.hear(progress, log) and self._attempt.reporter is not None:
            self._attempt.reporter.noted(self._notes)

    def _save(self, revision: int, value: str) -> None:
        if self._asked is not None and not self._asked.done():
            raise BadFrame("expected one question at a time")
        if not 0 < revision < _LARGEST_REVISION or not _is_checkpoint(value):
            raise BadFrame(f"expected a checkpoint, got {value[:100]!r}")
        reporter = self._attempt.reporter
        if reporter is None:
            self._child.reply({"failed": "this attempt has no reporter: there is nowhere to save its notes"})
            return
        try:
            self._asked = reporter.checkpoint(self._attempt.lease, Checkpoint(revision, value))
        except LeaseLost as error:
            self._child.reply({"lost": str(error)})
            return
        self._asked.add_done_callback(self._answer)

    def _answer(self, saved: Future[None]) -> None:
        """Send the child the result of saving its checkpoint. This usually runs on the engine's thread."""
        try:
            saved.result()
        except CancelledError:
            self._child.reply({"lost": "its node has stopped; another attempt continues from its last checkpoint"})
        except LeaseLost as error:
            self._child.reply({"lost": str(error)})
        except OnTheDotError as error:
            self._child.reply({"failed": str(error)})
        else:
            self._child.reply({"saved": True})


def _progress(told: Any) -> Progress | None:
    match told:
        case None:
            return None
        case [int() | float() as done, (None | int() | float()) as of]:
            return Progress(done, of)
    raise BadFrame(f"expected progress, got {str(told)[:100]!r}")


def _is_checkpoint(value: str) -> bool:
    if len(value) > CHECKPOINT_LIMIT:
        return False
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True


# ── the runner ──────────────────────────────────────────────────────────────────────────────────────────────────────


_LOST_PATIENCE: Micros = SECOND // 2  # short: the lease is lost, and another node may start the run soon
_KILL_PATIENCE: Micros = SECOND  # a process that SIGKILL has not ended by then is stuck in the kernel
_CHILD_DIED = ("onthedot.ChildDied",)
_JOIN = 2.0  # seconds until a killed child must have been reaped


class ProcessRunner(OffLoopRunner):
    """A pool of children that grows by one whenever all are busy, up to `processes`."""

    def __init__(self, host: Host) -> None:
        if child_main.importing:
            raise StateError(
                "a child process of a worker imports this module to find a handler, and the module starts a scheduler; "
                "put that under \"if __name__ == '__main__':\""
            )
        super().__init__(host)
        self._processes = min(host.settings.processes, host.settings.seats)
        self._kill_after = host.settings.kill_after
        self._work: SimpleQueue[Attempt | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0  # attempts that were started and have not returned; engine's thread only
        self._timers: dict[Attempt, asyncio.TimerHandle] = {}  # engine's thread only
        self._known: set[Importable] = set()
        # `_deciding` guards these, too, and which child an attempt is in
        self._children: set[Child] = set()
        self._closed = False

    # ── on the engine's thread ───────────────────────────────────────────────────────────────────────────────

    def warm(self, jobs: Sequence[Job]) -> None:
        """Start children for these jobs and load their modules, so that a first run is as punctual as the others."""
        mine = [job.task.handler for job in jobs if isinstance(job.task, Call) and job.isolation == "process"]
        self._known.update(importable(self._registry.get(name).function) for name in mine)
        for _ in mine[: self._processes]:
            self._add_thread()

    def start(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            self._busy += 1
            if len(self._threads) < min(self._busy, self._processes):
                self._add_thread()
            self._work.put(attempt)

    def stop(self, attempts: list[Attempt]) -> None:
        """Release attempts that have not begun. Ask the others to end, and then kill them."""
        for attempt in attempts:
            with self._deciding:
                if attempt.outcome is not None:
                    continue
                begun = attempt.started_at > 0
                if not begun:
                    attempt.outcome = stopped_before_start(attempt)
                    attempt.ended_at = self._clock.now()
            if begun:
                lost = attempt.stop_as is not None and attempt.stop_as.kind is OutcomeKind.LOST
                self._end_early(attempt, min(_LOST_PATIENCE, self._kill_after) if lost else self._kill_after)
            else:
                self._tell(self._tell_ended, [attempt])

    def close(self) -> None:
        """Kill and reap all children."""
        with self._deciding:
            self._closed = True
            children = list(self._children)
        for child in children:
            child.kill()
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join(_JOIN)

    def _add_thread(self) -> None:
        name = f"onthedot child {len(self._threads) + 1}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _watch(self, attempt: Attempt) -> None:
        if attempt.outcome is None and attempt not in self._timers:
            self._later(attempt, attempt.timeout, self._time_out)

    def _time_out(self, attempt: Attempt) -> None:
        attempt.timed_out = True
        self._end_early(attempt, self._kill_after)

    def _end_early(self, attempt: Attempt, patience: Micros) -> None:
        if self._in_child(attempt, Child.stop):
            self._later(attempt, patience, self._kill)

    def _kill(self, attempt: Attempt) -> None:
        if self._in_child(attempt, Child.kill):
            self._later(attempt, _KILL_PATIENCE, self._give_up)

    def _give_up(self, attempt: Attempt) -> None:
        attempt.stuck = True
        if self._decide(attempt, self._ended_early(attempt)):
            self._tell_stuck([attempt])
        else:
            attempt.stuck = False

    def _in_child(self, attempt: Attempt, act: Callable[[Child], None]) -> bool:
        """Call `act` with the child that runs this attempt now, if there is one. Return whether there is one."""
        with self._deciding:
            child: Child | None = attempt.handle
            if child is not None:
                act(child)
            return child is not None

    def _later(self, attempt: Attempt, wait: Micros, then: Callable[[Attempt], None]) -> None:
        earlier = self._timers.pop(attempt, None)
        if earlier is not None:
            earlier.cancel()
        self._timers[attempt] = self._engine_loop.call_later(wait / SECOND, then, attempt)

    def _returned(self, attempt: Attempt) -> None:
        self._busy -= 1
        timer = self._timers.pop(attempt, None)
        if timer is not None:
            timer.cancel()
        if attempt.stuck:
            self._tell_freed([attempt])

    # ── on the threads that wait for children ────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        child = self._fresh()
        while (attempt := self._work.get()) is not None:
            child = child or self._fresh(attempt)
            if child is not None:
                self._perform(attempt, child)
            self._tell(self._returned, attempt)
            if child is not None and child.spent:
                self._drop(child)
                child = self._fresh()
        if child is not None:
            self._drop(child)

    def _fresh(self, attempt: Attempt | None = None) -> Child | None:
        """Start a child. None if that fails: then the attempt that needs it has failed."""
        child = None
        try:
            child = Child(most=8 * self._result_bytes + (1 << 20))
            with self._deciding:
                self._children.add(child)
                if self._closed:
                    child.kill()
            child.warm_up(sorted(self._known.copy()), main_module())
        except (ChildGone, OSError) as error:
            if child is not None:
                self._drop(child)
            if attempt is not None:
                outcome = Outcome(OutcomeKind.FAILED, f"no child process could be started: {error}", _CHILD_DIED)
                self._decide(attempt, outcome)
            return None
        return child

    def _drop(self, child: Child) -> None:
        with self._deciding:
            self._children.discard(child)
        child.close()

    def _perform(self, attempt: Attempt, child: Child) -> None:
        try:
            request = self._request(attempt)
        except (DefinitionError, UnknownHandler) as error:
            self._decide(attempt, failed(error))
            return
        if not self._begin(attempt, child):
            return
        fault_points.point("attempt.before_call")
        gone = False
        try:
            child.ask(request | {"started_at": attempt.started_at, "timeout": attempt.timeout})
            outcome = Relay(attempt, child).outcome()
        except (ChildGone, BadFrame) as error:
            outcome = Outcome(OutcomeKind.FAILED, str(error), _CHILD_DIED)
            gone = True
        fault_points.point("attempt.after_call")
        with self._deciding:
            attempt.handle = None  # from now on a stop of this attempt does not reach the child
            asked, child.spent = child.spent, child.spent or gone
        stopped = asked and attempt.stop_as is not None and outcome.kind is not OutcomeKind.SUCCEEDED
        self._decide(attempt, self._ended_early(attempt) if attempt.timed_out or stopped else outcome)

    def _request(self, attempt: Attempt) -> dict[str, Any]:
        handler = self._registry.handler_of(attempt.lease)
        path = importable(handler.function)
        self._known.add(path)
        return {
            "handler": path,
            "main": main_module(),
            "lease": lease_to_json(attempt.lease),
            "result_bytes": self._result_bytes,
        }

    def _begin(self, attempt: Attempt, child: Child) -> bool:
        """Note that the attempt begins in this child. Returns False if it has an outcome already."""
        with self._deciding:
            if attempt.outcome is not None:
                return False
            attempt.started_at = self._clock.now()
            attempt.handle = child
        if attempt.timeout:
            self._tell(self._watch, attempt)
        if self._tell_started is not None:
            self._tell(self._tell_started, [attempt])
        return True

    def _ended_early(self, attempt: Attempt) -> Outcome:
        if attempt.timed_out or attempt.stop_as is None:
            return timed_out(attempt.timeout)
        return attempt.stop_as
