"""Creates and edits job definitions, and decides what an edit does to planned slots.

docs/design/store-moves.md has the table of cases: "What an edit does to slots".
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from onthedot import fault_points
from onthedot.clock import Micros
from onthedot.model.after import check_cycle
from onthedot.model.errors import StoreUnusable, UnknownJob
from onthedot.model.job import Job, JobRecord, JobState, ability_of, is_gated, route_of
from onthedot.model.job_json import encode, hash_of
from onthedot.model.route import level_of
from onthedot.model.run import slot_trigger
from onthedot.model.window import ScheduleState, Window
from onthedot.rules import window_writes
from onthedot.rules.moved_slots import settle
from onthedot.rules.shards import bucket_of, zoned_ids
from onthedot.rules.window_writes import KnownExceptions, Planned, begun, behind, without
from onthedot.schedules import is_grid, schedule_id
from onthedot.stores.hints import Hint
from onthedot.stores.sql import plan
from onthedot.stores.sql.after import list_arrows, put_after
from onthedot.stores.sql.gates import OF_JOB, leave_lines, lock_gates_of_all, open_gates
from onthedot.stores.sql.port import Now, Statement, Tx, sql
from onthedot.stores.values import PutJob

# ── read ─────────────────────────────────────────────────────────────────────────────────────────────────────


class ShownRow(NamedTuple):
    """A job, and the state that people see."""

    id: int
    revision: int
    state: str
    pause_reason: str
    paused_until: Micros | None
    shown: str


# The state "exhausted" is not stored but computed: no schedule has another slot, and no run of a schedule is open.
STATE_SHOWN = """
CASE WHEN j.state = 'active'
      AND EXISTS (SELECT 1 FROM schedules s WHERE s.job_id = j.id)
      AND NOT EXISTS (SELECT 1 FROM schedules s WHERE s.job_id = j.id AND s.next_at IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM schedules s JOIN runs r ON r.job_id = s.job_id
                      AND r.trigger = {slot_trigger} WHERE s.job_id = j.id)
     THEN 'exhausted' ELSE j.state END"""
SHOWN = f"j.id, j.revision, j.state, j.pause_reason, j.paused_until, {STATE_SHOWN}"
"""The columns of a `ShownRow`."""

SHOW_JOB = sql(
    f"SELECT {SHOWN} FROM jobs j WHERE j.namespace = $1 AND j.name = $2 AND j.state <> 'deleted'",  # noqa: S608
    ShownRow,
)

LIST_SCHEDULES = sql(
    f"SELECT {plan.SCHEDULE} FROM schedules s JOIN jobs j ON j.id = s.job_id WHERE j.id = $1 ORDER BY s.schedule_id",  # noqa: S608
    plan.ScheduleRow,
)


async def get_job(tx: Tx, name: str, *, namespace: str = "default") -> JobRecord | None:
    row = await tx.row(SHOW_JOB, namespace, name)
    if row is None:
        return None
    return shown_job(row, await tx.records.get(tx, row.id, row.revision, row.state))


def shown_job(row: ShownRow, record: JobRecord) -> JobRecord:
    """Return the job as people see it."""
    return replace(record, state=JobState(row.shown), pause_reason=row.pause_reason, paused_until=row.paused_until)


async def schedules_of(tx: Tx, job_id: int) -> list[ScheduleState]:
    rows = await tx.rows(LIST_SCHEDULES, job_id)
    for row in rows[:1]:
        await tx.records.get(tx, job_id, row.revision, row.state)  # raises if it is unreadable
    return await plan.schedule_states(tx, rows)


# ── lock ─────────────────────────────────────────────────────────────────────────────────────────────────────


class LockedRow(NamedTuple):
    """A job that is locked."""

    id: int
    revision: int
    state: str
    created_at: Micros
    pause_reason: str
    paused_until: Micros | None


def _lock(which: str) -> Statement[LockedRow]:
    """Return a statement that locks a job that is not deleted. No other transaction plans, submits or arms runs of the
    job before this one ends."""
    columns = ", ".join(LockedRow._fields)
    return sql(f"SELECT {columns} FROM jobs WHERE {which} AND state <> 'deleted' [[FOR UPDATE]]", LockedRow)  # noqa: S608


LOCK_NAMED = _lock("namespace = $1 AND name = $2")
LOCK_JOB = _lock("id = $1")

LOCK_RUNS = sql("SELECT 1 FROM runs WHERE job_id = $1 ORDER BY id [[FOR UPDATE]]")


async def lock_job(tx: Tx, job_id: int) -> JobRecord:
    """Lock a job and return it. Raise `UnknownJob` if there is none, or if it was deleted."""
    row = await tx.row(LOCK_JOB, job_id)
    if row is None:
        raise UnknownJob(f"job {job_id} does not exist, or not any more")
    return await _record_of(tx, row)


async def _record_of(tx: Tx, row: LockedRow) -> JobRecord:
    """Return the stored job. Raise `StoreUnusable` if its definition cannot be read."""
    record = await tx.records.get(tx, row.id, row.revision, row.state)
    return replace(record, pause_reason=row.pause_reason, paused_until=row.paused_until)


async def lock_runs(tx: Tx, job_id: int) -> None:
    """Lock a job's gates, and then its runs."""
    if tx.concurrent:
        await lock_gates_of_all(tx, OF_JOB, job_id)
        await tx.rows(LOCK_RUNS, job_id)


