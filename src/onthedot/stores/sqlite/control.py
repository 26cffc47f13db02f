"""What people do to jobs and runs that exist, in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.clock import NEVER, Micros
from onthedot.errors import UnknownJob, WindowStale
from onthedot.job import JobRecord, JobState
from onthedot.run import RunState, slot_trigger
from onthedot.stores.base import CancelAnswer, Hint, Paused, Resumed, Window
from onthedot.stores.planned import Planned
from onthedot.stores.sqlite.dependencies import DELETE_DEPENDENCIES
from onthedot.stores.sqlite.exceptions import DELETE_EXCEPTIONS_OF_JOB, Ahead, except_ahead
from onthedot.stores.sqlite.finish import end_waiting
from onthedot.stores.sqlite.gates import stand_aside
from onthedot.stores.sqlite.jobs import (
    LIST_SCHEDULES,
    PULL_BACK,
    WAIT_FOR_END,
    Jobs,
    find_edge,
    withdraw,
)
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.passing import ask_to_stop
from onthedot.stores.sqlite.plan import write_windows
from onthedot.stores.sqlite.triggers import with_slots
from onthedot.stores.staleness import check_exceptions, check_past, check_revision

FIND_LIVING = "SELECT revision, state, pause_reason, paused_until FROM jobs WHERE id = ? AND state <> 'deleted'"

SET_STATE = """
UPDATE jobs SET state = :state, pause_reason = :reason, paused_until = :until, updated_at = :now WHERE id = :id
"""

FIND_DELAY = "SELECT delay FROM schedules WHERE job_id = ? AND schedule_id = ?"

LIST_DUE_SLOTS = with_slots("SELECT id FROM runs WHERE job_id = ? AND state <> 'running' AND attempt = 0 AND {is_slot}")

LIST_WAITING = "SELECT id FROM runs WHERE job_id = ? AND state <> 'running'"

HOLD_BACK = """
UPDATE runs
SET state = 'scheduled', ready_at = :never, expires_at = NULL,
    lease_id = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL
