"""Definitions and their revisions, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from onthedot import faults
from onthedot.after import check_cycle
from onthedot.clock import Micros
from onthedot.errors import StoreUnusable
from onthedot.job import Job, JobRecord, JobState, ability_of, is_gated, route_of
from onthedot.route import level_of
from onthedot.run import slot_trigger
from onthedot.schedules import is_grid, schedule_id
from onthedot.stores.base import Hint, Parent, PutJob, ScheduleState, Window
from onthedot.stores.definitions import bucket_of, encode, hash_of
from onthedot.stores.exceptions import settle
from onthedot.stores.planned import Planned, begun, behind, without
from onthedot.stores.postgres.dependencies import list_arrows, list_parents, put_after
from onthedot.stores.postgres.exceptions import DELETE_EXCEPTIONS, Ahead
from onthedot.stores.postgres.gates import open_gates, stand_aside
from onthedot.stores.postgres.plan import Plan, record_skips, write_windows
from onthedot.stores.postgres.tables import take_numbers
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.postgres.triggers import with_slots
from onthedot.stores.shards import zoned_ids
from onthedot.stores.staleness import (
    check_added,
    check_dropped,
    check_edge,
    check_exceptions,
    check_past,
    check_revision,
)

# Whoever changes a job holds its row: nobody plans, submits or arms anything of it meanwhile.
LOCK_JOB = """
SELECT id, revision, state, created_at FROM jobs
WHERE namespace = $1 AND name = $2 AND state <> 'deleted' FOR UPDATE
"""

INSERT_JOB = """
INSERT INTO jobs (id, namespace, name, owner, state, revision, task, queue, route, priority, share, gated,
                  definition_hash, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14)
"""

UPDATE_JOB = """
UPDATE jobs
SET namespace = $2, name = $3, owner = $4, state = $5, revision = $6, task = $7, queue = $8, route = $9, priority = $10,
    share = $11, gated = $12, definition_hash = $13, updated_at = $14
WHERE id = $1 AND revision = $6 - 1
"""

# Its runs go on where and how it says now. In the order of their ids, as everybody locks them.
REROUTE = """
WITH mine AS (SELECT id FROM runs WHERE job_id = $1 ORDER BY id FOR UPDATE)
UPDATE runs
SET queue = $2, route = CASE target WHEN '' THEN $3 ELSE route END, priority = $4, rank = NULL
FROM mine WHERE runs.id = mine.id
"""

INSERT_REVISION = "INSERT INTO job_revisions (job_id, revision, definition, created_at) VALUES ($1, $2, $3, $4)"

LIST_SCHEDULES = """
SELECT s.job_id, s.schedule_id, s.origin, s.watermark, s.next_at, s.last_end, j.revision, j.state, s.delay
FROM schedules s JOIN jobs j ON j.id = s.job_id WHERE s.job_id = $1 ORDER BY s.schedule_id
"""

INSERT_SCHEDULE = """
INSERT INTO schedules (job_id, schedule_id, bucket, zoned, origin, watermark, delay) VALUES ($1, $2, $3, $4, $5, $5, $6)
"""

SET_NEXT = "UPDATE schedules SET next_at = $1 WHERE job_id = $2 AND schedule_id = $3"

PULL_BACK = "UPDATE schedules SET watermark = least(watermark, $3) WHERE job_id = $1 AND schedule_id = $2"

DELETE_SCHEDULE = "DELETE FROM schedules WHERE job_id = $1 AND schedule_id = $2"

SET_KIND = "UPDATE schedules SET delay = $3, zoned = $4 WHERE job_id = $1 AND schedule_id = $2"

# Every open run of a fixed delay says so, also one that was planned before the schedule became one.
MARK_DELAYED = "UPDATE runs SET delayed = true WHERE job_id = $1 AND trigger = $2"

WAIT_FOR_END = """
UPDATE schedules
SET watermark = least(watermark, $4),
    next_at = CASE WHEN EXISTS (SELECT 1 FROM runs WHERE job_id = $1 AND trigger = $3) THEN NULL
                   ELSE greatest($4, coalesce(last_end + $5, $4)) END
WHERE job_id = $1 AND schedule_id = $2
"""

# W: the later of now and the newest slot ever armed. That is a live run's; or one of a run that ended before its
# own instant, which is noted with the schedule; or, when somebody has set the clock back, one of the runs that
# ended in what is now the future.
FIND_EDGE = """
SELECT greatest(
    $4,
    (SELECT max(slot_at) FROM runs WHERE job_id = $1 AND slot_at > $4 AND trigger = $3 AND attempt > 0),
    (SELECT armed_to FROM schedules WHERE job_id = $1 AND schedule_id = $2),
    (SELECT max(slot_at) FROM history WHERE job_id = $1 AND ended_at > $4 AND trigger = $3 AND attempts > 0))
