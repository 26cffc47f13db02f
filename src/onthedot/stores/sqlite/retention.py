"""Forgetting what is old, in SQLite: always a few hundred rows, found through an index, in one transaction."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.retention import Crowded, Cut, DailyCount, Mark, Pruned, PrunedNodes, day_of
from onthedot.run import RunState, is_slot, schedule_of
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.plan import HOLD_EDGE
from onthedot.stores.sqlite.tables import Tables
from onthedot.stores.sqlite.triggers import with_slots

# Finished runs in the order in which they ended, as far as one call looks. The last column: the run's slot is settled
# for good, because it lies in the past and its schedule has gone on beyond it, or is gone.
_ENDED = """
SELECT h.ended_at, h.id, h.job_id, h.state, h.trigger, h.slot_at, h.attempts,
       {is_no_slot} OR h.slot_at <= min(:now, coalesce(
           (SELECT s.watermark FROM schedules s WHERE s.job_id = h.job_id AND s.schedule_id = {schedule_of}),
           :now))
FROM history h INDEXED BY {index}
WHERE {wanted}
ORDER BY h.ended_at, h.id LIMIT :limit
"""

# In two steps, so that thousands of runs that ended in the same instant are not read again by every call.
_SAME_INSTANT = "h.ended_at = :after AND h.id > :after_id AND h.id <= :last_id"
_LATER = "h.ended_at > :after AND h.ended_at <= :until AND NOT (+h.ended_at = :until AND h.id > :until_id)"

LIST_ENDED = tuple(with_slots(_ENDED, index="history_ended", wanted=wanted) for wanted in (_SAME_INSTANT, _LATER))

LIST_ENDED_OF_JOB = tuple(
    with_slots(_ENDED, index="history_job_ended", wanted=f"h.job_id = :job_id AND {wanted}")
    for wanted in (_SAME_INSTANT, _LATER)
)

DELETE_RUN = "DELETE FROM history WHERE id = ?"

DELETE_ATTEMPTS = "DELETE FROM attempts WHERE run_id = ?"

DELETE_CHECKPOINT = "DELETE FROM checkpoints WHERE run_id = ?"

DELETE_NOTES = "DELETE FROM notes WHERE run_id = ?"

DELETE_KEY = "DELETE FROM submit_keys WHERE run_id = ?"

ADD_TO_DAY = """
INSERT INTO daily_counts (job_id, day, state, count) VALUES (?, ?, ?, ?)
ON CONFLICT (job_id, day, state) DO UPDATE SET count = count + excluded.count
"""

FIND_NEXT_JOB = "SELECT min(job_id) FROM history INDEXED BY history_job_ended WHERE job_id > ?"

COUNT_UP_TO = """
SELECT count(*) FROM (SELECT 1 FROM history INDEXED BY history_job_ended WHERE job_id = ? LIMIT ?)
"""

FIND_NEWEST_BEYOND = """
SELECT ended_at, id FROM history INDEXED BY history_job_ended
WHERE job_id = ? ORDER BY ended_at DESC, id DESC LIMIT 1 OFFSET ?
"""

# The next three are read from the oldest on, and no further than needed: what is numbered later was written later.
LIST_OLDEST_SKIPS = """
SELECT s.id, s.job_id, s.count, s.recorded_at,
       s.last <= coalesce((SELECT p.watermark FROM schedules p
                           WHERE p.job_id = s.job_id AND p.schedule_id = s.schedule_id), s.last)
FROM skips s ORDER BY s.id
"""

LIST_OLDEST_NODES = """
SELECT n.number, n.registered_at,
       n.lease_until <= :until AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.incarnation = n.incarnation)
FROM nodes n ORDER BY n.number
"""

LIST_OLDEST_TERMS = """
SELECT h.number, h.began_at FROM term_history h
WHERE h.shard = :shard AND h.number < (SELECT t.number FROM terms t WHERE t.shard = :shard) ORDER BY h.number
"""

LIST_SHARDS = "SELECT shard FROM terms"

DELETE_SKIP = "DELETE FROM skips WHERE id = ?"

DELETE_NODE = "DELETE FROM nodes WHERE number = ?"

DELETE_TERM = "DELETE FROM term_history WHERE shard = ? AND number = ?"

LIST_DAILY_COUNTS = """
SELECT j.name, c.day, c.state, sum(c.count)
FROM daily_counts c JOIN jobs j ON j.id = c.job_id
WHERE j.namespace = :namespace AND (:job IS NULL OR j.name = :job)
GROUP BY j.name, c.day, c.state ORDER BY c.day DESC, j.name, c.state LIMIT :limit
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
    settled: int


