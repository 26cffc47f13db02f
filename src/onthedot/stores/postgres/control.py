"""What people do to jobs and runs that exist, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.clock import NEVER, Micros
from onthedot.errors import UnknownJob, WindowStale
from onthedot.job import JobRecord, JobState
from onthedot.run import RunState, slot_trigger
from onthedot.stores.base import CancelAnswer, Hint, Paused, Resumed, Window
from onthedot.stores.planned import Planned
from onthedot.stores.postgres.dependencies import DELETE_DEPENDENCIES, lock_sets
from onthedot.stores.postgres.exceptions import DELETE_EXCEPTIONS_OF_JOB, Ahead, except_ahead
from onthedot.stores.postgres.finish import end_waiting
from onthedot.stores.postgres.gates import lock_gates_of, lock_gates_of_job, stand_aside
from onthedot.stores.postgres.jobs import (
    LIST_SCHEDULES,
    PULL_BACK,
    WAIT_FOR_END,
    Jobs,
    find_edge,
    withdraw,
)
from onthedot.stores.postgres.passing import ask_to_stop
from onthedot.stores.postgres.plan import write_windows
from onthedot.stores.postgres.transaction import Transaction, plain
from onthedot.stores.postgres.triggers import with_slots
from onthedot.stores.staleness import check_exceptions, check_past, check_revision

LOCK_LIVING = """
SELECT revision, state, pause_reason, paused_until FROM jobs WHERE id = $1 AND state <> 'deleted' FOR UPDATE
"""

SET_STATE = """
UPDATE jobs SET state = $2, pause_reason = $3, paused_until = $4, updated_at = $5 WHERE id = $1
"""

LIST_DUE_SLOTS = with_slots(
    "SELECT id FROM runs WHERE job_id = $1 AND state <> 'running' AND attempt = 0 AND {is_slot} ORDER BY id"
)

LIST_WAITING = "SELECT id FROM runs WHERE job_id = $1 AND state <> 'running' ORDER BY id"

HOLD_BACK = """
UPDATE runs
SET state = 'scheduled', ready_at = $2, expires_at = NULL,
    lease_id = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL
WHERE job_id = $1 AND state <> 'running'
"""

COUNT_HELD = "SELECT count(*) FROM runs WHERE job_id = $1 AND state = 'scheduled'"

LET_GO = "UPDATE runs SET ready_at = due_at WHERE job_id = $1 AND state = 'scheduled'"

DELETE_SCHEDULES = "DELETE FROM schedules WHERE job_id = $1"

FIND_STATE = "SELECT state, job_id FROM runs WHERE id = $1 UNION ALL SELECT state, job_id FROM history WHERE id = $1"

# The jobs of runs, so that nobody edits, pauses or deletes them while their runs are cancelled.
LOCK_JOBS_OF = """
SELECT id FROM jobs WHERE id IN (SELECT job_id FROM runs WHERE id = ANY($1)) ORDER BY id FOR KEY SHARE
"""

LIST_DUE_RESUMES = """
SELECT id, revision, state, pause_reason, paused_until FROM jobs WHERE state = 'paused' AND paused_until <= $1
ORDER BY id
"""


class Control(Jobs):
    """See `ControlSlice`."""

    async def pause(
        self, job_id: int, *, reason: str, until: Micros | None = None, now: Micros | None = None
    ) -> Paused:
        async def work(tx: Transaction) -> Paused:
            at = await tx.clock(now)
            record = await self._living(tx, job_id)
            paused = replace(record, state=JobState.PAUSED, pause_reason=reason, paused_until=until)
            await self._set_state(tx, paused, at)
            return Paused(paused, 0, 0, 0) if record.state is JobState.PAUSED else await _stop(tx, paused, at)

        return await self.write(work, limit=self.limits.long)

    async def _living(self, tx: Transaction, job_id: int) -> JobRecord:
        """The job, locked."""
        row = await tx.row(LOCK_LIVING, job_id)
        if row is None:
            raise UnknownJob(f"job {job_id} does not exist, or not any more")
        revision, state, reason, until = row
        record = await self.records.get(tx, job_id, revision, state)
        return replace(record, pause_reason=reason, paused_until=until)

    async def _set_state(self, tx: Transaction, record: JobRecord, now: Micros) -> None:
        reason = plain(record.pause_reason)
        await tx.do(SET_STATE, record.id, record.state.value, reason, record.paused_until, now)

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
        async def work(tx: Transaction) -> Resumed:
            at = await tx.clock(now)
            record = await self._living(tx, job_id)
            if record.state is not JobState.PAUSED or (overdue and not _is_over(record, at)):
                return Resumed(record)
            check_revision(job_id, expected, record.revision)
            await _check_watermarks(tx, job_id, windows, at)
            planned = await _settled(tx, job_id, windows, at)
            held = await tx.value(COUNT_HELD, job_id)
            active = replace(record, state=JobState.ACTIVE, pause_reason="", paused_until=None)
            slots = tuple(slot.slot_at for one in planned for slot in one.window.slots)
            answer = Resumed(active, slots, tuple(skip for one in planned for skip in one.window.skips), held)
            if not dry_run:
                await self._set_state(tx, active, at)
                await tx.do(LET_GO, job_id)
                await write_windows(tx, planned, at)
                tx.hints += [Hint("schedules", at), Hint("runs", at)]
            return answer

        return await self.write(work, limit=self.limits.long)

    async def delete_job(self, job_id: int, *, expected: int | None = None, now: Micros | None = None) -> int:
        async def work(tx: Transaction) -> int:
            at = await tx.clock(now)
            record = await self._living(tx, job_id)
            check_revision(job_id, expected, record.revision)
            await lock_sets(tx, [job_id])
            await lock_gates_of_job(tx, job_id)
            await self._set_state(tx, replace(record, state=JobState.DELETED), at)
            await tx.do(DELETE_SCHEDULES, job_id)
            await tx.do(DELETE_EXCEPTIONS_OF_JOB, job_id)
            await tx.do(DELETE_DEPENDENCIES, job_id)
            waiting = await tx.rows(LIST_WAITING, job_id)
            ended = [await end_waiting(tx, run_id, RunState.CANCELLED, "deleted", at) for (run_id,) in waiting]
            return sum(ended)

        return await self.write(work, limit=self.limits.long)

    async def cancel(self, run_ids: Sequence[int], *, why: str, now: Micros | None = None) -> list[CancelAnswer]:
        async def work(tx: Transaction) -> list[CancelAnswer]:
            at = await tx.clock(now)
            jobs = [job_id for (job_id,) in await tx.rows(LOCK_JOBS_OF, run_ids)]
            await lock_sets(tx, jobs)
            await lock_gates_of(tx, run_ids)
            answers = {run_id: await _cancel(tx, run_id, why, at) for run_id in sorted(set(run_ids))}
            return [_told(answers, run_id) for run_id in run_ids]

        return await self.write(work, limit=self.limits.long)

    async def due_resumes(self, *, now: Micros | None = None) -> list[JobRecord]:
        async def work(tx: Transaction) -> list[JobRecord]:
            rows = await tx.rows(LIST_DUE_RESUMES, await tx.clock(now))
            await self.records.load(tx, [row[:3] for row in rows])
            return [
                replace(self.records.find(job_id, revision), pause_reason=reason, paused_until=until)
                for job_id, revision, _, reason, until in rows
            ]

        return await self.read(work)


def _is_over(record: JobRecord, now: Micros) -> bool:
    return record.paused_until is not None and record.paused_until <= now


async def _stop(tx: Transaction, record: JobRecord, now: Micros) -> Paused:
    """Withdraw what lies ahead, skip what is due, hold what was asked for."""
    job_id, withdrawn = record.id, 0
    await lock_sets(tx, [job_id])
    await stand_aside(tx, job_id)
    for row in await tx.rows(LIST_SCHEDULES, job_id):
        name, delay = row[1], row[8]
        edge = await find_edge(tx, job_id, name, now)
        withdrawn += await withdraw(tx, job_id, name, edge)
        if delay is None:
            await tx.do(PULL_BACK, job_id, name, edge)
        else:
            await tx.do(WAIT_FOR_END, job_id, name, slot_trigger(name), edge, delay)
    due = await tx.rows(LIST_DUE_SLOTS, job_id)
    skipped = [await end_waiting(tx, run_id, RunState.SKIPPED, "paused", now) for (run_id,) in due]
    held = await tx.do(HOLD_BACK, job_id, NEVER)
    return Paused(record, withdrawn, sum(skipped), held)


async def _check_watermarks(tx: Transaction, job_id: int, windows: Sequence[Window], now: Micros) -> None:
    stored = {row[1]: row[3] for row in await tx.rows(LIST_SCHEDULES, job_id)}
    for window in windows:
        if stored.get(window.schedule_id) != window.start:
            raise WindowStale("the schedule has moved on; read it again", watermark=window.start, now=now)
        check_past(window, now)


async def _settled(tx: Transaction, job_id: int, windows: Sequence[Window], now: Micros) -> list[Planned]:
    ahead = await Ahead.of_jobs(tx, [job_id])
    for window in windows:
        check_exceptions(window, ahead.of(job_id, window.schedule_id), now)
    return [Planned.settled(ahead, job_id, window) for window in windows]


def _told(answers: dict[int, CancelAnswer], run_id: int) -> CancelAnswer:
    """The answer for a run. Named a second time, it has been cancelled before."""
    answer = answers[run_id]
    if answer.kind == "cancelled":
        answers[run_id] = CancelAnswer("ended", RunState.CANCELLED)
    return answer


async def _cancel(tx: Transaction, run_id: int, why: str, now: Micros) -> CancelAnswer:
    """Ask who runs to stop, else end what waits; what did either meanwhile has ended by itself."""
    if await ask_to_stop(tx, run_id, why, now):
        return CancelAnswer("asked", RunState.RUNNING)
    await except_ahead(tx, run_id, now)
    if await end_waiting(tx, run_id, RunState.CANCELLED, why, now):
        return CancelAnswer("cancelled", RunState.CANCELLED)
    row = await tx.row(FIND_STATE, run_id)
    if row is None:
        return CancelAnswer("unknown")
    if row[0] == RunState.RUNNING:  # armed between two of our looks: it is locked by nobody now
        return await _cancel(tx, run_id, why, now)
    return CancelAnswer("ended", RunState(row[0]))
