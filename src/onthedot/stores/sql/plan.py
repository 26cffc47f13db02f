"""Turns schedules into runs: lists due schedules, writes windows of slots, and records skips.

A window is written by compare-and-set: its job must have the revision, and its schedule the watermark, from which it
was computed. Slots whose fate was set ahead (exceptions) are read with their schedules and applied in the same write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import compress
from typing import Any, NamedTuple, TypeVar

from onthedot import fault_points
from onthedot.clock import Micros
from onthedot.model.run import slot_trigger
from onthedot.model.window import ScheduleState, SkipRange, SlotException, Window
from onthedot.rules import moved_slots, window_writes
from onthedot.rules.moved_slots import forget_before, recorded_in
from onthedot.rules.shards import BUCKETS
from onthedot.rules.window_writes import Planned, SlotTarget
from onthedot.stores import values
from onthedot.stores.hints import Hint
from onthedot.stores.queries import FIRST, SCANNED
from onthedot.stores.sql.fragments import job_of
from onthedot.stores.sql.port import Now, Statement, Tx, sql, wanted_pairs
from onthedot.stores.sql.submit import insert_runs
from onthedot.stores.sql.terms import check_layout, check_term
from onthedot.stores.values import Term

R = TypeVar("R")


def try_schedule(found: str) -> str:
    """Return a condition for changing a schedule after keys or runs were locked. PostgreSQL does not wait for its
    row."""
    return f"{found} [[AND EXISTS (SELECT 1 FROM schedules WHERE {found} FOR UPDATE NOWAIT)]]"  # noqa: S608


# ── exceptions: slots whose fate was set ahead ───────────────────────────────────────────────────────────────

_WANTED = wanted_pairs("job_id bigint", "schedule_id text")

LIST_EXCEPTIONS = sql(f"""
SELECT e.job_id, e.schedule_id, e.slot_at, e.reason, e.recorded, e.run_id
FROM {_WANTED} <<CROSS>> JOIN exceptions e ON e.job_id = wanted.job_id AND e.schedule_id = wanted.schedule_id
""")  # noqa: S608

SET_RECORDED = sql("""
UPDATE exceptions SET recorded = true WHERE job_id = $1 AND schedule_id = $2 AND slot_at {in3}
""")

FORGET_EXCEPTIONS = sql("DELETE FROM exceptions WHERE job_id = $1 AND schedule_id = $2 AND slot_at <= $3")


class SlotExceptions:
    """The exceptions of some schedules. See `window_writes.KnownExceptions`."""

    def __init__(self, rows: Iterable[Any] = ()) -> None:
        self._fates: dict[tuple[int, str], list[SlotException]] = defaultdict(list)
        for job_id, schedule_id, slot_at, reason, recorded, run_id in rows:
            self._fates[job_id, schedule_id].append(SlotException(slot_at, reason, bool(recorded), run_id))

    def of(self, job_id: int, schedule_id: str) -> tuple[SlotException, ...]:
        """Return the exceptions of one schedule, in order."""
        return tuple(sorted(self._fates.get((job_id, schedule_id), ())))


async def find_exceptions(tx: Tx, schedules: Iterable[tuple[int, str]]) -> SlotExceptions:
    """Return the exceptions of these schedules. Each schedule is given by its job and id."""
    wanted = sorted(set(schedules))
    return SlotExceptions(await tx.rows(LIST_EXCEPTIONS, *zip(*wanted, strict=True)) if wanted else ())


# ── due schedules ────────────────────────────────────────────────────────────────────────────────────────────

GROUP = 64
"""How many buckets share a range of SQLite's index `schedules_due`."""


class ScheduleRow(NamedTuple):
    """A schedule with its job's revision, state and reason for a pause."""

    job_id: int
    schedule_id: str
    origin: Micros
    watermark: Micros
    next_at: Micros | None
    last_end: Micros | None
    revision: int
    state: str
    pause_reason: str
    paused_until: Micros | None


_JOB = "j.revision, j.state, j.pause_reason, j.paused_until"
SCHEDULE = f"s.job_id, s.schedule_id, s.origin, s.watermark, s.next_at, s.last_end, {_JOB}"
"""The columns of a `ScheduleRow`."""