class Retention(Tables):
    """See `RetentionSlice`."""

    async def prune_runs(
        self, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Micros | None = None
    ) -> Pruned:
        def work(tx: Transaction) -> Pruned:
            found = _list_ended(tx.db, cut, after, limit, self.read_clock(now))
            going = [run for run in found if run.settled and run.state in cut.states]
            _forget(tx.db, going)
            passed = Mark(found[-1].ended_at, found[-1].id) if found else after
            return Pruned(len(going), passed, more=len(found) == limit)

        return await self.write(work)

    async def find_crowded(self, keep: int, *, after: int = 0, limit: int = 100_000) -> Crowded:
        def work(tx: Transaction) -> Crowded:
            marks: list[tuple[int, Mark]] = []
            job_id, looked_at = after, 0
            while looked_at < limit:
                [following] = tx.db.execute(FIND_NEXT_JOB, (job_id,)).fetchone()
                if following is None:
                    return Crowded(marks, None)
                job_id = following
                [count] = tx.db.execute(COUNT_UP_TO, (job_id, keep + 1)).fetchone()
                looked_at += count
                if count > keep:
                    marks.append((job_id, Mark(*tx.db.execute(FIND_NEWEST_BEYOND, (job_id, keep)).fetchone())))
            return Crowded(marks, job_id)

        return await self.read(work)

    async def prune_skips(self, until: Micros, *, limit: int = 500) -> int:
        return await self.write(lambda tx: _prune_skips(tx.db, until, limit))

    async def prune_nodes(self, until: Micros, *, limit: int = 500) -> PrunedNodes:
        return await self.write(
            lambda tx: PrunedNodes(_prune_nodes(tx.db, until, limit), _prune_terms(tx.db, until, limit))
        )

    async def list_daily_counts(
        self, *, job: str | None = None, namespace: str = "default", limit: int = 1000
    ) -> list[DailyCount]:
        values = {"job": job, "namespace": namespace, "limit": limit}
        rows = await self.read(lambda tx: tx.db.execute(LIST_DAILY_COUNTS, values).fetchall())
        return [DailyCount(name, day, RunState(state), count) for name, day, state, count in rows]


def _list_ended(db: sqlite3.Connection, cut: Cut, after: Mark | None, limit: int, now: Micros) -> list[Ended]:
    """The next finished runs up to the cut, in whatever state."""
    until, until_id = cut.until
    after_at, after_id = after or (-(2**63), 0)
    values = {
        "job_id": cut.job_id, "now": now, "limit": limit, "after": after_at, "after_id": after_id, "until": until,
        "until_id": until_id, "last_id": until_id if after_at == until else 2**63 - 1,
    }  # fmt: skip
    same_instant, later = LIST_ENDED if cut.job_id is None else LIST_ENDED_OF_JOB
    found = db.execute(same_instant, values).fetchall() if after_at <= until else []
    found += db.execute(later, values | {"limit": limit - len(found)}).fetchall()
    return [Ended(*row) for row in found]


def _forget(db: sqlite3.Connection, runs: Sequence[Ended]) -> None:
    """Remove runs with their attempts, what those left and their keys, and count them."""
    ids = [(run.id,) for run in runs]
    db.executemany(DELETE_ATTEMPTS, ids)
    db.executemany(DELETE_CHECKPOINT, ids)
    db.executemany(DELETE_NOTES, ids)
    db.executemany(DELETE_KEY, [(run.id,) for run in runs if not is_slot(run.trigger)])
    db.executemany(DELETE_RUN, ids)
    _add_to_days(db, Counter((run.job_id, day_of(run.ended_at), run.state) for run in runs))
    armed: dict[tuple[int, str], Micros] = {}
    for run in runs:
        if run.attempts and is_slot(run.trigger):
            key = (run.job_id, schedule_of(run.trigger))
            armed[key] = max(armed.get(key, run.slot_at), run.slot_at)
    db.executemany(HOLD_EDGE, [(slot_at, *key) for key, slot_at in armed.items()])


def _add_to_days(db: sqlite3.Connection, counts: Counter[tuple[int, int, str]]) -> None:
    db.executemany(ADD_TO_DAY, [(*key, count) for key, count in counts.items()])


def _prune_skips(db: sqlite3.Connection, until: Micros, limit: int) -> int:
    going: list[tuple[int]] = []
    counts: Counter[tuple[int, int, str]] = Counter()
    for skip_id, job_id, count, recorded_at, settled in db.execute(LIST_OLDEST_SKIPS):
        if recorded_at > until or len(going) == limit:
            break
        if settled:
            going.append((skip_id,))
            counts[job_id, day_of(recorded_at), RunState.SKIPPED.value] += count
    db.executemany(DELETE_SKIP, going)
    _add_to_days(db, counts)
    return len(going)


def _prune_nodes(db: sqlite3.Connection, until: Micros, limit: int) -> int:
    going: list[tuple[int]] = []
    for number, registered_at, unused in db.execute(LIST_OLDEST_NODES, {"until": until}):
        if registered_at > until or len(going) == limit:
            break
        if unused:
            going.append((number,))
    db.executemany(DELETE_NODE, going)
    return len(going)


def _prune_terms(db: sqlite3.Connection, until: Micros, limit: int) -> int:
    going: list[tuple[int, int]] = []
    for (shard,) in db.execute(LIST_SHARDS).fetchall():
        for number, began_at in db.execute(LIST_OLDEST_TERMS, {"shard": shard}):
            if began_at > until or len(going) == limit:
                break
            going.append((shard, number))
    db.executemany(DELETE_TERM, going)
    return len(going)