WHERE job_id = :job_id AND state <> 'running'
"""

COUNT_HELD = "SELECT count(*) FROM runs WHERE job_id = ? AND state = 'scheduled'"

LET_GO = "UPDATE runs SET ready_at = due_at WHERE job_id = ? AND state = 'scheduled'"

DELETE_SCHEDULES = "DELETE FROM schedules WHERE job_id = ?"

FIND_STATE = "SELECT state FROM runs WHERE id = :id UNION ALL SELECT state FROM history WHERE id = :id"

LIST_DUE_RESUMES = """
SELECT id, revision, state, pause_reason, paused_until FROM jobs WHERE state = 'paused' AND paused_until <= ?
"""


class Control(Jobs):
    """See `ControlSlice`."""

    async def pause(
        self, job_id: int, *, reason: str, until: Micros | None = None, now: Micros | None = None
    ) -> Paused:
        def work(tx: Transaction) -> Paused:
            at = self.read_clock(now)
            record = self._living(tx, job_id)
            paused = replace(record, state=JobState.PAUSED, pause_reason=reason, paused_until=until)
            self._set_state(tx, paused, at)
            return Paused(paused, 0, 0, 0) if record.state is JobState.PAUSED else _stop(tx, paused, at)

        return await self.write(work)

    def _living(self, tx: Transaction, job_id: int) -> JobRecord:
        row = tx.db.execute(FIND_LIVING, (job_id,)).fetchone()
        if row is None:
            raise UnknownJob(f"job {job_id} does not exist, or not any more")
        revision, state, reason, until = row
        return replace(self.records.find(tx.db, job_id, revision, state), pause_reason=reason, paused_until=until)

    def _set_state(self, tx: Transaction, record: JobRecord, now: Micros) -> None:
        values = {"reason": record.pause_reason, "until": record.paused_until, "now": now, "id": record.id}
        tx.db.execute(SET_STATE, {"state": record.state.value, **values})

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
        def work(tx: Transaction) -> Resumed:
            at = self.read_clock(now)
            record = self._living(tx, job_id)
            if record.state is not JobState.PAUSED or (overdue and not _is_over(record, at)):
                return Resumed(record)
            check_revision(job_id, expected, record.revision)
            _check_watermarks(tx, job_id, windows, at)
            planned = _settled(tx, job_id, windows, at)
            [held] = tx.db.execute(COUNT_HELD, (job_id,)).fetchone()
            active = replace(record, state=JobState.ACTIVE, pause_reason="", paused_until=None)
            slots = tuple(slot.slot_at for one in planned for slot in one.window.slots)
            answer = Resumed(active, slots, tuple(skip for one in planned for skip in one.window.skips), held)
            if not dry_run:
                self._set_state(tx, active, at)
                tx.db.execute(LET_GO, (job_id,))
                write_windows(tx, planned, at)
                tx.hints += [Hint("schedules", at), Hint("runs", at)]
            return answer

        return await self.write(work)

    async def delete_job(self, job_id: int, *, expected: int | None = None, now: Micros | None = None) -> int:
        def work(tx: Transaction) -> int:
            at = self.read_clock(now)
            record = self._living(tx, job_id)
            check_revision(job_id, expected, record.revision)
            self._set_state(tx, replace(record, state=JobState.DELETED), at)
            tx.db.execute(DELETE_SCHEDULES, (job_id,))
            tx.db.execute(DELETE_EXCEPTIONS_OF_JOB, (job_id,))
            tx.db.execute(DELETE_DEPENDENCIES, (job_id,))
            waiting = tx.db.execute(LIST_WAITING, (job_id,)).fetchall()
            for (run_id,) in waiting:
                end_waiting(tx, run_id, RunState.CANCELLED, "deleted", at)
            return len(waiting)

        return await self.write(work)

    async def cancel(self, run_ids: Sequence[int], *, why: str, now: Micros | None = None) -> list[CancelAnswer]:
        def work(tx: Transaction) -> list[CancelAnswer]:
            at = self.read_clock(now)
            return [_cancel(tx, run_id, why, at) for run_id in run_ids]

        return await self.write(work)

    async def due_resumes(self, *, now: Micros | None = None) -> list[JobRecord]:
        def work(tx: Transaction) -> list[JobRecord]:
            rows = tx.db.execute(LIST_DUE_RESUMES, (self.read_clock(now),)).fetchall()
            return [
                replace(self.records.find(tx.db, job_id, revision, state), pause_reason=reason, paused_until=until)
                for job_id, revision, state, reason, until in rows
            ]

        return await self.look(work)


def _is_over(record: JobRecord, now: Micros) -> bool:
    return record.paused_until is not None and record.paused_until <= now


def _stop(tx: Transaction, record: JobRecord, now: Micros) -> Paused:
    """Withdraw what lies ahead, skip what is due, hold what was asked for."""
    db, job_id, withdrawn = tx.db, record.id, 0
    stand_aside(tx, job_id)
    for row in db.execute(LIST_SCHEDULES, (job_id,)).fetchall():
        name = row[1]
        [delay] = db.execute(FIND_DELAY, (job_id, name)).fetchone()
        values = {
            "job_id": job_id, "schedule_id": name, "trigger": slot_trigger(name), "delay": delay,
            "edge": find_edge(db, job_id, name, now),
        }  # fmt: skip
        withdrawn += withdraw(tx, values)
        db.execute(PULL_BACK if delay is None else WAIT_FOR_END, values)
    due = db.execute(LIST_DUE_SLOTS, (job_id,)).fetchall()
    for (run_id,) in due:
        end_waiting(tx, run_id, RunState.SKIPPED, "paused", now)
    held = db.execute(HOLD_BACK, {"never": NEVER, "job_id": job_id}).rowcount
    return Paused(record, withdrawn, len(due), held)


def _check_watermarks(tx: Transaction, job_id: int, windows: Sequence[Window], now: Micros) -> None:
    stored = {row[1]: row[3] for row in tx.db.execute(LIST_SCHEDULES, (job_id,))}
    for window in windows:
        if stored.get(window.schedule_id) != window.start:
            raise WindowStale("the schedule has moved on; read it again", watermark=window.start, now=now)
        check_past(window, now)


def _settled(tx: Transaction, job_id: int, windows: Sequence[Window], now: Micros) -> list[Planned]:
    ahead = Ahead(tx.db)
    for window in windows:
        check_exceptions(window, ahead.of(job_id, window.schedule_id), now)
    return [Planned.settled(ahead, job_id, window) for window in windows]


def _cancel(tx: Transaction, run_id: int, why: str, now: Micros) -> CancelAnswer:
    row = tx.db.execute(FIND_STATE, {"id": run_id}).fetchone()
    if row is None:
        return CancelAnswer("unknown")
    state = RunState(row[0])
    if state is RunState.RUNNING:
        ask_to_stop(tx, run_id, why, now)
        return CancelAnswer("asked", state)
    except_ahead(tx.db, run_id, now)
    if end_waiting(tx, run_id, RunState.CANCELLED, why, now):
        return CancelAnswer("cancelled", RunState.CANCELLED)
    return CancelAnswer("ended", state)
