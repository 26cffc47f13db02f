"""Definitions and their revisions, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

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
from onthedot.stores.shards import zoned_ids
from onthedot.stores.sqlite.dependencies import list_parents, parent_names, put_after
from onthedot.stores.sqlite.exceptions import DELETE_EXCEPTIONS, Ahead
from onthedot.stores.sqlite.gates import open_gates, stand_aside
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.plan import Plan, record_skips, write_windows
from onthedot.stores.sqlite.tables import take_numbers
from onthedot.stores.sqlite.triggers import with_slots
from onthedot.stores.staleness import (
    check_added,
    check_dropped,
    check_edge,
    check_exceptions,
    check_past,
    check_revision,
)

FIND_JOB = """
SELECT id, revision, state, created_at FROM jobs
WHERE namespace = :namespace AND name = :name AND state <> 'deleted'
"""

INSERT_JOB = """
INSERT INTO jobs (id, namespace, name, owner, state, revision, task, queue, route, priority, share, gated,
                  definition_hash, created_at, updated_at)
VALUES (:id, :namespace, :name, :owner, :state, :revision, :task, :queue, :route, :priority, :share, :gated,
        :hash, :now, :now)
"""

UPDATE_JOB = """
UPDATE jobs
SET owner = :owner, revision = :revision, task = :task, queue = :queue, route = :route, priority = :priority,
    share = :share, gated = :gated, definition_hash = :hash, updated_at = :now
WHERE id = :id AND revision = :revision - 1
"""

# Its runs go on where and how it says now.
REROUTE = """
UPDATE runs
SET queue = :queue, route = CASE target WHEN '' THEN :route ELSE route END, priority = :priority, rank = NULL
WHERE job_id = :id
"""

INSERT_REVISION = """
INSERT INTO job_revisions (job_id, revision, definition, created_at) VALUES (:id, :revision, :definition, :now)
"""

LIST_SCHEDULES = """
SELECT s.job_id, s.schedule_id, s.origin, s.watermark, s.next_at, s.last_end, j.revision, j.state
FROM schedules s JOIN jobs j ON j.id = s.job_id WHERE s.job_id = ? ORDER BY s.schedule_id
"""

LIST_WITHOUT_DELAY = "SELECT schedule_id, watermark, next_at FROM schedules WHERE job_id = ? AND delay IS NULL"

INSERT_SCHEDULE = """
INSERT INTO schedules (job_id, schedule_id, bucket, zoned, origin, watermark, delay)
VALUES (:job_id, :schedule_id, :bucket, :zoned, :start, :start, :delay)
"""

SET_NEXT = "UPDATE schedules SET next_at = ? WHERE job_id = ? AND schedule_id = ?"

PULL_BACK = (
    "UPDATE schedules SET watermark = min(watermark, :edge) WHERE job_id = :job_id AND schedule_id = :schedule_id"
)

DELETE_SCHEDULE = "DELETE FROM schedules WHERE job_id = ? AND schedule_id = ?"

SET_KIND = """
UPDATE schedules SET delay = :delay, zoned = :zoned WHERE job_id = :job_id AND schedule_id = :schedule_id
"""

# Every open run of a fixed delay says so, also one that was planned before the schedule became one.
MARK_DELAYED = "UPDATE runs SET delayed = 1 WHERE job_id = :job_id AND trigger = :trigger"

WAIT_FOR_END = """
UPDATE schedules
SET watermark = min(watermark, :edge),
    next_at = CASE WHEN EXISTS (SELECT 1 FROM runs WHERE job_id = :job_id AND trigger = :trigger) THEN NULL
                   ELSE max(:edge, coalesce(last_end + :delay, :edge)) END
WHERE job_id = :job_id AND schedule_id = :schedule_id
"""

# W: the later of now and the newest slot ever armed. That is a live run's; or one of a run that ended before its
# own instant, which is noted with the schedule; or, when somebody has set the clock back, one of the runs that
# ended in what is now the future.
FIND_EDGE = """
SELECT max(
    :now,
    coalesce((SELECT max(slot_at) FROM runs
              WHERE job_id = :job_id AND slot_at > :now AND trigger = :trigger AND attempt > 0), :now),
    coalesce((SELECT armed_to FROM schedules WHERE job_id = :job_id AND schedule_id = :schedule_id), :now),
    coalesce((SELECT max(slot_at) FROM history
              WHERE job_id = :job_id AND ended_at > :now AND trigger = :trigger AND attempts > 0), :now))
