"""Removes old finished runs, skips, nodes and terms, and skips runs whose expiry has passed.

A call of `prune` removes some hundred rows. In the same transaction it adds the removed rows to the daily counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from onthedot import fault_points
from onthedot.clock import Micros
from onthedot.model.retention import Crowded, Cut, DailyCount, Mark, Pruned, PrunedNodes, day_of
from onthedot.model.run import SLOT_PREFIX, RunRecord, RunState, is_slot, schedule_of
from onthedot.stores.sql.finish import end_waiting
from onthedot.stores.sql.history import finished_runs
from onthedot.stores.sql.plan import HOLD_EDGE
from onthedot.stores.sql.port import Now, Statement, Tx, sql

PRUNING = "prune"
"""The key that a transaction holds while it prunes, so that nothing is counted twice."""

_FIRST = Mark(-(2**63), 0)
_LAST_ID = 2**63 - 1


class Ended(NamedTuple):
    """A finished run. `watermark` is its schedule's watermark, if it has a schedule."""

    ended_at: Micros
    id: int
    job_id: int
    state: str
    trigger: str
    slot_at: Micros
    attempts: int
    watermark: Micros | None


# ── finished runs ────────────────────────────────────────────────────────────────────────────────────────────────


def _list_ended(index: str, wanted: str) -> Statement[Ended]:
    """Return a statement that lists finished runs in the order of their ends."""
    text = f"""
    SELECT h.ended_at, h.id, h.job_id, h.state, h.trigger, h.slot_at, h.attempts,
           (SELECT s.watermark FROM schedules s
            WHERE s.job_id = h.job_id AND s.schedule_id = substr(h.trigger, {len(SLOT_PREFIX) + 1}))
    FROM history h <<INDEXED BY {index}>> WHERE {wanted} ORDER BY h.ended_at, h.id LIMIT $4
    """  # noqa: S608 - constants of this file
    return sql(text, Ended)


# There are two statements, so that no call reads thousands of runs that ended in the same instant again.
_SAME_INSTANT = "h.ended_at = $1 AND h.id > $2 AND h.id <= $3"
_LATER = "h.ended_at > $1 AND h.ended_at <= $2 AND NOT (+h.ended_at = $2 AND h.id > $3)"

LIST_ENDED = [_list_ended("history_ended", wanted) for wanted in (_SAME_INSTANT, _LATER)]
LIST_ENDED_OF_JOB = [_list_ended("history_job_ended", f"{it} AND h.job_id = $5") for it in (_SAME_INSTANT, _LATER)]

# Locks in the same order as `settle_dead`.
DELETE_RUNS = sql("""
DELETE FROM history
WHERE [[id = ANY(ARRAY(SELECT id FROM history WHERE]] id {in1} AND ended_at {in2}
      [[ORDER BY id FOR UPDATE)) AND ended_at = ANY($2)]]
""")

DELETE_ATTEMPTS, DELETE_CHECKPOINTS, DELETE_NOTES, DELETE_KEYS = (
    sql(f"DELETE FROM {table} WHERE run_id {{in1}}")  # noqa: S608
    for table in ("attempts", "checkpoints", "notes", "submit_keys")
)

ADD_TO_DAYS = sql(
    """
    INSERT INTO daily_counts (job_id, day, state, count) VALUES ($1, $2, $3, $4)
    ON CONFLICT (job_id, day, state) DO UPDATE SET count = daily_counts.count + excluded.count
    """,
    arrays="bigint integer text bigint",
)

FIND_NEXT_JOB = sql("SELECT min(job_id) FROM history <<INDEXED BY history_job_ended>> WHERE job_id > $1")

COUNT_UP_TO = sql("""
SELECT count(*) FROM (SELECT 1 FROM history <<INDEXED BY history_job_ended>> WHERE job_id = $1 LIMIT $2) found
""")

