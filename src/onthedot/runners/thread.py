"""Runs plain functions in daemon threads.

A thread cannot be killed. At a time-out the attempt gets its outcome while the function still runs. The function's
result is ignored, and it keeps its seat until it returns. The threads are daemons, because a node that stops cannot
wait for a function that never returns.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue

from onthedot import fault_points
from onthedot.clock import SECOND
from onthedot.runners.attempt import Attempt, stopped_before_start
from onthedot.runners.outcomes import succeeded, timed_out
from onthedot.runners.runner import Host, OffLoopRunner


class ThreadRunner(OffLoopRunner):
    """A pool that grows by a thread whenever all are busy, up to the worker's seats."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._work: SimpleQueue[Attempt | None] = SimpleQueue()
        self._threads = 0
        self._busy = 0  # attempts that were started and have not returned; engine's thread only

    # ── on the engine's thread ───────────────────────────────────────────────────────────────────────────────

    def start(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            self._busy += 1
            if self._threads < min(self._busy, self._seats):
                self._threads += 1
                threading.Thread(target=self._serve, name=f"onthedot handler {self._threads}", daemon=True).start()
            self._work.put(attempt)

    def stop(self, attempts: list[Attempt]) -> None:
        """Release attempts that have not begun. The others cannot be stopped: they keep their seats."""
        for attempt in attempts:
            with self._deciding:
                if attempt.outcome is not None:
                    continue
                attempt.stuck = attempt.started_at > 0
                attempt.outcome = (
                    attempt.stop_as if attempt.stuck and attempt.stop_as else stopped_before_start(attempt)
                )
                attempt.ended_at = self._clock.now()
            self._tell(self._tell_ended, [attempt])
            if attempt.stuck:
                self._tell(self._tell_stuck, [attempt])

    def close(self) -> None:
        for _ in range(self._threads):
            self._work.put(None)

    def _time_out(self, attempt: Attempt) -> None:
        attempt.stuck = True
        if self._decide(attempt, timed_out(attempt.timeout)):
            attempt.tell_to_stop()
            self._tell_stuck([attempt])
        else:
            attempt.stuck = False

    def _returned(self, attempt: Attempt) -> None:
        self._busy -= 1
        if attempt.handle is not None:
            attempt.handle.cancel()
        if attempt.stuck:
            self._tell_freed([attempt])

    def _watch(self, attempt: Attempt) -> None:
        if attempt.outcome is None:
            attempt.handle = self._engine_loop.call_later(attempt.timeout / SECOND, self._time_out, attempt)

    # ── on the handlers' threads ─────────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        while (attempt := self._work.get()) is not None:
            if self._begin(attempt):
                self._perform(attempt)
            self._tell(self._returned, attempt)

    def _begin(self, attempt: Attempt) -> bool:
        """Note that the attempt begins. Returns False if it has an outcome already."""
        with self._deciding:
            if attempt.outcome is None:
                attempt.started_at = self._clock.now()
            return attempt.outcome is None

    def _perform(self, attempt: Attempt) -> None:
        if attempt.timeout:
            self._tell(self._watch, attempt)
        if self._tell_started is not None:
            self._tell(self._tell_started, [attempt])
        fault_points.point("attempt.before_call")
        try:
            outcome = succeeded(attempt.call(self._registry.handler_of(attempt.lease)), self._result_bytes)
        except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt end the attempt, not the worker
            outcome = attempt.failed(error)
        fault_points.point("attempt.after_call")
        self._decide(attempt, outcome)