# ── create and edit ──────────────────────────────────────────────────────────────────────────────────────────


class StoredRow(NamedTuple):
    """A schedule as stored before an edit or a pause."""

    schedule_id: str
    watermark: Micros
    next_at: Micros | None
    delay: Micros | None


class Before(NamedTuple):
    """The stored state before an edit."""

    stored: dict[str, StoredRow]
    edges: dict[str, Micros]  # W of each schedule that the edit keeps
    exceptions: plan.SlotExceptions


PUT_JOB = sql("""
INSERT INTO jobs (id, owner, revision, task, queue, route, priority, share, gated, definition_hash,
                  created_at, updated_at, namespace, name, state)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12, $13, $14)
ON CONFLICT (id) DO UPDATE
SET owner = $2, revision = $3, task = $4, queue = $5, route = $6, priority = $7, share = $8, gated = $9,
    definition_hash = $10, updated_at = $11
""")

# The job's runs wait at the place and in the order of the new definition.
REROUTE = sql("""
UPDATE runs SET queue = $2, route = CASE target WHEN '' THEN $3 ELSE route END, priority = $4, rank = NULL
WHERE job_id = $1
""")

INSERT_REVISION = sql("INSERT INTO job_revisions (job_id, revision, definition, created_at) VALUES ($1, $2, $3, $4)")

LOCK_STORED = sql(
    """
    SELECT schedule_id, watermark, next_at, delay FROM schedules WHERE job_id = $1 ORDER BY schedule_id [[FOR UPDATE]]
    """,
    StoredRow,
)

INSERT_SCHEDULE = sql("""
INSERT INTO schedules (job_id, schedule_id, bucket, zoned, origin, watermark, delay) VALUES ($1, $2, $3, $4, $5, $5, $6)
""")

SET_NEXT = sql("UPDATE schedules SET next_at = $1 WHERE job_id = $2 AND schedule_id = $3")
PULL_BACK = sql("UPDATE schedules SET watermark = {least}(watermark, $3) WHERE job_id = $1 AND schedule_id = $2")
DELETE_SCHEDULE = sql("DELETE FROM schedules WHERE job_id = $1 AND schedule_id = $2")

# Exceptions are deleted with their schedule. Recorded ones ahead are kept, because the schedule may be added again.
DELETE_EXCEPTIONS = sql("""
DELETE FROM exceptions WHERE job_id = $1 AND schedule_id = $2 AND (NOT recorded OR slot_at <= $3)
""")

SET_KIND = sql("UPDATE schedules SET delay = $3, zoned = $4 WHERE job_id = $1 AND schedule_id = $2")

# Marks every open run of a fixed delay, even if it was planned before the schedule became a fixed delay.
MARK_DELAYED = sql("UPDATE runs SET delayed = true WHERE job_id = $1 AND trigger = $2")

WAIT_FOR_END = sql("""
UPDATE schedules
SET watermark = {least}(watermark, $4),
    next_at = CASE WHEN EXISTS (SELECT 1 FROM runs WHERE job_id = $1 AND trigger = $3) THEN NULL
                   ELSE {greatest}($4, coalesce(last_end + $5, $4)) END
WHERE job_id = $1 AND schedule_id = $2
""")

# W: the later of now and the newest slot ever armed. That slot may belong to a live run. It may belong to a run that
# ended before the slot's instant; the schedule notes this. If the clock was set back, it may belong to a run that ended
# in the future.
FIND_EDGE = sql("""
SELECT {greatest}(
    $4,
    coalesce((SELECT max(slot_at) FROM runs
              WHERE job_id = $1 AND slot_at > $4 AND trigger = $3 AND attempt > 0), $4),
    coalesce((SELECT armed_to FROM schedules WHERE job_id = $1 AND schedule_id = $2), $4),
    coalesce((SELECT max(slot_at) FROM history
              WHERE job_id = $1 AND ended_at > $4 AND trigger = $3 AND attempts > 0), $4))
""")

