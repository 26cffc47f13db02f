"""Runs single attempts of tasks other than handlers: through a runner, without a node."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from onthedot.clock import Micros, SystemClock
from onthedot.model.duration import micros
from onthedot.model.job import Job, JobRecord, JobState
from onthedot.model.run import Lease
from onthedot.model.task import Bounds, Task
from onthedot.model.verdict import Outcome
from onthedot.output.log_positions import note_records, read_note
from onthedot.runners.attempt import Attempt
from onthedot.runners.io_runner import Executor, IoRunner
from onthedot.runners.notes import Notes
from onthedot.runners.registry import Registry
from onthedot.runners.runner import Host
from onthedot.settings import Settings

CLOCK = SystemClock()


def lease_of(task: Task, *, run_id: int = 7, attempt: int = 1, fence: int = 42, bounds: Bounds | None = None) -> Lease:
    job = Job(name="j", task=task, bounds=bounds or Bounds())
    record = JobRecord(1, 1, job, JobState.ACTIVE, 0, 0)
    return Lease(
        f"lease-{run_id}-{attempt}", run_id, record, "submit:x", 0, 0, None, attempt, 0, 0, "inc", 0, 0, fence=fence
    )


class RecordingReporter:
    """A reporter that only records."""

    def __init__(self) -> None:
        self._notes: Notes | None = None

    def noted(self, notes: Notes) -> None:
        self._notes = notes

    def now(self) -> Micros:
        return CLOCK.now()

    @property
    def text(self) -> str:
        """Returns everything that the attempt logged."""
        note = "" if self._notes is None else self._notes.take().log or ""
        return note_records(read_note(note))[0]


class RunnerBench:
    """Runs attempts with one executor."""

    def __init__(self, executor: Executor, **options: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self._ended: dict[Attempt, asyncio.Future[Outcome]] = {}
        host = Host(self.loop, CLOCK, Settings(), Registry(), ended=self._end)
        self.runner = IoRunner(host, executor, **options)

    def begin(self, lease: Lease, timeout: timedelta | None = None) -> Attempt:
        reporter: Any = RecordingReporter()
        attempt = Attempt(lease, timeout=micros(timeout) if timeout else 0, reporter=reporter)
        self._ended[attempt] = self.loop.create_future()
        self.runner.start([attempt])
        return attempt

    def stop(self, attempt: Attempt, outcome: Outcome) -> None:
        attempt.stop_as = outcome
        self.runner.stop([attempt])

    async def end(self, attempt: Attempt) -> Outcome:
        async with asyncio.timeout(30):
            return await self._ended[attempt]

    def _end(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            assert attempt.outcome is not None
            self._ended[attempt].set_result(attempt.outcome)  # a second result would raise


def log_of(attempt: Attempt) -> str:
    """Returns the log of the attempt's run."""
    reporter: Any = attempt.reporter
    return str(reporter.text)