"""

WITHDRAW = """
DELETE FROM runs WHERE job_id = :job_id AND slot_at > :edge AND trigger = :trigger AND attempt = 0 RETURNING id
"""

LIST_ARMED_AHEAD = "SELECT slot_at FROM runs WHERE job_id = :job_id AND slot_at > :edge AND trigger = :trigger"

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

SHOW_JOB = with_slots(SHOWN, wanted="WHERE j.namespace = ? AND j.name = ? AND j.state <> 'deleted'")


class Jobs(Plan):
    """See `JobsSlice`."""

    async def put_job(
        self, job: Job, windows: Sequence[Window] = (), *, expected: int | None = None, now: Micros | None = None
    ) -> PutJob:
        return await self.write(lambda tx: self._put(tx, job, windows, expected, self.read_clock(now)))

    def _put(self, tx: Transaction, job: Job, windows: Sequence[Window], expected: int | None, now: Micros) -> PutJob:
        found = tx.db.execute(FIND_JOB, {"namespace": job.namespace, "name": job.name}).fetchone()
        job_id, revision, state, created_at = found or (0, 0, "", 0)
        definition = encode(job)
        if found is not None and (same := self._if_same(tx.db, definition, job_id, revision, state)) is not None:
            return PutJob(same, "unchanged")
        check_revision(job.name, expected, revision)
        check_cycle(job.name, job.after, lambda name: parent_names(tx.db, job.namespace, name))
        if found is None:
            for window in windows:
                check_past(window, now)
            [job_id] = take_numbers(tx.db, "job", 1)
            put = PutJob(JobRecord(job_id, 1, job, JobState.ACTIVE, now, now), "created")
            _store(tx.db, INSERT_JOB, put.record, definition)
        else:
            _check_windows(tx.db, job_id, job, windows, now, fenced=expected is not None)
            put = PutJob(JobRecord(job_id, revision + 1, job, JobState(state), created_at, now), "changed")
            _store(tx.db, UPDATE_JOB, put.record, definition)
            stand_aside(tx, job_id)
        put_after(tx.db, job_id, job)
        faults.point("put_job.in_transaction")
        _write_schedules(tx, put, windows, now)
        tx.hints += [Hint("schedules", now), Hint("runs", now)]
        return put

    def _if_same(
        self, db: sqlite3.Connection, definition: str, job_id: int, revision: int, state: str
    ) -> JobRecord | None:
        """The stored record if it means the same. Written anew: its text may be another version's."""
        with suppress(StoreUnusable):  # what cannot be read is replaced
            record = self.records.find(db, job_id, revision, state)
            return record if encode(record.job) == definition else None
        return None

    async def get_job(self, name: str, *, namespace: str = "default") -> JobRecord | None:
        def work(tx: Transaction) -> JobRecord | None:
            row = tx.db.execute(SHOW_JOB, (namespace, name)).fetchone()
            return None if row is None else self.shown_job(tx.db, *row)

        return await self.read(work)

    def shown_job(
        self,
        db: sqlite3.Connection,
        job_id: int,
        revision: int,
        state: str,
        reason: str,
        until: Micros | None,
        shown: str,
    ) -> JobRecord:
        record = self.records.find(db, job_id, revision, state)
        return replace(record, state=JobState(shown), pause_reason=reason, paused_until=until)

    async def parents_of(self, job_id: int) -> list[Parent]:
        return await self.read(lambda tx: list_parents(tx.db, job_id))

    async def schedules_of(self, job_id: int) -> list[ScheduleState]:
        def work(tx: Transaction) -> list[ScheduleState]:
            ahead = Ahead(tx.db)
            rows = tx.db.execute(LIST_SCHEDULES, (job_id,)).fetchall()
            return [self.schedule_state(tx.db, row, ahead) for row in rows]

        return await self.read(work)


def _store(db: sqlite3.Connection, statement: str, record: JobRecord, definition: str) -> None:
    job = record.job
    values = {
        "id": record.id, "namespace": job.namespace, "name": job.name, "owner": job.owner, "state": record.state.value,
        "revision": record.revision, "task": ability_of(job), "hash": hash_of(definition), "now": record.updated_at,
        "definition": definition, "gated": int(is_gated(job)), "queue": job.queue, "route": route_of(job),
        "priority": level_of(job.priority), "share": job.share,
    }  # fmt: skip
    db.execute(statement, values)
    db.execute(INSERT_REVISION, values)
    if record.revision > 1:
        db.execute(REROUTE, values)


def _check_windows(
    db: sqlite3.Connection, job_id: int, job: Job, windows: Sequence[Window], now: Micros, *, fenced: bool
) -> None:
    stored = {row[1] for row in db.execute(LIST_SCHEDULES, (job_id,))}
    grids = {schedule_id(schedule): is_grid(schedule) for schedule in job.schedules}
    surviving = stored & grids.keys()
    ahead = Ahead(db)
    for name, watermark, next_at in db.execute(LIST_WITHOUT_DELAY, (job_id,)).fetchall():
        if fenced and name not in surviving:
            closing = next((window for window in windows if window.schedule_id == name), None)
            check_dropped(name, watermark, next_at, closing, now)
    for window in windows:
        check_past(window, now)
        check_exceptions(window, ahead.of(job_id, window.schedule_id), now)
        edge = find_edge(db, job_id, window.schedule_id, now)
        if window.schedule_id in surviving:
            check_edge(window, edge, now)
        elif window.schedule_id in grids:
            check_added(window, now, grid=grids[window.schedule_id])


