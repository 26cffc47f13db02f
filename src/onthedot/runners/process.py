"""Runs handlers in child processes: a time-out or a cancel really ends them, and a crash does not end the worker.

A thread waits for each child. Children stay warm from one attempt to the next. A child that was asked to end, or that
died, is replaced. A handler that is asked to end gets SIGTERM first (a coroutine is cancelled, a function gets
`Stopped` raised in it), then SIGKILL, with everything that it has started.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from onthedot import fault_points
from onthedot.clock import SECOND, Micros
from onthedot.model.errors import DefinitionError, StateError, UnknownHandler
from onthedot.model.job import Call, Job
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.runners import child_main
from onthedot.runners.attempt import Attempt, never_begun
from onthedot.runners.child import Child, ChildGone, Relay
from onthedot.runners.child_messages import lease_to_json
from onthedot.runners.frames import BadFrame
from onthedot.runners.importable import Importable, importable, main_module
from onthedot.runners.outcomes import failed, timed_out
from onthedot.runners.runner import Host, OffLoopRunner

_LOST_PATIENCE: Micros = SECOND // 2  # the lease is gone or goes: others may start it soon
_KILL_PATIENCE: Micros = SECOND  # what SIGKILL does not end by then is stuck in the kernel
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
        self._busy = 0  # attempts given out and not returned; engine's thread only
        self._timers: dict[Attempt, asyncio.TimerHandle] = {}  # engine's thread only
        self._known: set[Importable] = set()
        # `_deciding` guards these, too, and which child an attempt is in
        self._children: set[Child] = set()
        self._closed = False

    # ── on the engine's thread ───────────────────────────────────────────────────────────────────────────────

    def warm(self, jobs: Sequence[Job]) -> None:
        """Start children for these jobs, with their modules loaded: a first run is as punctual as the others."""
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
                    attempt.outcome = never_begun(attempt)
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
        """Do something to the child that runs this attempt now, if one does. Returns whether one does."""
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
            attempt.handle = None  # from here on nobody can stop this child for its sake
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
