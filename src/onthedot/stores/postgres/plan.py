"""From schedules to runs, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot import faults
from onthedot.clock import Micros
from onthedot.errors import StoreUnusable
from onthedot.stores.base import (
    Due,
    FateAhead,
    Hint,
    NextSchedules,
    ScheduleCursor,
    ScheduleState,
    SkipRange,
    Term,
    Window,
)
from onthedot.stores.finding import FIRST, SCANNED
from onthedot.stores.planned import (
    Planned,
    Stand,
    choose_windows,
    inserts_of,
    lengthened,
    skipped_ahead,
    slots_with_fates,
)
from onthedot.stores.postgres.exceptions import Ahead, keep_exceptions
from onthedot.stores.postgres.inserting import insert_runs
from onthedot.stores.postgres.nodes import check_layout, check_term
from onthedot.stores.postgres.tables import Tables
from onthedot.stores.postgres.transaction import Row, Transaction

# The due schedules of active jobs in some buckets, earliest first: the index holds them in this very order. In pieces,
# each behind the last row of the one before, because some may turn out to be unreadable.
LIST_DUE = """
SELECT s.job_id, s.schedule_id, s.origin, s.watermark, s.next_at, s.last_end, j.revision, j.state
FROM schedules s JOIN jobs j ON j.id = s.job_id
WHERE s.next_at <= $1 AND s.bucket >= $2 AND s.bucket < $3 AND j.state = 'active'
  AND (s.next_at, s.job_id, s.schedule_id) > ($4, $5, $6)
ORDER BY s.next_at, s.job_id, s.schedule_id LIMIT $7
"""

_SEEN = "($5::text[] IS NULL OR j.namespace = ANY($5)) AND ($6::text IS NULL OR j.owner = $6)"

# The same for people, up to a place, and only what they see.
LIST_NEXT = f"""
SELECT s.job_id, s.schedule_id, s.origin, s.watermark, s.next_at, s.last_end, j.revision, j.state
FROM schedules s JOIN jobs j ON j.id = s.job_id
WHERE s.next_at <= $1 AND (s.next_at, s.job_id, s.schedule_id) > ($2, $3, $4)
  AND (s.next_at, s.job_id, s.schedule_id) <= ($8::bigint, $9::bigint, $10::text) AND j.state = 'active' AND {_SEEN}
ORDER BY s.next_at, s.job_id, s.schedule_id LIMIT $7
"""  # noqa: S608

STOP_NEXT = """
SELECT s.next_at, s.job_id, s.schedule_id FROM schedules s
WHERE s.next_at <= $1 AND (s.next_at, s.job_id, s.schedule_id) > ($2, $3, $4)
ORDER BY s.next_at, s.job_id, s.schedule_id LIMIT 1 OFFSET $5 - 1
"""

# Of few jobs: all that they have, sorted.
COUNT_SEEN_JOBS = """
SELECT count(*) FROM (
    SELECT 1 FROM jobs j
    WHERE j.state <> 'deleted' AND ($1::text[] IS NULL OR j.namespace = ANY($1)) AND ($2::text IS NULL OR j.owner = $2)
    LIMIT $3) AS few