WITHDRAW = sql("DELETE FROM runs WHERE job_id = $1 AND slot_at > $2 AND trigger = $3 AND attempt = 0 RETURNING id")
LIST_ARMED_AHEAD = sql("SELECT slot_at FROM runs WHERE job_id = $1 AND slot_at > $2 AND trigger = $3")


async def put_job(
    tx: Tx, job: Job, windows: Sequence[Window] = (), *, expected: int | None = None, now: Now = None
) -> PutJob:
    found, definition = await tx.row(LOCK_NAMED, job.namespace, job.name), encode(job)
    if found is not None and (same := await _if_same(tx, found, definition)) is not None:
        return PutJob(same, "unchanged")
    window_writes.check_revision(job.name, expected, 0 if found is None else found.revision)
    if job.after is not None:
        arrows = await list_arrows(tx, job.namespace)
        check_cycle(job.name, job.after, lambda name: arrows.get(name, []))
    at = await tx.clock(now)
    if found is None:
        before = Before({}, {}, plan.SlotExceptions())
        for window in windows:
            window_writes.check_past(window, at)
        [job_id] = await tx.numbers("job", 1)
        put = PutJob(JobRecord(job_id, 1, job, JobState.ACTIVE, at, at), "created")
        await _store(tx, put.record, definition)
    else:
        job_id, revision, state, created_at, reason, until = found
        before = await _look(tx, job_id, job, windows, at)
        _check_windows(job_id, job, windows, before, at, fenced=expected is not None)
        put = PutJob(JobRecord(job_id, revision + 1, job, JobState(state), created_at, at, reason, until), "changed")
        await lock_runs(tx, job_id)
        await leave_lines(tx, OF_JOB, job_id)
        await _store(tx, put.record, definition)
    await put_after(tx, put.record.id, job)
    fault_points.point("put_job.in_transaction")
    await _write_schedules(tx, put, windows, before, at)
    tx.hints += [Hint("schedules", at), Hint("runs", at)]
    return put


async def _if_same(tx: Tx, found: LockedRow, definition: str) -> JobRecord | None:
    """Return the stored record if it means the same. The record is encoded again, because another version may have
    written the stored text."""
    with suppress(StoreUnusable):  # an unreadable definition is replaced
        record = await _record_of(tx, found)
        return record if encode(record.job) == definition else None
    return None


async def _store(tx: Tx, record: JobRecord, definition: str) -> None:
    job, level, route = record.job, level_of(record.job.priority), route_of(record.job)
    values = (
        record.id, job.owner, record.revision, ability_of(job), job.queue, route, level, job.share, is_gated(job),
        hash_of(definition), record.updated_at, job.namespace, job.name, record.state.value,
    )  # fmt: skip
    await tx.do(PUT_JOB, *values)
    if record.revision > 1:
        await tx.do(REROUTE, record.id, job.queue, route, level)
    await tx.do(INSERT_REVISION, record.id, record.revision, definition, record.updated_at)


async def _look(tx: Tx, job_id: int, job: Job, windows: Sequence[Window], now: Micros) -> Before:
    """Read all that the edit depends on. The job is locked, so nothing of this changes before the edit is written."""
    kept = {schedule_id(schedule) for schedule in job.schedules}
    stored = {row.schedule_id: row for row in await tx.rows(LOCK_STORED, job_id)}
    edges = {name: await find_edge(tx, job_id, name, now) for name in stored if name in kept}
    names = stored.keys() | {window.schedule_id for window in windows}
    return Before(stored, edges, await plan.find_exceptions(tx, ((job_id, name) for name in names)))


def _check_windows(
    job_id: int, job: Job, windows: Sequence[Window], before: Before, now: Micros, *, fenced: bool
) -> None:
    """Raise `WindowStale` if a window does not fit the stored state."""
    grids = {schedule_id(schedule): is_grid(schedule) for schedule in job.schedules}
    for name, row in before.stored.items():
        if fenced and row.delay is None and name not in grids:
            closing = next((window for window in windows if window.schedule_id == name), None)
            window_writes.check_dropped(name, row.watermark, row.next_at, closing, now)
    for window in windows:
        name = window.schedule_id
        window_writes.check_past(window, now)
        window_writes.check_exceptions(window, before.exceptions.of(job_id, name), now)
        if name in before.edges:
            window_writes.check_edge(window, before.edges[name], now)
        elif name in grids:
            window_writes.check_added(window, now, grid=grids[name])