"""

WITHDRAW = "DELETE FROM runs WHERE job_id = $1 AND slot_at > $2 AND trigger = $3 AND attempt = 0 RETURNING id"

LIST_ARMED_AHEAD = "SELECT slot_at FROM runs WHERE job_id = $1 AND slot_at > $2 AND trigger = $3"

# Exhausted is not stored but seen: no schedule will yield again, and no run of theirs is open.
SHOWN = """
SELECT j.id, j.revision, j.state, j.pause_reason, j.paused_until,
       CASE WHEN j.state = 'active'
             AND EXISTS (SELECT 1 FROM schedules s WHERE s.job_id = j.id)
             AND NOT EXISTS (SELECT 1 FROM schedules s WHERE s.job_id = j.id AND s.next_at IS NOT NULL)
             AND NOT EXISTS (SELECT 1 FROM schedules s JOIN runs r ON r.job_id = s.job_id
                             AND r.trigger = {slot_trigger} WHERE s.job_id = j.id)
            THEN 'exhausted' ELSE j.state END
FROM jobs j {wanted}
"""

SHOW_JOB = with_slots(SHOWN, wanted="WHERE j.namespace = $1 AND j.name = $2 AND j.state <> 'deleted'")


class Jobs(Plan):
    """See `JobsSlice`."""

    async def put_job(
        self, job: Job, windows: Sequence[Window] = (), *, expected: int | None = None, now: Micros | None = None
    ) -> PutJob:
        async def work(tx: Transaction) -> PutJob:
            return await self._put(tx, job, windows, expected, now)

        return await self.write(work, limit=self.limits.long)

    async def _put(
        self, tx: Transaction, job: Job, windows: Sequence[Window], expected: int | None, now: Micros | None
    ) -> PutJob:
        found = await tx.row(LOCK_JOB, job.namespace, job.name)
        job_id, revision, state, created_at = found or (0, 0, "", 0)
        definition = encode(job)
        if found is not None and (same := await self._if_same(tx, definition, job_id, revision, state)) is not None:
            return PutJob(same, "unchanged")
        check_revision(job.name, expected, revision)
        if job.after is not None:
            arrows = await list_arrows(tx, job.namespace)
            check_cycle(job.name, job.after, lambda name: arrows.get(name, []))
        at = await tx.clock(now)
        if found is None:
            for window in windows:
                check_past(window, at)
            [job_id] = await take_numbers(tx, "job_ids", 1)
            put = PutJob(JobRecord(job_id, 1, job, JobState.ACTIVE, at, at), "created")
            await _store(tx, INSERT_JOB, put.record, definition)
        else:
            await _check_windows(tx, job_id, job, windows, at, fenced=expected is not None)
            put = PutJob(JobRecord(job_id, revision + 1, job, JobState(state), created_at, at), "changed")
            await stand_aside(tx, job_id)
            await _store(tx, UPDATE_JOB, put.record, definition)
        await put_after(tx, job_id, job)
        faults.point("put_job.in_transaction")
        await _write_schedules(tx, put, windows, at)
        tx.hints += [Hint("schedules", at), Hint("runs", at)]
        return put

    async def _if_same(
        self, tx: Transaction, definition: str, job_id: int, revision: int, state: str
    ) -> JobRecord | None:
        """The stored record if it means the same. Written anew: its text may be another version's."""
        with suppress(StoreUnusable):  # what cannot be read is replaced
            record = await self.records.get(tx, job_id, revision, state)
            return record if encode(record.job) == definition else None
        return None

    async def get_job(self, name: str, *, namespace: str = "default") -> JobRecord | None:
        async def work(tx: Transaction) -> JobRecord | None:
            row = await tx.row(SHOW_JOB, namespace, name)
            if row is None:
                return None
            await self.records.load(tx, [row[:3]])
            return self.shown_job(*row)

        return await self.read(work)

    def shown_job(
        self, job_id: int, revision: int, state: str, reason: str, until: Micros | None, shown: str
    ) -> JobRecord:
        del state
        record = self.records.find(job_id, revision)
        return replace(record, state=JobState(shown), pause_reason=reason, paused_until=until)

    async def parents_of(self, job_id: int) -> list[Parent]:
        return await self.read(lambda tx: list_parents(tx, job_id))

    async def schedules_of(self, job_id: int) -> list[ScheduleState]:
        async def work(tx: Transaction) -> list[ScheduleState]:
            rows = [row[:8] for row in await tx.rows(LIST_SCHEDULES, job_id)]
            if rows:
                await self.records.get(tx, job_id, rows[0][6], rows[0][7])  # unreadable: here it is told
            return await self.schedule_states(tx, rows)

        return await self.read(work)


async def _store(tx: Transaction, statement: str, record: JobRecord, definition: str) -> None:
    job, level, route = record.job, level_of(record.job.priority), route_of(record.job)
    await tx.do(
        statement, record.id, job.namespace, job.name, job.owner, record.state.value, record.revision,
        ability_of(job), job.queue, route, level, job.share, is_gated(job), hash_of(definition), record.updated_at,
    )  # fmt: skip
    await tx.do(INSERT_REVISION, record.id, record.revision, definition, record.updated_at)
    if record.revision > 1:
        await tx.do(REROUTE, record.id, job.queue, route, level)


