"""Forgetting what is old, in PostgreSQL: a few hundred rows in one transaction; and partitions that are empty then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.errors import StoreUnavailable
from onthedot.retention import Crowded, Cut, DailyCount, Mark, Pruned, PrunedNodes, day_of
from onthedot.run import RunState, is_slot, schedule_of
from onthedot.stores.postgres.partitions import drop_empty, make_room
from onthedot.stores.postgres.plan import HOLD_EDGE
from onthedot.stores.postgres.tables import Tables
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.postgres.triggers import with_slots

# Finished runs in the order in which they ended, as far as one call looks; others who prune wait. The last column: the
# run's slot is settled for good, because it lies in the past and its schedule has gone on beyond it, or is gone.
_ENDED = """
SELECT h.ended_at, h.id, h.job_id, h.state, h.trigger, h.slot_at, h.attempts,
       h.{is_no_slot} OR h.slot_at <= least($1::bigint, coalesce(
           (SELECT s.watermark FROM schedules s WHERE s.job_id = h.job_id AND s.schedule_id = {schedule_of}), $1))
FROM history h
WHERE (h.ended_at, h.id) > ($2, $3) AND (h.ended_at, h.id) <= ($4, $5) {wanted}
ORDER BY h.ended_at, h.id LIMIT $6
"""

LIST_ENDED = with_slots(_ENDED, wanted="")

LIST_ENDED_OF_JOB = with_slots(_ENDED, wanted="AND h.job_id = $7")

PRUNING = "prune"
"""The key that whoever forgets holds: one at a time, so that nothing is counted twice."""

# With a run goes all that is known of it.
_DELETE_OF_RUNS = (
    "DELETE FROM attempts WHERE run_id = ANY($1)",
    "DELETE FROM checkpoints WHERE run_id = ANY($1)",
    "DELETE FROM notes WHERE run_id = ANY($1)",
    "DELETE FROM submit_keys WHERE run_id = ANY($1)",
)

DELETE_RUNS = "DELETE FROM history WHERE id = ANY($1) AND ended_at = ANY($2)"

ADD_TO_DAYS = """
INSERT INTO daily_counts (job_id, day, state, count)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::bigint[])
ON CONFLICT (job_id, day, state) DO UPDATE SET count = daily_counts.count + excluded.count
"""

FIND_NEXT_JOB = "SELECT min(job_id) FROM history WHERE job_id > $1"

COUNT_UP_TO = "SELECT count(*) FROM (SELECT 1 FROM history WHERE job_id = $1 LIMIT $2) found"

FIND_NEWEST_BEYOND = """
SELECT ended_at, id FROM history WHERE job_id = $1 ORDER BY ended_at DESC, id DESC LIMIT 1 OFFSET $2
"""

# The next three are read from the oldest on, and no further than needed: what is numbered later was written later.
LIST_OLDEST_SKIPS = """
SELECT s.id, s.job_id, s.count, s.recorded_at
FROM skips s
WHERE s.recorded_at <= $1
  AND s.last <= coalesce((SELECT p.watermark FROM schedules p
                          WHERE p.job_id = s.job_id AND p.schedule_id = s.schedule_id), s.last)
ORDER BY s.id LIMIT $2
"""

LIST_OLDEST_NODES = """
SELECT n.number FROM nodes n
WHERE n.registered_at <= $1 AND n.lease_until <= $1
  AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.incarnation = n.incarnation)
ORDER BY n.number LIMIT $2 FOR UPDATE SKIP LOCKED
"""

DELETE_SKIPS = "DELETE FROM skips WHERE id = ANY($1)"

DELETE_NODES = "DELETE FROM nodes WHERE number = ANY($1)"

DELETE_TERMS = """
DELETE FROM term_history WHERE (shard, number) IN (
    SELECT h.shard, h.number FROM term_history h JOIN terms t ON t.shard = h.shard AND h.number < t.number
    WHERE h.began_at <= $1 ORDER BY h.shard, h.number LIMIT $2)