def _write_schedules(tx: Transaction, put: PutJob, windows: Sequence[Window], now: Micros) -> None:
    """Withdraw what the new definition may no longer want, drop what it no longer has, go on with the rest."""
    db, job_id = tx.db, put.record.id
    kept = {schedule_id(schedule): schedule for schedule in put.record.job.schedules}
    given = {window.schedule_id: window for window in windows}
    ahead = Ahead(db)
    rows = db.execute(LIST_SCHEDULES, (job_id,)).fetchall()
    stored: dict[str, tuple[Micros, Micros | None]] = {row[1]: (row[3], row[4]) for row in rows}
    armed: set[Micros] = set()  # ahead, of dropped schedules
    for name, (watermark, _) in stored.items():
        edge = find_edge(db, job_id, name, now) if name in kept else now
        values = {"job_id": job_id, "trigger": slot_trigger(name), "edge": edge}
        put.withdrawn += withdraw(tx, values)
        if name in kept:
            continue
        armed |= {slot for (slot,) in db.execute(LIST_ARMED_AHEAD, values)}
        if name in given and given[name].start == watermark:
            exceptions = ahead.of(job_id, name)
            record_skips(db, job_id, settle(given[name], exceptions), now, exceptions)
        db.execute(DELETE_SCHEDULE, (job_id, name))
        db.execute(DELETE_EXCEPTIONS, {"job_id": job_id, "schedule_id": name, "now": now})
    for name in kept:
        if name in given and name in stored:
            put.planned += _continue(tx, put.record, given[name], *stored[name], now)
        elif name in given:
            late = put.change == "changed" and is_grid(kept[name])
            window = begun(given[name], now) if late else given[name]
            put.planned += _create(tx, put.record, without(window, armed), now)


def _create(tx: Transaction, record: JobRecord, window: Window, now: Micros) -> int:
    """Create a schedule. Of a paused job nothing is planned: resuming it gives its slots their fates."""
    job_id = record.id
    values = {
        "job_id": job_id, "schedule_id": window.schedule_id, "bucket": bucket_of(job_id), "start": window.start,
        "delay": window.delay, "zoned": window.schedule_id in zoned_ids(record.job),
    }  # fmt: skip
    tx.db.execute(INSERT_SCHEDULE, values)
    if record.state is JobState.PAUSED:
        first = window.slots[0].slot_at if window.slots else window.next_at
        tx.db.execute(SET_NEXT, (first, job_id, window.schedule_id))
        return 0
    # New, or back again: slots that were cancelled ahead before it was dropped stay so.
    planned = Planned.settled(Ahead(tx.db), job_id, window, delayed=window.delay is not None)
    return write_windows(tx, [planned], now)


def _continue(
    tx: Transaction, record: JobRecord, window: Window, watermark: Micros, next_at: Micros | None, now: Micros
) -> int:
    """Go on with a schedule that survives an edit."""
    job_id = record.id
    edge = find_edge(tx.db, job_id, window.schedule_id, now)
    values = {
        "job_id": job_id, "schedule_id": window.schedule_id, "trigger": slot_trigger(window.schedule_id),
        "delay": window.delay, "edge": edge, "zoned": window.schedule_id in zoned_ids(record.job),
    }  # fmt: skip
    tx.db.execute(SET_KIND, values)
    if window.delay is not None:
        tx.db.execute(MARK_DELAYED, values)
        tx.db.execute(WAIT_FOR_END, values)
        return 0
    if record.state is JobState.PAUSED:
        tx.db.execute(PULL_BACK, values)
        return 0
    if watermark < edge and next_at is not None and next_at <= edge:
        return 0  # the planner is behind: it catches up from here under the new rule
    return write_windows(tx, [Planned.settled(Ahead(tx.db), job_id, behind(window, edge))], now)


def withdraw(tx: Transaction, values: dict[str, object]) -> int:
    """Remove a schedule's runs after the edge that were never armed; how many. Their gates open."""
    gone = [run_id for (run_id,) in tx.db.execute(WITHDRAW, values).fetchall()]
    open_gates(tx, gone, ended=True)
    return len(gone)


def find_edge(db: sqlite3.Connection, job_id: int, name: str, now: Micros) -> Micros:
    """W: nothing at or before it is withdrawn."""
    values = {"job_id": job_id, "schedule_id": name, "trigger": slot_trigger(name), "now": now}
    [edge] = db.execute(FIND_EDGE, values).fetchone()
    return int(edge)