def _along_due(
    select: str, limit: str, row: type[R], *, first: str = "0", groups: int = BUCKETS // GROUP
) -> Statement[R]:
    """Return a statement that reads along the index of due schedules. SQLite's index has a range for each group of
    buckets. SQLite merges the ranges row by row, so that it reads no more rows than the caller wants."""
    order = f"ORDER BY next_at, job_id, schedule_id {limit}"
    ranges = [select.replace("{group}", f"s.bucket / {GROUP} = {first} + {place} AND") for place in range(groups)]
    return sql(f"{select} {order}".replace("{group}", ""), row, sqlite=f"{' UNION ALL '.join(ranges)} {order}")


@cache
def list_due(groups: int) -> Statement[ScheduleRow]:
    """Return a statement that lists the due schedules of active jobs in some buckets, after a cursor."""
    text = f"""
    SELECT {SCHEDULE} FROM schedules s <<INDEXED BY schedules_due CROSS>> JOIN jobs j ON {job_of("s")}
    WHERE <<{{group}}>> s.next_at <= $1 AND s.bucket >= $2 AND s.bucket < $3 AND <<+>>j.state = 'active'
      AND (s.next_at, s.job_id, s.schedule_id) > ($4, $5, $6)
    """  # noqa: S608
    return _along_due(text, "LIMIT $7", ScheduleRow, first=f"$2 / {GROUP}", groups=groups)