"""

LIST_NEXT_OF_FEW = f"""
WITH seen AS MATERIALIZED (SELECT j.id, j.revision, j.state FROM jobs j WHERE j.state = 'active' AND {_SEEN})
SELECT s.job_id, s.schedule_id, s.origin, s.watermark, s.next_at, s.last_end, j.revision, j.state
FROM seen j JOIN schedules s ON s.job_id = j.id
WHERE s.next_at <= $1 AND (s.next_at, s.job_id, s.schedule_id) > ($2, $3, $4)
ORDER BY s.next_at, s.job_id, s.schedule_id LIMIT $7
"""  # noqa: S608

# Compare: where do these schedules stand, and are their jobs active and at these revisions? Both stay so until the end
# of the transaction.
LOCK_PLANNABLE = """
SELECT s.job_id, s.schedule_id, s.watermark, s.delay IS NOT NULL, j.revision
FROM unnest($1::bigint[], $2::text[]) wanted (job_id, schedule_id)
JOIN schedules s ON s.job_id = wanted.job_id AND s.schedule_id = wanted.schedule_id
JOIN jobs j ON j.id = s.job_id
WHERE j.state = 'active'
ORDER BY s.job_id, s.schedule_id
FOR KEY SHARE OF j FOR UPDATE OF s
"""

# … and set.
MOVE_WATERMARKS = """
UPDATE schedules s SET watermark = moved.watermark, next_at = moved.next_at
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) moved (job_id, schedule_id, watermark, next_at)
WHERE s.job_id = moved.job_id AND s.schedule_id = moved.schedule_id
"""

FIND_LAST_SKIP = """
SELECT id, first, last, count, reason FROM skips
WHERE job_id = $1 AND schedule_id = $2 ORDER BY last DESC LIMIT 1
"""

DELETE_SKIP = "DELETE FROM skips WHERE id = $1"

INSERT_SKIP = """
INSERT INTO skips (job_id, schedule_id, first, last, count, reason, recorded_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
"""

# Nothing up to this slot is planned anew: it was armed, or skipped ahead (see FIND_EDGE), also if the clock is set back
HOLD_EDGE = """
UPDATE schedules SET armed_to = greatest(coalesce(armed_to, 0), $1) WHERE job_id = $2 AND schedule_id = $3
"""


class Plan(Tables):
    """See `PlanSlice`."""

    async def due_schedules(self, *, until: Micros, limit: int, shard: int = 0, layout: int | None = None) -> Due:
        async def work(tx: Transaction) -> Due:
            return await self._due(tx, await check_layout(tx, layout, shard), until, limit)

        return await self.read(work)

    async def next_schedules(
        self,
        *,
        until: Micros,
        limit: int,
        namespaces: Sequence[str] | None = None,
        owner: str | None = None,
        after: ScheduleCursor | None = None,
    ) -> NextSchedules:
        place = after or ScheduleCursor(FIRST, 0, "")
        seen = (None if namespaces is None else sorted(namespaces), owner)

        async def work(tx: Transaction) -> NextSchedules:
            values, reached = (until, *place, *seen, limit + 1), None
            if seen != (None, None) and await tx.value(COUNT_SEEN_JOBS, *seen, SCANNED + 1) <= SCANNED:
                rows = await tx.rows(LIST_NEXT_OF_FEW, *values)
            else:
                reached = await tx.row(STOP_NEXT, until, *place, SCANNED)
                rows = await tx.rows(LIST_NEXT, *values, *(reached or (until + 1, 0, "")))
            if len(rows) > limit:
                rows = rows[:limit]
                reached = (rows[-1][4], rows[-1][0], rows[-1][1])
            states = await self.schedule_states(tx, rows)
            return NextSchedules(states, None if reached is None else ScheduleCursor(*reached))

        return await self.show(work)

    async def _due(self, tx: Transaction, buckets: range, until: Micros, limit: int) -> Due:
        due: list[ScheduleState] = []
        place: tuple[int, int, str] = (-(2**63), 0, "")
        while True:
            rows = await tx.rows(LIST_DUE, until, buckets.start, buckets.stop, *place, limit + 1)
            due += await self.schedule_states(tx, rows)
            if len(due) > limit or len(rows) <= limit:
                return Due(due[:limit], more=len(due) > limit)
            place = (rows[-1][4], rows[-1][0], rows[-1][1])

    async def schedule_states(self, tx: Transaction, rows: Sequence[Row]) -> list[ScheduleState]:
        """What these rows tell, but for jobs whose definition cannot be read: reading such a job tells why."""
        if not rows:
            return []
        ahead = await Ahead.of_jobs(tx, (row[0] for row in rows))
        await self.records.load(tx, [(row[0], row[6], row[7]) for row in rows])
        states = []
        for job_id, schedule_id, origin, watermark, next_at, last_end, revision, _ in rows:
            try:
                record = self.records.find(job_id, revision)
            except StoreUnusable:
                continue
            fates = ahead.of(job_id, schedule_id)
            states.append(ScheduleState(record, schedule_id, origin, watermark, next_at, last_end, fates))
        return states

    async def plan(
        self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], *, now: Micros | None = None
    ) -> list[bool]:
        async def work(tx: Transaction) -> list[bool]:
            at = await tx.clock(now)
            await check_term(tx, term, at)
            keys = [(seen.record.id, window.schedule_id) for seen, window in windows]
            rows = await tx.rows(LOCK_PLANNABLE, [key[0] for key in keys], [key[1] for key in keys])
            found = {(job_id, schedule_id, revision): Stand(*stand) for job_id, schedule_id, *stand, revision in rows}
            stands = [found.get((*key, seen.record.revision)) for key, (seen, _) in zip(keys, windows, strict=True)]
            return await _set(tx, windows, stands, at)

        return await self.write(work)


async def _set(
    tx: Transaction,
    windows: Sequence[tuple[ScheduleState, Window]],
    stands: Sequence[Stand | None],
    now: Micros,
) -> list[bool]:
    """Write the windows that continue their schedule's watermark; which those were."""
    ahead = await Ahead.of_jobs(tx, (seen.record.id for seen, _ in windows))
    answers, taken = choose_windows(windows, stands, ahead)
    await _insert_windows(tx, taken, now)
    faults.point("plan.in_transaction")
    await _move_watermarks(tx, taken)
    return answers


async def write_windows(tx: Transaction, windows: Sequence[Planned], now: Micros) -> int:
    """Insert the windows' runs and skips and move the watermarks; how many runs are new."""
    inserted = await _insert_windows(tx, windows, now)
    await _move_watermarks(tx, windows)
    return inserted


async def _insert_windows(tx: Transaction, windows: Sequence[Planned], now: Micros) -> int:
    runs = inserts_of(windows)
    for job_id, window, _, exceptions in windows:
        await record_skips(tx, job_id, window, now, exceptions)
        if exceptions:
            await keep_exceptions(tx, job_id, window, exceptions, now)
    if not runs:
        return 0
    tx.hints.append(Hint("runs", runs[0].due_at))
    return sum(run_id is not None for run_id in await insert_runs(tx, runs, now))


async def _move_watermarks(tx: Transaction, windows: Sequence[Planned]) -> None:
    last = {(job_id, window.schedule_id): window for job_id, window, *_ in windows}
    if last:
        await tx.do(
            MOVE_WATERMARKS,
            [job_id for job_id, _ in last],
            [schedule_id for _, schedule_id in last],
            [window.end for window in last.values()],
            [window.next_at for window in last.values()],
        )


async def record_skips(
    tx: Transaction, job_id: int, window: Window, now: Micros, exceptions: Sequence[FateAhead] = ()
) -> None:
    """Record ranges; one that continues the schedule's last range, with nothing between, makes it longer."""
    edge = window.start
    fated = slots_with_fates(window, exceptions)
    for skip in window.skips:
        last_id, *last = await tx.row(FIND_LAST_SKIP, job_id, window.schedule_id) or (None,)
        longer = lengthened(skip, SkipRange(*last) if last else None, edge, fated)
        if longer is not None:
            await tx.do(DELETE_SKIP, last_id)  # written anew: the longer range is the newest entry
        entry = longer or skip
        await tx.do(INSERT_SKIP, job_id, window.schedule_id, entry.first, entry.last, entry.count, entry.reason, now)
        edge = skip.last
    newest = skipped_ahead(window, now)
    if newest is not None:
        await tx.do(HOLD_EDGE, newest, job_id, window.schedule_id)
