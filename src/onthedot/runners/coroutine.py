"""Runs coroutines on the application's event loop.

Attempts come from the engine's thread in batches, and outcomes go back once per iteration of the loop. A thread switch
per run would cost more than the run (22 µs, and 2 µs in batches). Time-outs share one heap and one timer (1 µs per
attempt instead of 6 for `asyncio.timeout`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque

from onthedot import fault_points
from onthedot.clock import MILLISECOND, SECOND, Micros
from onthedot.model.task import Call, Noop, Sleep
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.runners.attempt import Attempt, stopped_before_start
from onthedot.runners.outcomes import succeeded, timed_out
from onthedot.runners.runner import BaseRunner, Host

_PATIENCE = 1.0  # seconds for a cancelled coroutine to clean up
_TOGETHER: Micros = 20 * MILLISECOND  # longest wait for more outcomes while attempts wait for seats
_NO_END = Outcome(OutcomeKind.LOST, "did not end when it was cancelled")


class CoroutineRunner(BaseRunner):
    """Runs coroutine handlers, and the simulated task `sleep`, as tasks of one event loop."""

    def __init__(self, host: Host, application_loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(host)
        self._loop = application_loop
        self._waiting: deque[Attempt] = deque()
        self._running: set[Attempt] = set()
        self._started: list[Attempt] = []
        self._ended: list[Attempt] = []
        self._flushing = False
        self._deadlines: list[tuple[Micros, int, Attempt]] = []
        self._deadline_timer: asyncio.TimerHandle | None = None

    # ── called on the engine's thread ────────────────────────────────────────────────────────────────────────

    def start(self, attempts: list[Attempt]) -> None:
        self._loop.call_soon_threadsafe(self._begin, attempts)

    def stop(self, attempts: list[Attempt]) -> None:
        self._loop.call_soon_threadsafe(self._end_early, attempts)

    def close(self) -> None:
        """Does nothing: this runner has no threads."""

    # ── on the application's loop ────────────────────────────────────────────────────────────────────────────

    def _begin(self, attempts: list[Attempt]) -> None:
        self._waiting.extend(attempts)
        self._fill_seats()

    def _fill_seats(self) -> None:
        create_task, waiting, running = self._loop.create_task, self._waiting, self._running
        while waiting and len(running) < self._seats:
            attempt = waiting.popleft()
            running.add(attempt)
            attempt.handle = create_task(self._perform(attempt))

    async def _perform(self, attempt: Attempt) -> None:
        """Run one attempt. Every result and every error in here becomes one outcome."""
        attempt.started_at = self._clock.now()
        if attempt.timeout:
            self._watch(attempt)
        if self._tell_started is not None:
            self._started.append(attempt)
            self._flush_soon()
        fault_points.point("attempt.before_call")
        try:
            outcome = succeeded(await self._call(attempt), self._result_bytes)
        except asyncio.CancelledError as error:
            outcome = attempt.stop_as or attempt.failed(error)
        except GeneratorExit as error:
            if not self._loop.is_running():
                raise  # the loop is gone
            outcome = attempt.failed(error)  # the handler's own
        except BaseException as error:  # noqa: BLE001 - whatever it raises is its outcome
            outcome = attempt.failed(error)
        fault_points.point("attempt.after_call")
        self._end(attempt, timed_out(attempt.timeout) if attempt.timed_out else outcome)

    async def _call(self, attempt: Attempt) -> object:
        task = attempt.lease.record.job.task
        match task:
            case Call(handler=name):
                return await attempt.call(self._registry.get(name))
            case Sleep(duration=duration):
                await asyncio.sleep(duration.total_seconds())
                return None
            case Noop():
                return None
            case _:
                raise AssertionError(f"a task for another runner: {task!r}")

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
        attempt.handle = None
        self._running.discard(attempt)
        if attempt.outcome is None:
            self._decide(attempt, outcome)
        else:
            self._tell(self._tell_freed, [attempt])  # it has its outcome already; now its seat is free, too
        if self._waiting:
            self._fill_seats()

    def _decide(self, attempt: Attempt, outcome: Outcome) -> None:
        attempt.outcome = outcome
        attempt.ended_at = self._clock.now()
        self._ended.append(attempt)
        self._flush_soon()

    def _cancel(self, attempt: Attempt) -> None:
        """Cancel the task. A task that ignores this still gets its outcome, and keeps its seat until it returns."""
        attempt.tell_to_stop()
        attempt.handle.cancel()
        self._loop.call_later(_PATIENCE, self._give_up, attempt)

    def _give_up(self, attempt: Attempt) -> None:
        if attempt.outcome is None:
            attempt.stuck = True
            self._decide(attempt, timed_out(attempt.timeout) if attempt.timed_out else attempt.stop_as or _NO_END)
            self._tell(self._tell_stuck, [attempt])

    def _end_early(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            if attempt in self._running and attempt.started_at:
                self._cancel(attempt)
            elif attempt in self._running:
                attempt.handle.cancel()  # a task that is cancelled before its first step never runs `_end`
                self._end(attempt, stopped_before_start(attempt))
            elif attempt in self._waiting:
                self._waiting.remove(attempt)
                self._end(attempt, stopped_before_start(attempt))

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Report all that happened in this turn of the loop at once.

        While attempts wait for seats, the next outcomes come soon. Then they are reported together, so that the store
        has one batch to write and not several small ones.
        """
        started, self._started = self._started, []
        if started and self._tell_started is not None:
            self._tell(self._tell_started, started)
        if self._waiting and self._ended and self._clock.now() - self._ended[0].ended_at < _TOGETHER:
            self._loop.call_later(MILLISECOND / SECOND, self._flush)
            return
        self._flushing = False
        ended, self._ended = self._ended, []
        if ended:
            self._tell(self._tell_ended, ended)

    # ── time-outs: one heap, one timer ───────────────────────────────────────────────────────────────────────

    def _watch(self, attempt: Attempt) -> None:
        deadline = self._clock.steady() + attempt.timeout
        heapq.heappush(self._deadlines, (deadline, attempt.lease.fence, attempt))
        if self._deadlines[0][2] is attempt:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        while self._deadlines and self._deadlines[0][2].outcome is not None:
            heapq.heappop(self._deadlines)
        if self._deadlines:
            wait = max(0, self._deadlines[0][0] - self._clock.steady()) / SECOND
            self._deadline_timer = self._loop.call_later(wait, self._pass_deadlines)

    def _pass_deadlines(self) -> None:
        now = self._clock.steady()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, _, attempt = heapq.heappop(self._deadlines)
            if attempt.outcome is None:
                attempt.timed_out = True
                self._cancel(attempt)
        self._set_timer()