FIND_NEWEST_BEYOND = sql("""
SELECT ended_at, id FROM history <<INDEXED BY history_job_ended>>
WHERE job_id = $1 ORDER BY ended_at DESC, id DESC LIMIT 1 OFFSET $2
""")

LIST_DAILY_COUNTS = sql("""
SELECT j.name, c.day, c.state, sum(c.count)[[::bigint]]
FROM daily_counts c JOIN jobs j ON j.id = c.job_id
WHERE j.namespace = $1 AND ($2[[::text]] IS NULL OR j.name = $2)
GROUP BY j.name, c.day, c.state ORDER BY c.day DESC, j.name, c.state LIMIT $3
""")


async def prune_runs(tx: Tx, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Now = None) -> Pruned:
    at = await tx.clock(now)
    await tx.make_room([at])  # creates next month's in time, even if no run ends
    await tx.lock_keys([PRUNING])
    found = await _ended_runs(tx, cut, after or _FIRST, limit)
    going = [run for run in found if run.state in cut.states and _is_settled(run, at)]
    await _remove(tx, going)
    passed = Mark(found[-1].ended_at, found[-1].id) if found else after
    return Pruned(len(going), passed, more=len(found) == limit)


async def _ended_runs(tx: Tx, cut: Cut, after: Mark, limit: int) -> list[Ended]:
    """Return the next finished runs up to the cut, in any state."""
    same_instant, later = LIST_ENDED if cut.job_id is None else LIST_ENDED_OF_JOB
    of_job = () if cut.job_id is None else (cut.job_id,)
    until, until_id = cut.until
    found: list[Ended] = []
    if _FIRST.ended_at < after.ended_at <= until:
        last_id = until_id if after.ended_at == until else _LAST_ID
        found = await tx.rows(same_instant, after.ended_at, after.run_id, last_id, limit, *of_job)
    if len(found) < limit:
        found += await tx.rows(later, after.ended_at, until, until_id, limit - len(found), *of_job)
    return found


def _is_settled(run: Ended, now: Micros) -> bool:
    """Return whether the run's slot is never planned again: it is past, and its schedule is beyond it or deleted."""
    if not is_slot(run.trigger):
        return True
    return run.slot_at <= (now if run.watermark is None else min(now, run.watermark))


async def _remove(tx: Tx, runs: Sequence[Ended]) -> None:
    """Remove runs with all their stored data, and count them."""
    if not runs:
        return
    ids = [run.id for run in runs]
    for delete in (DELETE_ATTEMPTS, DELETE_CHECKPOINTS, DELETE_NOTES):
        await tx.do(delete, ids)
    await tx.do(DELETE_KEYS, [run.id for run in runs if not is_slot(run.trigger)])
    await tx.do(DELETE_RUNS, ids, sorted({run.ended_at for run in runs}))
    await _add_to_days(tx, Counter((run.job_id, day_of(run.ended_at), run.state) for run in runs))
    armed: dict[tuple[int, str], Micros] = {}
    for run in runs:
        if run.attempts and is_slot(run.trigger):
            key = (run.job_id, schedule_of(run.trigger))
            armed[key] = max(armed.get(key, run.slot_at), run.slot_at)
    await tx.each(HOLD_EDGE, [(slot_at, *key) for key, slot_at in sorted(armed.items())])


async def _add_to_days(tx: Tx, counts: Counter[tuple[int, int, str]]) -> None:
    if counts:
        await tx.each(ADD_TO_DAYS, [(*key, count) for key, count in sorted(counts.items())])


async def find_crowded(tx: Tx, keep: int, *, after: int = 0, limit: int = 100_000) -> Crowded:
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
            marks += [(job_id, Mark(*mark)) for mark in await tx.rows(FIND_NEWEST_BEYOND, job_id, keep)]
    return Crowded(marks, job_id)


async def list_daily_counts(
    tx: Tx, *, job: str | None = None, namespace: str = "default", limit: int = 1000
) -> list[DailyCount]:
    rows = await tx.rows(LIST_DAILY_COUNTS, namespace, job, limit)
    return [DailyCount(name, day, RunState(state), count) for name, day, state, count in rows]


