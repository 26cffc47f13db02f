"""Changes jobs, slots and runs at a user's request: pause, resume, delete, skip or move a slot, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.clock import NEVER, Micros
from onthedot.model.errors import SlotSettled, UnknownSlot, WindowStale
from onthedot.model.job import JobRecord, JobState
from onthedot.model.run import NewRun, RunState, slot_trigger
from onthedot.model.window import ExceptReason, SkipRange, Window
from onthedot.rules import moved_slots, window_writes
from onthedot.stores.hints import Hint
from onthedot.stores.sql.after import DELETE_DEPENDENCIES, lock_sets
from onthedot.stores.sql.arm import ask_to_stop
from onthedot.stores.sql.finish import LOCK_RUNS, end_waiting
from onthedot.stores.sql.fragments import UNRESERVED
from onthedot.stores.sql.gates import OF_JOB, leave_lines, lock_gates_of
from onthedot.stores.sql.jobs import LOCK_STORED, find_edge, lock_job, lock_runs, pull_back, withdraw
from onthedot.stores.sql.plan import ended_slots, find_exceptions, record_skips, write_windows
from onthedot.stores.sql.port import Now, Tx, plain, sql
from onthedot.stores.sql.submit import find_run, submit_runs
from onthedot.stores.values import CancelAnswer, MovedSlot, Paused, Resumed

SET_STATE = sql("""
UPDATE jobs SET state = $2, pause_reason = $3, paused_until = $4, updated_at = $5 WHERE id = $1
""")


async def _set_state(tx: Tx, record: JobRecord, now: Micros) -> None:
    await tx.do(SET_STATE, record.id, record.state.value, plain(record.pause_reason), record.paused_until, now)


# ── pause ────────────────────────────────────────────────────────────────────────────────────────────────────

LIST_DUE_SLOTS = sql("""
SELECT id FROM runs WHERE job_id = $1 AND state <> 'running' AND attempt = 0 AND {is_slot} ORDER BY id
""")

HOLD_BACK = sql(f"""
UPDATE runs SET {UNRESERVED}, ready_at = $2, expires_at = NULL WHERE job_id = $1 AND state <> 'running'
""")  # noqa: S608 - a constant


async def pause_job(tx: Tx, job_id: int, *, reason: str, until: Micros | None = None, now: Now = None) -> Paused:
    at = await tx.clock(now)
    record = await lock_job(tx, job_id)
    paused = replace(record, state=JobState.PAUSED, pause_reason=reason, paused_until=until)
    await _set_state(tx, paused, at)
    return Paused(paused, 0, 0, 0) if record.state is JobState.PAUSED else await _stop(tx, paused, at)


async def _stop(tx: Tx, record: JobRecord, now: Micros) -> Paused:
    """Withdraw slots ahead, skip slots that are due, and hold all other waiting runs."""
    job_id, withdrawn = record.id, 0
    schedules = await tx.rows(LOCK_STORED, job_id)
    await lock_sets(tx, [job_id])
    await lock_runs(tx, job_id)
    await leave_lines(tx, OF_JOB, job_id)
    for name, _, _, delay in schedules:
        edge = await find_edge(tx, job_id, name, now)
        withdrawn += await withdraw(tx, job_id, name, edge)
        await pull_back(tx, job_id, name, edge, delay)
    due = await tx.values(LIST_DUE_SLOTS, job_id)
    skipped = [await end_waiting(tx, run_id, RunState.SKIPPED, "paused", now) for run_id in due]
    held = await tx.do(HOLD_BACK, job_id, NEVER)
    return Paused(record, withdrawn, sum(skipped), held)


# ── resume ───────────────────────────────────────────────────────────────────────────────────────────────────

COUNT_HELD = sql("SELECT count(*) FROM runs WHERE job_id = $1 AND state = 'scheduled'")
RELEASE_HELD = sql("UPDATE runs SET ready_at = due_at WHERE job_id = $1 AND state = 'scheduled'")

LIST_DUE_RESUMES = sql("""
SELECT id, revision, pause_reason, paused_until FROM jobs WHERE state = 'paused' AND paused_until <= $1 ORDER BY id
""")


async def resume_job(
    tx: Tx, job_id: int, windows: Sequence[Window] = (), *, expected: int | None = None, overdue: bool = False,
    dry_run: bool = False, now: Now = None,
) -> Resumed:  # fmt: skip
    at = await tx.clock(now)
    record = await lock_job(tx, job_id)
    is_over = record.paused_until is not None and record.paused_until <= at
    if record.state is not JobState.PAUSED or (overdue and not is_over):
        return Resumed(record)
    window_writes.check_revision(job_id, expected, record.revision)
    planned = await _settled(tx, job_id, windows, at)
    held = await tx.value(COUNT_HELD, job_id)
    active = replace(record, state=JobState.ACTIVE, pause_reason="", paused_until=None)
    slots = tuple(slot.slot_at for one in planned for slot in one.window.slots if (slot.slot_at, "") not in one.ended)
    if not dry_run:
        await lock_runs(tx, job_id)
        await _set_state(tx, active, at)
        await tx.do(RELEASE_HELD, job_id)
        await write_windows(tx, planned, at)
        tx.hints += [Hint("schedules", at), Hint("runs", at)]
    return Resumed(active, slots, tuple(skip for one in planned for skip in one.window.skips), held)


async def _settled(tx: Tx, job_id: int, windows: Sequence[Window], now: Micros) -> list[window_writes.Planned]:
    """Return the windows with their schedules' exceptions. Raise `WindowStale` if a window does not fit the stored
    state."""
    watermarks = {row.schedule_id: row.watermark for row in await tx.rows(LOCK_STORED, job_id)}
    exceptions = await find_exceptions(tx, ((job_id, window.schedule_id) for window in windows))
    for window in windows:
        if watermarks.get(window.schedule_id) != window.start:
            raise WindowStale("the schedule has moved on; read it again", watermark=window.start, now=now)
        window_writes.check_past(window, now)
        window_writes.check_exceptions(window, exceptions.of(job_id, window.schedule_id), now)
    return [
        window_writes.Planned.settled(exceptions, job_id, window, ended=await ended_slots(tx, job_id, window))
        for window in windows
    ]


async def due_resumes(tx: Tx, *, now: Now = None) -> list[JobRecord]:
    rows = await tx.rows(LIST_DUE_RESUMES, await tx.clock(now))
    records = await tx.records.load(tx, [(job_id, revision, "paused") for job_id, revision, _, _ in rows])
    return [
        replace(records[job_id, revision], pause_reason=reason, paused_until=until)
        for job_id, revision, reason, until in rows
        if (job_id, revision) in records
    ]


# ── delete ───────────────────────────────────────────────────────────────────────────────────────────────────

LIST_WAITING = sql("SELECT id FROM runs WHERE job_id = $1 AND state <> 'running' ORDER BY id")
DELETE_SCHEDULES = sql("DELETE FROM schedules WHERE job_id = $1")
DELETE_EXCEPTIONS = sql("DELETE FROM exceptions WHERE job_id = $1")


async def delete_job(tx: Tx, job_id: int, *, expected: int | None = None, now: Now = None) -> int:
    at = await tx.clock(now)
    record = await lock_job(tx, job_id)
    window_writes.check_revision(job_id, expected, record.revision)
    await tx.rows(LOCK_STORED, job_id)
    await lock_sets(tx, [job_id])
    await lock_runs(tx, job_id)
    await _set_state(tx, replace(record, state=JobState.DELETED), at)
    await tx.do(DELETE_SCHEDULES, job_id)
    await tx.do(DELETE_EXCEPTIONS, job_id)
    await tx.do(DELETE_DEPENDENCIES, job_id)
    waiting = await tx.values(LIST_WAITING, job_id)
    return sum([await end_waiting(tx, run_id, RunState.CANCELLED, "deleted", at) for run_id in waiting])


# ── slots whose fate is given ahead ──────────────────────────────────────────────────────────────────────────

FIND_SCHEDULE = sql("SELECT watermark, delay FROM schedules WHERE job_id = $1 AND schedule_id = $2")

FIND_SLOT_RUN = sql("""
SELECT id, state, attempt FROM runs WHERE job_id = $1 AND slot_at = $2 AND trigger = $3 AND target = ''
""")

HAS_OPEN_RUN = sql("SELECT 1 FROM runs WHERE job_id = $1 AND trigger = $2 LIMIT 1")

COUNT_FROM = sql("""
UPDATE schedules SET watermark = {greatest}(watermark, $3), last_end = $4, next_at = $4 + delay
WHERE job_id = $1 AND schedule_id = $2
""")

PUT_EXCEPTION = sql("""
INSERT INTO exceptions (job_id, schedule_id, slot_at, reason, recorded, run_id) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (job_id, schedule_id, slot_at) DO UPDATE
SET reason = excluded.reason, recorded = excluded.recorded, run_id = excluded.run_id
""")


async def move_slot(
    tx: Tx, job_id: int, schedule_id: str, slot_at: Micros, *, reason: ExceptReason, run: NewRun | None = None,
    expected: int | None = None, now: Now = None,
) -> MovedSlot:  # fmt: skip
    at = await tx.clock(now)
    record = await lock_job(tx, job_id)
    exceptions = await find_exceptions(tx, [(job_id, schedule_id)])
    for given in exceptions.of(job_id, schedule_id):
        # A dropped schedule keeps its exceptions, because it may be added again.
        if given.slot_at == slot_at and await tx.row(FIND_SCHEDULE, job_id, schedule_id) is not None:
            moved_slots.check_same(given, reason, None if run is None else await find_run(tx, run))
            return MovedSlot(schedule_id, slot_at, reason, given.run_id)
    window_writes.check_revision(job_id, expected, record.revision)
    recorded = await _clear_slot(tx, job_id, schedule_id, slot_at, reason, run, at)
    run_id = None
    if run is not None:
        [run_id] = await submit_runs(tx, [replace(run, key="")], at)
    await tx.do(PUT_EXCEPTION, job_id, schedule_id, slot_at, reason, recorded, run_id)
    return MovedSlot(schedule_id, slot_at, reason, run_id)


async def _clear_slot(
    tx: Tx, job_id: int, schedule_id: str, slot_at: Micros, reason: str, run: NewRun | None, now: Micros
) -> bool:
    """Make sure that the slot does not run. Return whether the ledger has its entry now."""
    trigger = slot_trigger(schedule_id)
    found = await tx.row(FIND_SCHEDULE, job_id, schedule_id)
    if found is None:
        raise UnknownSlot(f"job {job_id} has no schedule {schedule_id!r}")
    watermark, delay = found
    live = await tx.row(FIND_SLOT_RUN, job_id, slot_at, trigger)
    if live is not None:
        run_id, state, attempts = live
        moved_slots.check_waits(slot_at, run_id, RunState(state), attempts)
        if not await end_waiting(tx, run_id, RunState.SKIPPED, reason, now):
            # The run was armed or ended between two statements. The next try sees which.
            return await _clear_slot(tx, job_id, schedule_id, slot_at, reason, run, now)
    else:
        moved_slots.check_ahead(slot_at, watermark, now)
        if delay is None:
            return False
        if await tx.value(HAS_OPEN_RUN, job_id, trigger) is not None:
            raise SlotSettled(f"schedule {schedule_id!r}: its next slot follows the end of a run that is still open")
        skip = SkipRange(slot_at, slot_at, 1, reason)
        await record_skips(tx, job_id, Window(schedule_id, watermark, slot_at, None, skips=[skip]), now)
    if delay is not None:
        since = moved_slots.counts_from(slot_at, None if run is None else run.due_at, now)
        await tx.do(COUNT_FROM, job_id, schedule_id, slot_at, since)
        tx.hints.append(Hint("schedules", since + delay))
    return True


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────────────────

# Locks the jobs of runs, so that they are not edited, paused or deleted while their runs are cancelled.
LOCK_JOBS_OF = sql("""
SELECT id FROM jobs WHERE id IN (SELECT job_id FROM runs WHERE id {in1}) ORDER BY id [[FOR KEY SHARE]]
""")

# If the waiting run of a slot ahead is cancelled, later plans keep the slot cancelled. This does not hold for one
# node's share of a slot.
EXCEPT_CANCELLED = sql("""
INSERT INTO exceptions (job_id, schedule_id, slot_at, reason, recorded)
SELECT r.job_id, s.schedule_id, r.slot_at, 'cancelled', true
FROM runs r JOIN schedules s ON s.job_id = r.job_id AND r.trigger = {slot_trigger}
WHERE r.id = $1 AND r.state <> 'running' AND r.slot_at > $2 AND r.target = ''
ON CONFLICT (job_id, schedule_id, slot_at) DO UPDATE SET reason = 'cancelled', recorded = true, run_id = NULL
""")

FIND_ENDED = sql("SELECT state FROM history WHERE id = $1")


async def cancel(tx: Tx, run_ids: Sequence[int], *, why: str, now: Now = None) -> list[CancelAnswer]:
    at = await tx.clock(now)
    wanted = sorted(set(run_ids))
    if tx.concurrent:
        await lock_sets(tx, await tx.values(LOCK_JOBS_OF, wanted))
        await lock_gates_of(tx, wanted)
    states = {run.id: run.state for run in await tx.rows(LOCK_RUNS, wanted)}
    first = {run_id: await _cancel(tx, run_id, states.get(run_id), why, at) for run_id in wanted}
    answers = []
    for run_id in run_ids:
        answers.append(first[run_id])
        if first[run_id].kind == "cancelled":  # a run that is named twice is already cancelled
            first[run_id] = CancelAnswer("ended", RunState.CANCELLED)
    return answers


async def _cancel(tx: Tx, run_id: int, state: str | None, why: str, now: Micros) -> CancelAnswer:
    """Ask a running attempt to stop, or end a waiting run. `state` is the state of the live run, which is locked."""
    if state is None:
        ended = await tx.value(FIND_ENDED, run_id)
        return CancelAnswer("unknown") if ended is None else CancelAnswer("ended", RunState(ended))
    if state == RunState.RUNNING:
        await ask_to_stop(tx, run_id, why, now)
        return CancelAnswer("asked", RunState.RUNNING)
    await tx.do(EXCEPT_CANCELLED, run_id, now)
    await end_waiting(tx, run_id, RunState.CANCELLED, why, now, late=True)
    return CancelAnswer("cancelled", RunState.CANCELLED)