"""

LIST_DAILY_COUNTS = """
SELECT j.name, c.day, c.state, sum(c.count)::bigint
FROM daily_counts c JOIN jobs j ON j.id = c.job_id
WHERE j.namespace = $1 AND ($2::text IS NULL OR j.name = $2)
GROUP BY j.name, c.day, c.state ORDER BY c.day DESC, j.name, c.state LIMIT $3
"""


class Ended(NamedTuple):
    """A finished run, as far as forgetting it asks for."""

    ended_at: Micros
    id: int
    job_id: int
    state: str
    trigger: str
    slot_at: Micros
    attempts: int
    settled: bool


class Retention(Tables):
    """See `RetentionSlice`."""

    async def prune_runs(
        self, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Micros | None = None
    ) -> Pruned:
        async def work(tx: Transaction) -> Pruned:
            at = await tx.clock(now)
            await tx.lock_keys([PRUNING])
            await make_room(tx, [at])  # ahead of the next month, though nothing may end before it
            found = await _list_ended(tx, cut, after, limit, at)
            going = [run for run in found if run.settled and run.state in cut.states]
            await _forget(tx, going)
            passed = Mark(found[-1].ended_at, found[-1].id) if found else after
            return Pruned(len(going), passed, more=len(found) == limit)

        pruned = await self.write(work, limit=self.limits.long)
        if not pruned.more and cut.job_id is None:
            with suppress(StoreUnavailable):  # somebody reads it: next time
                dropped = await self.write(lambda tx: drop_empty(tx, cut.until[0]), limit=self.limits.long)
                self.months = frozenset() if dropped else self.months
        return pruned

    async def find_crowded(self, keep: int, *, after: int = 0, limit: int = 100_000) -> Crowded:
        async def work(tx: Transaction) -> Crowded:
            marks: list[tuple[int, Mark]] = []
            job_id, looked_at = after, 0
            while looked_at < limit:
                following = await tx.value(FIND_NEXT_JOB, job_id)
                if following is None:
                    return Crowded(marks, None)
                job_id = following
                count = await tx.value(COUNT_UP_TO, job_id, keep + 1)
                looked_at += count
                if count > keep:
                    marks.append((job_id, Mark(*await tx.row(FIND_NEWEST_BEYOND, job_id, keep))))
            return Crowded(marks, job_id)

        return await self.show(work)

    async def prune_skips(self, until: Micros, *, limit: int = 500) -> int:
        async def work(tx: Transaction) -> int:
            await tx.lock_keys([PRUNING])
            rows = await tx.rows(LIST_OLDEST_SKIPS, until, limit)
            gone = await tx.do(DELETE_SKIPS, [row[0] for row in rows])
            counts: Counter[tuple[int, int, str]] = Counter()
            for _, job_id, count, recorded_at in rows:
                counts[job_id, day_of(recorded_at), RunState.SKIPPED.value] += count
            await _add_to_days(tx, counts)
            return gone

        return await self.write(work, limit=self.limits.long)

    async def prune_nodes(self, until: Micros, *, limit: int = 500) -> PrunedNodes:
        async def work(tx: Transaction) -> PrunedNodes:
            going = [number for (number,) in await tx.rows(LIST_OLDEST_NODES, until, limit)]
            return PrunedNodes(await tx.do(DELETE_NODES, going), await tx.do(DELETE_TERMS, until, limit))

        return await self.write(work, limit=self.limits.long)

    async def list_daily_counts(
        self, *, job: str | None = None, namespace: str = "default", limit: int = 1000
    ) -> list[DailyCount]:
        rows = await self.show(lambda tx: tx.rows(LIST_DAILY_COUNTS, namespace, job, limit))
        return [DailyCount(name, day, RunState(state), count) for name, day, state, count in rows]


async def _list_ended(tx: Transaction, cut: Cut, after: Mark | None, limit: int, now: Micros) -> list[Ended]:
    """The next finished runs up to the cut, in whatever state."""
    values = (now, *(after or (-(2**63), 0)), *cut.until, limit)
    if cut.job_id is None:
        return [Ended(*row) for row in await tx.rows(LIST_ENDED, *values)]
    return [Ended(*row) for row in await tx.rows(LIST_ENDED_OF_JOB, *values, cut.job_id)]


async def _forget(tx: Transaction, runs: Sequence[Ended]) -> None:
    """Remove runs with their attempts, what those left and their keys, and count them."""
    if not runs:
        return
    ids = [run.id for run in runs]
    for statement in _DELETE_OF_RUNS:
        await tx.do(statement, ids)
    await tx.do(DELETE_RUNS, ids, [run.ended_at for run in runs])
    await _add_to_days(tx, Counter((run.job_id, day_of(run.ended_at), run.state) for run in runs))
    armed: dict[tuple[int, str], Micros] = {}
    for run in runs:
        if run.attempts and is_slot(run.trigger):
            key = (run.job_id, schedule_of(run.trigger))
            armed[key] = max(armed.get(key, run.slot_at), run.slot_at)
    await tx.each(HOLD_EDGE, [(slot_at, *key) for key, slot_at in sorted(armed.items())])


async def _add_to_days(tx: Transaction, counts: Counter[tuple[int, int, str]]) -> None:
    if counts:
        rows = sorted(counts.items())
        columns = zip(*((*key, count) for key, count in rows), strict=True)
        await tx.do(ADD_TO_DAYS, *(list(column) for column in columns))