# ── skips, nodes and terms ───────────────────────────────────────────────────────────────────────────────────────

# Ids grow with time, so the search ends at the first skip that is too new. A range that `plan` extends now is left out:
# `plan` deletes its row, and the new row counts its slots.
LIST_OLD_SKIPS = sql(f"""
SELECT s.id, s.job_id, s.count, s.recorded_at FROM skips s
WHERE s.id < coalesce((SELECT n.id FROM skips n WHERE n.recorded_at > $1 ORDER BY n.id LIMIT 1), {_LAST_ID})
  AND s.last <= coalesce((SELECT p.watermark FROM schedules p
                          WHERE p.job_id = s.job_id AND p.schedule_id = s.schedule_id), s.last)
ORDER BY s.id LIMIT $2 [[FOR UPDATE OF s SKIP LOCKED]]
""")  # noqa: S608

DELETE_SKIPS = sql("DELETE FROM skips WHERE id {in1}")

LIST_OLD_NODES = sql("""
SELECT n.number FROM nodes n
WHERE n.registered_at <= $1 AND n.lease_until <= $1
  AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.incarnation = n.incarnation)
ORDER BY n.number LIMIT $2 [[FOR UPDATE SKIP LOCKED]]
""")

DELETE_NODES = sql("DELETE FROM nodes WHERE number {in1}")

DELETE_TERMS = sql("""
DELETE FROM term_history WHERE (shard, number) IN (
    SELECT h.shard, h.number FROM terms t CROSS JOIN term_history h
    WHERE h.shard = t.shard AND h.number < t.number AND h.began_at <= $1 ORDER BY h.shard, h.number LIMIT $2)
""")


async def prune_skips(tx: Tx, until: Micros, *, limit: int = 500) -> int:
    await tx.lock_keys([PRUNING])
    skips = await tx.rows(LIST_OLD_SKIPS, until, limit)
    counts: Counter[tuple[int, int, str]] = Counter()
    for _, job_id, slots, recorded_at in skips:
        counts[job_id, day_of(recorded_at), RunState.SKIPPED.value] += slots
    await _add_to_days(tx, counts)
    return await tx.do(DELETE_SKIPS, [skip_id for skip_id, *_ in skips])


async def prune_nodes(tx: Tx, until: Micros, *, limit: int = 500) -> PrunedNodes:
    nodes = await tx.do(DELETE_NODES, await tx.values(LIST_OLD_NODES, until, limit))
    return PrunedNodes(nodes, await tx.do(DELETE_TERMS, until, limit))


# ── runs whose expiry has passed ─────────────────────────────────────────────────────────────────────────────────

# Leaves out runs that another transaction has locked.
LIST_MISSED = sql("""
SELECT id, CASE WHEN {is_no_slot} THEN 'expired'
                WHEN target = '' THEN 'missed'
                WHEN EXISTS (SELECT 1 FROM nodes n <<INDEXED BY nodes_id>>
                             WHERE n.id = target AND NOT n.ended AND n.lease_until > $1)
                THEN 'missed' ELSE 'node_gone' END
FROM runs <<INDEXED BY runs_expiring>>
WHERE expires_at <= $1 AND (state = 'scheduled' OR (state = 'reserved' AND ready_at <= $1))
ORDER BY expires_at, id LIMIT $2 [[FOR UPDATE SKIP LOCKED]]
""")


async def expire(tx: Tx, *, limit: int, now: Now = None) -> list[RunRecord]:
    at = await tx.clock(now)
    missed = await tx.rows(LIST_MISSED, at, limit)
    for run_id, reason in missed:
        await end_waiting(tx, run_id, RunState.SKIPPED, reason, at, late=True)
    fault_points.point("expire.in_transaction")
    runs = await finished_runs(tx, [run_id for run_id, _ in missed])
    return [runs[run_id] for run_id, _ in missed]