def list_due_in(buckets: range) -> Statement[ScheduleRow]:
    """Return the same statement for the buckets of one shard."""
    return list_due((buckets.stop - 1) // GROUP - buckets.start // GROUP + 1)


_BEGIN = values.ScheduleCursor(FIRST, 0, "")


async def due_schedules(tx: Tx, *, until: Micros, limit: int, shard: int = 0, layout: int | None = None) -> values.Due:
    buckets = await check_layout(tx, layout, shard)
    due: list[ScheduleState] = []
    place = _BEGIN
    while True:  # some rows may turn out to be unreadable
        rows = await tx.rows(list_due_in(buckets), until, buckets.start, buckets.stop, *place, limit + 1)
        due += await schedule_states(tx, rows)
        if len(due) > limit or len(rows) <= limit:
            return values.Due(due[:limit], more=len(due) > limit)
        place = _place_of(rows[-1])


async def schedule_states(tx: Tx, rows: Sequence[ScheduleRow]) -> list[ScheduleState]:
    """Return the states of these schedules, but not of jobs with an unreadable definition. Reading such a job reports
    why."""
    if not rows:
        return []
    exceptions = await find_exceptions(tx, ((row.job_id, row.schedule_id) for row in rows))
    records = await tx.records.load(tx, [(row.job_id, row.revision, row.state) for row in rows])
    states = []
    for job_id, name, origin, watermark, next_at, last_end, revision, state, reason, until in rows:
        record, fates = records.get((job_id, revision)), exceptions.of(job_id, name)
        if record is not None:
            if state == "paused":
                record = replace(record, pause_reason=reason, paused_until=until)
            states.append(ScheduleState(record, name, origin, watermark, next_at, last_end, fates))
    return states


def _place_of(row: ScheduleRow) -> values.ScheduleCursor:
    return values.ScheduleCursor(row.next_at, row.job_id, row.schedule_id)  # type: ignore[arg-type]  # it is due


# ── next schedules, for people ───────────────────────────────────────────────────────────────────────────────

_BEHIND = "s.next_at <= $3 AND (s.next_at, s.job_id, s.schedule_id) > ($4, $5, $6)"

_IN_NAMESPACES = "($1[[::text[] ]] IS NULL OR j.namespace {in1})"

_OF_OWNER = "(CAST($2 AS text) IS NULL OR j.owner = $2)"

# These two read along the index. The first finds where one call stops, the second lists the schedules up to there.
FIND_STOP = _along_due(
    """
    SELECT s.next_at, s.job_id, s.schedule_id FROM schedules s <<INDEXED BY schedules_due>>
    WHERE <<{group}>> s.next_at <= $1 AND (s.next_at, s.job_id, s.schedule_id) > ($2, $3, $4)
    """,
    "LIMIT 1 OFFSET $5 - 1",
    values.ScheduleCursor,
)

LIST_NEXT = _along_due(
    f"""
    SELECT {SCHEDULE} FROM schedules s <<INDEXED BY schedules_due CROSS>> JOIN jobs j ON {job_of("s")}
    WHERE <<{{group}}>> {_BEHIND} AND <<+>>j.state = 'active' AND {_IN_NAMESPACES} AND {_OF_OWNER}
      AND (s.next_at, s.job_id, s.schedule_id) <= ($8[[::bigint]], $9[[::bigint]], $10[[::text]])
    """,  # noqa: S608
    "LIMIT $7",
    ScheduleRow,
)


def _by_jobs(index: str, found: str) -> tuple[Statement[Any], Statement[ScheduleRow]]:
    """Return two statements over an index of jobs: one counts the jobs that it finds, one lists their schedules."""
    jobs = f"jobs j <<INDEXED BY {index}>> WHERE {found}"
    return sql(f"SELECT count(*) FROM (SELECT 1 FROM {jobs} LIMIT $3) AS few"), sql(  # noqa: S608
        f"""
        WITH seen AS [[MATERIALIZED]] (SELECT j.id, {_JOB} FROM {jobs} AND j.state = 'active')
        SELECT {SCHEDULE} FROM seen j <<CROSS>> JOIN schedules s ON s.job_id = j.id
        WHERE {_BEHIND} ORDER BY s.next_at, s.job_id, s.schedule_id LIMIT $7
        """,  # noqa: S608
        ScheduleRow,
    )


COUNT_IN_NAMESPACES, LIST_IN_NAMESPACES = _by_jobs(
    "jobs_living", f"j.state <> 'deleted' AND j.namespace {{in1}} AND {_OF_OWNER}"
)

COUNT_OF_OWNER, LIST_OF_OWNER = _by_jobs("jobs_owner", f"j.owner = $2 AND {_IN_NAMESPACES}")


async def next_schedules(
    tx: Tx, *, until: Micros, limit: int, namespaces: Sequence[str] | None = None, owner: str | None = None,
    after: values.ScheduleCursor | None = None,
) -> values.NextSchedules:  # fmt: skip
    """Return the next schedules. If few jobs match, read by job, else along the index of due schedules."""
    place, reached = after or _BEGIN, None
    seen = (None if namespaces is None else sorted(namespaces), owner)
    given = (*seen, until, *place, limit + 1)
    count, list_few = (COUNT_IN_NAMESPACES, LIST_IN_NAMESPACES) if owner is None else (COUNT_OF_OWNER, LIST_OF_OWNER)
    if seen != (None, None) and await tx.value(count, *seen, SCANNED + 1) <= SCANNED:
        rows = await tx.rows(list_few, *given)
    else:
        reached = await tx.row(FIND_STOP, until, *place, SCANNED)
        rows = await tx.rows(LIST_NEXT, *given, *(reached or (until + 1, 0, "")))
    if len(rows) > limit:
        rows = rows[:limit]
        reached = _place_of(rows[-1])
    return values.NextSchedules(await schedule_states(tx, rows), reached)


# ── plan ─────────────────────────────────────────────────────────────────────────────────────────────────────

# Compare: both rows stay unchanged until the end of the transaction.
LOCK_SCHEDULES = sql(f"""
SELECT s.job_id, s.schedule_id, j.revision, j.state, s.watermark, s.next_at, s.delay IS NOT NULL
FROM {_WANTED}
<<CROSS>> JOIN schedules s ON s.job_id = wanted.job_id AND s.schedule_id = wanted.schedule_id
<<CROSS>> JOIN jobs j ON j.id = s.job_id
WHERE j.state <> 'deleted'
[[ORDER BY s.job_id, s.schedule_id FOR KEY SHARE OF j FOR UPDATE OF s]]
""")  # noqa: S608

# … and set.
MOVE_WATERMARK = sql(
    "UPDATE schedules SET watermark = $3, next_at = $4 WHERE job_id = $1 AND schedule_id = $2",
    arrays="bigint text bigint bigint",
)


async def plan(tx: Tx, term: Term, windows: Sequence[tuple[ScheduleState, Window]], *, now: Now = None) -> list[bool]:
    at = await tx.clock(now)
    await check_term(tx, term, at)
    schedules = [(seen.record.id, window.schedule_id) for seen, window in windows]
    found = {
        (job_id, name, revision): window_writes.SchedulePosition(watermark, bool(has_delay))
        for job_id, name, revision, state, watermark, _, has_delay in await _lock_schedules(tx, schedules)
        if state == "active"
    }
    stands = [found.get((seen.record.id, window.schedule_id, seen.record.revision)) for seen, window in windows]
    answers, taken = window_writes.choose_windows(windows, stands, await find_exceptions(tx, schedules))
    await _insert_windows(tx, taken, at)
    fault_points.point("plan.in_transaction")
    await _move_watermarks(tx, taken)
    return answers


async def _lock_schedules(tx: Tx, schedules: Sequence[tuple[int, str]]) -> list[Any]:
    return await tx.rows(LOCK_SCHEDULES, [job_id for job_id, _ in schedules], [name for _, name in schedules])


# A run ends at most an hour ahead of its slot, because no planner looks further ahead. The range also includes runs
# that ended before the clock was set back.
LIST_ENDED_SLOTS = sql("""
SELECT slot_at, target FROM history WHERE job_id = $1 AND ended_at > $2 AND trigger = $3 AND slot_at >= $4
""")


async def ended_slots(tx: Tx, job_id: int, window: Window) -> set[SlotTarget]:
    """Return the slots of a window whose runs have ended. An edit, or the end of a pause, plans such slots again. A
    fixed delay never plans a slot again."""
    if not window.slots or window.delay is not None:
        return set()
    first, trigger = min(slot.slot_at for slot in window.slots), slot_trigger(window.schedule_id)
    rows = await tx.rows(LIST_ENDED_SLOTS, job_id, first - moved_slots.KEPT, trigger, first)
    return {(slot_at, target) for slot_at, target in rows}


async def write_windows(tx: Tx, windows: Sequence[Planned], now: Micros) -> int:
    """Insert the windows' runs and skips, and move the watermarks. Return how many runs are new."""
    inserted = await _insert_windows(tx, windows, now)
    await _move_watermarks(tx, windows)
    return inserted


async def _insert_windows(tx: Tx, windows: Sequence[Planned], now: Micros) -> int:
    for job_id, window, _, exceptions, _ in windows:
        await record_skips(tx, job_id, window, now, exceptions)
        if exceptions:
            await _keep_exceptions(tx, job_id, window, exceptions, now)
    runs = window_writes.inserts_of(windows)  # in the order of instants: SQLite drains adjacent rows 3 times as fast
    if not runs:
        return 0
    tx.hints.append(Hint("runs", runs[0].due_at))
    return sum(run_id is not None for run_id in await insert_runs(tx, runs, now))


async def _move_watermarks(tx: Tx, windows: Sequence[Planned]) -> None:
    await _move(tx, {(job_id, window.schedule_id): (window.end, window.next_at) for job_id, window, *_ in windows})


async def _move(tx: Tx, schedules: Mapping[tuple[int, str], tuple[Micros, Micros | None]]) -> None:
    """Set the watermarks of these schedules, and their next slots."""
    if schedules:
        await tx.each(MOVE_WATERMARK, [(*schedule, *moved) for schedule, moved in schedules.items()])


async def _keep_exceptions(
    tx: Tx, job_id: int, window: Window, exceptions: Sequence[SlotException], now: Micros
) -> None:
    """Mark the exceptions that the window has recorded, and delete old ones."""
    recorded = recorded_in(window, exceptions)
    if recorded:
        await tx.do(SET_RECORDED, job_id, window.schedule_id, recorded)
    await tx.do(FORGET_EXCEPTIONS, job_id, window.schedule_id, forget_before(window.end, now))


# ── schedules whose zone data changed ────────────────────────────────────────────────────────────────────────

LIST_ZONED = sql(
    f"""
    SELECT {SCHEDULE} FROM schedules s <<INDEXED BY schedules_zoned>> CROSS JOIN jobs j
    WHERE j.id = s.job_id AND [[s.zoned]]<<s.zoned = 1>> AND (s.job_id, s.schedule_id) > ($1, $2)
      AND s.next_at IS NOT NULL AND s.bucket >= $3 AND s.bucket < $4 AND j.state <> 'deleted'
    ORDER BY s.job_id, s.schedule_id LIMIT $5
    """,  # noqa: S608 - constants
    ScheduleRow,
)

ZONES_DONE = sql("UPDATE terms SET zones = tzdata WHERE shard = $1")


async def zoned_schedules(tx: Tx, term: Term, *, after: tuple[int, str] = (0, ""), limit: int) -> list[ScheduleState]:
    buckets = await check_layout(tx, term.layout, term.shard)
    found: list[ScheduleState] = []
    while len(found) < limit:
        rows = await tx.rows(LIST_ZONED, *after, buckets.start, buckets.stop, limit)
        found += await schedule_states(tx, rows)
        if len(rows) < limit:
            break
        after = (rows[-1].job_id, rows[-1].schedule_id)
    return found[:limit]


async def replan(
    tx: Tx, term: Term, rows: Sequence[values.Replanned], *, done: bool = False, now: Now = None
) -> list[bool]:
    """Compare and set, as `plan` does, but for paused jobs, too."""
    await check_term(tx, term, await tx.clock(now), alone=done)
    found = {
        (job_id, name): (revision, watermark)
        for job_id, name, revision, _, watermark, next_at, _ in await _lock_schedules(tx, [row[:2] for row in rows])
        if next_at is not None
    }
    answers = [found.get((row.job_id, row.schedule_id)) == (row.revision, row.watermark) for row in rows]
    await _move(tx, {row[:2]: (row.watermark, row.next_at) for row in compress(rows, answers)})
    if done:
        await tx.do(ZONES_DONE, term.shard)
    return answers


# ── skips ────────────────────────────────────────────────────────────────────────────────────────────────────


FIND_LAST_SKIP = sql("""
SELECT id, first, last, count, reason FROM skips WHERE job_id = $1 AND schedule_id = $2 ORDER BY last DESC LIMIT 1
""")

DELETE_SKIP = sql("DELETE FROM skips WHERE id = $1")

INSERT_SKIP = sql("""
INSERT INTO skips (job_id, schedule_id, first, last, count, reason, recorded_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
""")

# Slots up to the newest one that was armed or skipped ahead are not planned again, even if the clock is set back.
HOLD_EDGE = sql(f"""
UPDATE schedules SET armed_to = {{greatest}}(coalesce(armed_to, 0), $1)
WHERE {try_schedule("job_id = $2 AND schedule_id = $3")}
""")  # noqa: S608 - constants


async def record_skips(
    tx: Tx, job_id: int, window: Window, now: Micros, exceptions: Sequence[SlotException] = ()
) -> None:
    """Record the window's skips. A range that directly follows the schedule's last range extends it."""
    name, edge = window.schedule_id, window.start
    fated = window_writes.slots_with_fates(window, exceptions)
    for skip in window.skips:
        last_id, *last = await tx.row(FIND_LAST_SKIP, job_id, name) or (None,)
        longer = window_writes.lengthened(skip, SkipRange(*last) if last else None, edge, fated)
        # The longer range replaces the last entry and becomes the newest, unless the last entry was pruned and counted.
        entry = longer if longer is not None and await tx.do(DELETE_SKIP, last_id) else skip
        await tx.do(INSERT_SKIP, job_id, name, entry.first, entry.last, entry.count, entry.reason, now)
        edge = skip.last
    newest = window_writes.skipped_ahead(window, now)
    if newest is not None:
        await tx.do(HOLD_EDGE, newest, job_id, name)
