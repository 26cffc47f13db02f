"""Starts jobs that run after others: records what each job waits for, and inserts its run when that is complete.

A transaction that ends a run of a parent locks the whole set of each child. So if two parents end at once, the second
transaction sees the first one's run. The rules are at `Store.parents_of`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from onthedot import fault_points
from onthedot.clock import Micros
from onthedot.model.after import COUNTING, COUNTS, On
from onthedot.model.job import Job
from onthedot.model.run import after_trigger
from onthedot.rules.window_writes import Insert
from onthedot.stores.hints import Hint
from onthedot.stores.sql.port import Tx, sql
from onthedot.stores.sql.submit import insert_runs
from onthedot.stores.values import Parent

# Most stores have no such jobs. For them this reads one empty table.
LIST_CHILDREN = sql("""
SELECT d.child_id, parent.id, d.every_run, d.counts
FROM jobs parent <<NOT INDEXED>> CROSS JOIN [[LATERAL (SELECT * FROM]] dependencies d
WHERE [[d.namespace = parent.namespace AND d.parent = parent.name OFFSET 0) d WHERE]]
  EXISTS (SELECT 1 FROM dependencies) AND parent.id {in1}
  <<AND d.namespace = parent.namespace AND d.parent = parent.name>>
ORDER BY d.child_id
""")

TRY_SETS = sql("""
SELECT 1 FROM dependencies d JOIN jobs child ON child.id = d.child_id
WHERE d.child_id {in1} ORDER BY d.child_id, d.parent [[FOR KEY SHARE OF child NOWAIT FOR UPDATE OF d NOWAIT]]
""")

# All jobs before all sets: one of the jobs may wait for a run of another.
HOLD_CHILDREN = sql("SELECT 1 FROM jobs WHERE id {in1} ORDER BY id [[FOR KEY SHARE]]")
LOCK_SETS = sql("SELECT 1 FROM dependencies WHERE child_id {in1} ORDER BY child_id, parent [[FOR UPDATE]]")

NOTE_RUN = sql("""
UPDATE dependencies SET run_id = $3, ended_at = $4
WHERE child_id = $1 AND (namespace, parent) = (SELECT namespace, name FROM jobs WHERE id = $2)
""")

IS_INCOMPLETE = sql("SELECT EXISTS (SELECT 1 FROM dependencies WHERE child_id = $1 AND run_id IS NULL)")
CLEAR_SET = sql("UPDATE dependencies SET run_id = NULL, ended_at = NULL WHERE child_id = $1")
LIST_PARENTS = sql("SELECT parent, run_id, ended_at FROM dependencies WHERE child_id = $1 ORDER BY parent", Parent)

LIST_ARROWS = sql("""
SELECT j.name, d.parent FROM jobs j JOIN dependencies d ON d.child_id = j.id
WHERE j.namespace = $1 AND j.state <> 'deleted'
""")

DELETE_DEPENDENCIES = sql("DELETE FROM dependencies WHERE child_id = $1")

# Parents that remain keep the run that was noted, unless the job now counts other runs.
DROP_OTHERS = sql("""
DELETE FROM dependencies WHERE child_id = $1 AND ((every_run, counts) <> ($2, $3) OR parent {not_in4})
""")

ADD_PARENT = sql("""
INSERT INTO dependencies (namespace, parent, child_id, every_run, counts) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (namespace, parent, child_id) DO NOTHING
""")

ARROWS = "after"
"""The key that a transaction holds while it adds an arrow. Two transactions at once could close a cycle together."""


class Ended(NamedTuple):
    """A run that has ended in this transaction."""

    run_id: int
    job_id: int
    state: str
    ended_at: Micros


async def lock_sets(tx: Tx, job_ids: Iterable[int]) -> bool:
    """Lock the sets that wait for runs of these jobs. Return whether there are any. Call it before gates and runs are
    locked."""
    children = await tx.values(LIST_CHILDREN, list(set(job_ids)))
    if children and tx.concurrent:
        await tx.rows(HOLD_CHILDREN, children)
        await tx.rows(LOCK_SETS, children)
    return bool(children)


async def follow(tx: Tx, all_ended: Iterable[Ended]) -> None:
    """Insert the runs of jobs that were waiting for these runs to end."""
    ended = [run for run in all_ended if run.state in COUNTING]
    children = await tx.rows(LIST_CHILDREN, list({run.job_id for run in ended})) if ended else []
    if not children:
        return
    if tx.concurrent:
        await tx.rows(TRY_SETS, [child_id for child_id, *_ in children])
    by_parent: dict[int, list[tuple[int, bool, On]]] = defaultdict(list)
    for child_id, parent_id, every_run, counts in children:
        by_parent[parent_id].append((child_id, every_run, counts))
    for run in ended:
        following = [
            child_id
            for child_id, every_run, counts in by_parent[run.job_id]
            if run.state in COUNTS[counts] and (every_run or await _completes(tx, child_id, run))
        ]
        if following:
            trigger, at = after_trigger(run.run_id), run.ended_at
            new = [Insert(job_id, trigger, at, None, None, False, "", at) for job_id in following]
            await insert_runs(tx, new, at)
            tx.hints.append(Hint("runs", at))
            fault_points.point("finish.followed")


async def _completes(tx: Tx, child_id: int, run: Ended) -> bool:
    """Note the run in the child's set. If the set is complete, clear it and return True."""
    await tx.do(NOTE_RUN, child_id, run.job_id, run.run_id, run.ended_at)
    if await tx.value(IS_INCOMPLETE, child_id):
        return False
    await tx.do(CLEAR_SET, child_id)
    return True


async def put_after(tx: Tx, job_id: int, job: Job) -> None:
    """Store what a job runs after."""
    if job.after is None:
        await tx.do(DELETE_DEPENDENCIES, job_id)
        return
    every_run, counts, parents = job.after.any, job.after.on, list(job.after.parents)
    await tx.do(DROP_OTHERS, job_id, every_run, counts, parents)
    await tx.each(ADD_PARENT, [(job.namespace, parent, job_id, every_run, counts) for parent in parents])


async def list_arrows(tx: Tx, namespace: str) -> dict[str, list[str]]:
    """Return the parents of each job of a namespace, by name. No parent is added before the transaction ends."""
    await tx.lock_keys([ARROWS])
    arrows: dict[str, list[str]] = defaultdict(list)
    for name, parent in await tx.rows(LIST_ARROWS, namespace):
        arrows[name].append(parent)
    return arrows


async def parents_of(tx: Tx, job_id: int) -> list[Parent]:
    """Return the parents of a job, each with its newest run that counts."""
    return await tx.rows(LIST_PARENTS, job_id)
