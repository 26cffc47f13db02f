"""What people do to jobs and runs that exist, in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onthedot.clock import Micros
from onthedot.errors import RevisionConflict
from onthedot.job import JobRecord
from onthedot.policy.window_rules import check_ahead, check_same, check_waits
from onthedot.run import NewRun, RunState
from onthedot.stores.redis.failures import Refusal
from onthedot.stores.redis.jobs import Jobs
from onthedot.stores.redis.rows import run_asked, window_asked
from onthedot.stores.redis.runs import Runs
from onthedot.stores.values import CancelAnswer, Excepted, Paused, Resumed
from onthedot.window import ExceptReason, FateAhead, SkipRange, Window


class Control(Jobs, Runs):
    """See `Store`."""

    async def pause(
        self, job_id: int, *, reason: str, until: Micros | None = None, now: Micros | None = None
    ) -> Paused:
        row, withdrawn, *counts, left = await self.decide("pause", now=now, job_id=job_id, reason=reason, until_=until)
        if left is not None:
            counts = await self.sweep(left, now)
        return Paused(await self.record(row), withdrawn, *counts)

    async def resume(
        self,
        job_id: int,
        windows: Sequence[Window] = (),
        *,
        expected: int | None = None,
        overdue: bool = False,
        dry_run: bool = False,
        now: Micros | None = None,
    ) -> Resumed:
        asked = {"job_id": job_id, "overdue": overdue or None, "dry_run": dry_run or None}
        row, *said = await self._resume(windows, expected, now, asked)
        if not said:
            return Resumed(await self.record(row))
        slots, skips, released, left = said
        if left is not None and dry_run:
            released += await self._count_held(job_id, left)
        elif left is not None:
            released, _ = await self.sweep(left, now)
        return Resumed(await self.record(row), tuple(slots), tuple(SkipRange(*skip) for skip in skips), released)

    async def _resume(
        self, windows: Sequence[Window], expected: int | None, now: Micros | None, asked: dict[str, Any]
    ) -> Any:
        """Whose share a slot's run is taken from follows from the definition: that must be the one we have seen."""
        while True:
            record = await self.current(asked["job_id"])
            seen = record.revision if expected is None else expected
            slots = [window_asked(window, record.job) for window in windows]
            try:
                return await self.decide("resume", now=now, expected=seen, windows=slots, **asked)
            except RevisionConflict:
                if expected is not None:
                    raise  # else somebody edited the job while we looked at it

    async def _count_held(self, job_id: int, mark: Sequence[Any] | None) -> int:
        """How many runs of a job are held behind this mark."""
        count = 0
        while mark is not None:
            held, mark = await self.look("count_held", job_id=job_id, mark=list(mark), rows=self.rows)
            count += held
        return count

    async def except_slot(
        self,
        job_id: int,
        schedule_id: str,
        slot_at: Micros,
        *,
        reason: ExceptReason,
        run: NewRun | None = None,
        expected: int | None = None,
        now: Micros | None = None,
    ) -> Excepted:
        try:
            run_id = await self.sharing(
                "except_slot",
                now=now,
                job_id=job_id,
                schedule_id=schedule_id,
                slot=slot_at,
                reason=reason,
                expected=expected,
                run=None if run is None else lambda: run_asked(run, self.share_by(run.job_id)),
            )
        except Refusal as refusal:
            _explain(refusal, slot_at, reason)
            raise
        return Excepted(schedule_id, slot_at, reason, run_id)

    async def delete_job(self, job_id: int, *, expected: int | None = None, now: Micros | None = None) -> int:
        count: int
        count, left = await self.decide("delete_job", now=now, job_id=job_id, expected=expected)
        if left is not None:
            count, _ = await self.sweep(left, now)
        return count

    async def cancel(self, run_ids: Sequence[int], *, why: str, now: Micros | None = None) -> list[CancelAnswer]:
        said = await self.ask("cancel", now=now, run_ids=list(run_ids), why=why)
        return [CancelAnswer(kind, None if state is None else RunState(state)) for kind, state in said]

    async def due_resumes(self, *, now: Micros | None = None) -> list[JobRecord]:
        return await self.records(await self.look("due_resumes", now=now))


def _explain(refusal: Refusal, slot_at: Micros, reason: str) -> None:
    """Raise what the script has found, in the words of all stores."""
    found = [None if value is False else value for value in refusal.said]
    match refusal.kind, found:
        case "Same", [given, run_id]:
            known = FateAhead(slot_at, str(given), run_id=None if run_id is None else int(str(run_id)))
            check_same(known, reason, _ANOTHER)
        case "Waits", [run_id, state, attempts]:
            check_waits(slot_at, int(str(run_id)), RunState(str(state)), int(str(attempts)))
        case "Ahead", [watermark, now]:
            check_ahead(slot_at, int(str(watermark)), int(str(now)))


_ANOTHER = -1  # no run has this id: what was asked for is not what is there