async def _write_schedules(tx: Tx, put: PutJob, windows: Sequence[Window], before: Before, now: Micros) -> None:
    """Withdraw runs ahead that may be unwanted now. Drop schedules, and continue or add the others."""
    job_id = put.record.id
    kept = {schedule_id(schedule): schedule for schedule in put.record.job.schedules}
    given = {window.schedule_id: window for window in windows}
    armed: set[Micros] = set()  # slots ahead of dropped schedules
    for name, row in before.stored.items():
        put.withdrawn += await withdraw(tx, job_id, name, before.edges.get(name, now))
        if name not in kept:
            armed |= set(await tx.values(LIST_ARMED_AHEAD, job_id, now, slot_trigger(name)))
            await _drop(tx, job_id, row, given.get(name), before.exceptions, now)
    for name, schedule in kept.items():
        if name not in given:
            continue
        if name in before.stored:
            put.planned += await _continue(tx, put.record, given[name], before, now)
        else:
            late = put.change == "changed" and is_grid(schedule)
            window = begun(given[name], now) if late else given[name]
            put.planned += await _add(tx, put.record, without(window, armed), before.exceptions, now)


async def _drop(
    tx: Tx, job_id: int, row: StoredRow, closing: Window | None, known: KnownExceptions, now: Micros
) -> None:
    if closing is not None and closing.start == row.watermark:
        exceptions = known.of(job_id, row.schedule_id)
        await plan.record_skips(tx, job_id, settle(closing, exceptions), now, exceptions)
    await tx.do(DELETE_SCHEDULE, job_id, row.schedule_id)
    await tx.do(DELETE_EXCEPTIONS, job_id, row.schedule_id, now)


async def _add(tx: Tx, record: JobRecord, window: Window, known: KnownExceptions, now: Micros) -> int:
    """Add a schedule. A paused job plans no runs: resuming it decides about the slots."""
    job_id, name = record.id, window.schedule_id
    zoned = name in zoned_ids(record.job)
    await tx.do(INSERT_SCHEDULE, job_id, name, bucket_of(job_id), zoned, window.start, window.delay)
    if record.state is JobState.PAUSED:
        first = window.slots[0].slot_at if window.slots else window.next_at
        await tx.do(SET_NEXT, first, job_id, name)
        return 0
    # The schedule may have been dropped earlier. Then slots that were cancelled ahead stay cancelled.
    ended = await plan.ended_slots(tx, job_id, window) if record.revision > 1 else ()
    planned = Planned.settled(known, job_id, window, delayed=window.delay is not None, ended=ended)
    return await plan.write_windows(tx, [planned], now)


async def _continue(tx: Tx, record: JobRecord, window: Window, before: Before, now: Micros) -> int:
    """Continue a schedule that survives an edit."""
    job_id, name = record.id, window.schedule_id
    row, edge = before.stored[name], before.edges[name]
    await tx.do(SET_KIND, job_id, name, window.delay, name in zoned_ids(record.job))
    if window.delay is not None:
        await tx.do(MARK_DELAYED, job_id, slot_trigger(name))
    if window.delay is not None or record.state is JobState.PAUSED:
        await pull_back(tx, job_id, name, edge, window.delay)
        return 0
    if row.watermark < edge and row.next_at is not None and row.next_at <= edge:
        return 0  # the planner is late: it continues from here with the new rule
    window = behind(window, edge)
    ended = await plan.ended_slots(tx, job_id, window)
    return await plan.write_windows(tx, [Planned.settled(before.exceptions, job_id, window, ended=ended)], now)


async def pull_back(tx: Tx, job_id: int, name: str, edge: Micros, delay: Micros | None) -> None:
    """Set the watermark back to the edge. A fixed delay waits for the end of its run."""
    if delay is None:
        await tx.do(PULL_BACK, job_id, name, edge)
    else:
        await tx.do(WAIT_FOR_END, job_id, name, slot_trigger(name), edge, delay)


async def withdraw(tx: Tx, job_id: int, name: str, edge: Micros) -> int:
    """Remove a schedule's runs after the edge that were never armed, and open their gates. Return how many."""
    gone = await tx.values(WITHDRAW, job_id, edge, slot_trigger(name))
    await open_gates(tx, gone, ended=True)
    return len(gone)


async def find_edge(tx: Tx, job_id: int, name: str, now: Micros) -> Micros:
    """Return W: no run of a slot at or before W is withdrawn."""
    return int(await tx.value(FIND_EDGE, job_id, name, slot_trigger(name), now))