async def _check_windows(
    tx: Transaction, job_id: int, job: Job, windows: Sequence[Window], now: Micros, *, fenced: bool
) -> None:
    stored: list[Any] = await tx.rows(LIST_SCHEDULES, job_id)
    grids = {schedule_id(schedule): is_grid(schedule) for schedule in job.schedules}
    surviving = {row[1] for row in stored} & grids.keys()
    ahead = await Ahead.of_jobs(tx, [job_id])
    for row in stored:
        name, delay = row[1], row[8]
        if fenced and delay is None and name not in surviving:
            closing = next((window for window in windows if window.schedule_id == name), None)
            check_dropped(name, row[3], row[4], closing, now)
    for window in windows:
        check_past(window, now)
        check_exceptions(window, ahead.of(job_id, window.schedule_id), now)
        edge = await find_edge(tx, job_id, window.schedule_id, now)
        if window.schedule_id in surviving:
            check_edge(window, edge, now)
        elif window.schedule_id in grids:
            check_added(window, now, grid=grids[window.schedule_id])


async def _write_schedules(tx: Transaction, put: PutJob, windows: Sequence[Window], now: Micros) -> None:
    """Withdraw what the new definition may no longer want, drop what it no longer has, go on with the rest."""
    job_id = put.record.id
    kept = {schedule_id(schedule): schedule for schedule in put.record.job.schedules}
    given = {window.schedule_id: window for window in windows}
    ahead = await Ahead.of_jobs(tx, [job_id])
    rows = await tx.rows(LIST_SCHEDULES, job_id)
    stored: dict[str, tuple[Micros, Micros | None]] = {row[1]: (row[3], row[4]) for row in rows}
    armed: set[Micros] = set()  # ahead, of dropped schedules
    for name, (watermark, _) in stored.items():
        edge = await find_edge(tx, job_id, name, now) if name in kept else now
        put.withdrawn += await withdraw(tx, job_id, name, edge)
        if name in kept:
            continue
        armed |= {slot for (slot,) in await tx.rows(LIST_ARMED_AHEAD, job_id, now, slot_trigger(name))}
        if name in given and given[name].start == watermark:
            exceptions = ahead.of(job_id, name)
            await record_skips(tx, job_id, settle(given[name], exceptions), now, exceptions)
        await tx.do(DELETE_SCHEDULE, job_id, name)
        await tx.do(DELETE_EXCEPTIONS, job_id, name, now)
    ahead = await Ahead.of_jobs(tx, [job_id])
    for name in kept:
        if name in given and name in stored:
            put.planned += await _continue(tx, put.record, given[name], *stored[name], ahead, now)
        elif name in given:
            late = put.change == "changed" and is_grid(kept[name])
            window = begun(given[name], now) if late else given[name]
            put.planned += await _create(tx, put.record, without(window, armed), ahead, now)


async def _create(tx: Transaction, record: JobRecord, window: Window, ahead: Ahead, now: Micros) -> int:
    """Create a schedule. Of a paused job nothing is planned: resuming it gives its slots their fates."""
    job_id, name = record.id, window.schedule_id
    zoned = name in zoned_ids(record.job)
    await tx.do(INSERT_SCHEDULE, job_id, name, bucket_of(job_id), zoned, window.start, window.delay)
    if record.state is JobState.PAUSED:
        first = window.slots[0].slot_at if window.slots else window.next_at
        await tx.do(SET_NEXT, first, job_id, name)
        return 0
    # New, or back again: slots that were cancelled ahead before it was dropped stay so.
    planned = Planned.settled(ahead, job_id, window, delayed=window.delay is not None)
    return await write_windows(tx, [planned], now)


async def _continue(
    tx: Transaction,
    record: JobRecord,
    window: Window,
    watermark: Micros,
    next_at: Micros | None,
    ahead: Ahead,
    now: Micros,
) -> int:
    """Go on with a schedule that survives an edit."""
    job_id, name = record.id, window.schedule_id
    edge = await find_edge(tx, job_id, name, now)
    await tx.do(SET_KIND, job_id, name, window.delay, name in zoned_ids(record.job))
    if window.delay is not None:
        await tx.do(MARK_DELAYED, job_id, slot_trigger(name))
        await tx.do(WAIT_FOR_END, job_id, name, slot_trigger(name), edge, window.delay)
        return 0
    if record.state is JobState.PAUSED:
        await tx.do(PULL_BACK, job_id, name, edge)
        return 0
    if watermark < edge and next_at is not None and next_at <= edge:
        return 0  # the planner is behind: it catches up from here under the new rule
    return await write_windows(tx, [Planned.settled(ahead, job_id, behind(window, edge))], now)


async def withdraw(tx: Transaction, job_id: int, name: str, edge: Micros) -> int:
    """Remove a schedule's runs after the edge that were never armed; how many. Their gates open."""
    gone = [run_id for (run_id,) in await tx.rows(WITHDRAW, job_id, edge, slot_trigger(name))]
    await open_gates(tx, gone, ended=True)
    return len(gone)


async def find_edge(tx: Transaction, job_id: int, name: str, now: Micros) -> Micros:
    """W: nothing at or before it is withdrawn."""
    return int(await tx.value(FIND_EDGE, job_id, name, slot_trigger(name), now))
