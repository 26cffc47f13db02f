"""Who runs after whom, in PostgreSQL: what each job waits for, and the runs that follow when it is there.

Whoever ends a run of a parent holds the whole set of each child until the end of the transaction: of two parents that
end at once, the second sees the first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from onthedot import faults
from onthedot.after import COUNTING, COUNTS
from onthedot.clock import Micros
from onthedot.job import Job
from onthedot.run import after_trigger
from onthedot.stores.base import Hint, Parent
from onthedot.stores.planned import Insert
from onthedot.stores.postgres.inserting import insert_runs
from onthedot.stores.postgres.transaction import Transaction

LIST_CHILDREN = """
SELECT parent.id, d.child_id, d.every_run, d.counts
FROM jobs parent JOIN dependencies d ON d.namespace = parent.namespace AND d.parent = parent.name
WHERE parent.id = ANY($1) ORDER BY d.child_id
"""

LOCK_SETS = """
SELECT 1 FROM dependencies d JOIN jobs child ON child.id = d.child_id
WHERE d.child_id = ANY($1) ORDER BY d.child_id, d.parent FOR KEY SHARE OF child {nowait} FOR UPDATE OF d {nowait}
"""

WAIT_FOR_SETS = LOCK_SETS.format(nowait="")

TRY_SETS = LOCK_SETS.format(nowait="NOWAIT")

NOTE_RUN = """
UPDATE dependencies d SET run_id = $3, ended_at = $4 FROM jobs parent
WHERE d.child_id = $1 AND parent.id = $2 AND d.namespace = parent.namespace AND d.parent = parent.name
"""

IS_INCOMPLETE = "SELECT EXISTS (SELECT 1 FROM dependencies WHERE child_id = $1 AND run_id IS NULL)"

CLEAR_SET = "UPDATE dependencies SET run_id = NULL, ended_at = NULL WHERE child_id = $1"

LIST_PARENTS = "SELECT parent, run_id, ended_at FROM dependencies WHERE child_id = $1 ORDER BY parent"

LIST_ARROWS = """
SELECT j.name, d.parent FROM jobs j JOIN dependencies d ON d.child_id = j.id
WHERE j.namespace = $1 AND j.state <> 'deleted'
"""

DELETE_DEPENDENCIES = "DELETE FROM dependencies WHERE child_id = $1"

# Parents that stay keep what is noted of them, unless other runs count now.
DROP_OTHERS = """
DELETE FROM dependencies WHERE child_id = $1 AND ((every_run, counts) <> ($2, $3) OR parent <> ALL($4))
"""

ADD_PARENTS = """
INSERT INTO dependencies (namespace, parent, child_id, every_run, counts)
SELECT $5, parent, $1, $2, $3 FROM unnest($4::text[]) parent
ON CONFLICT (namespace, parent, child_id) DO NOTHING
"""

ARROWS = "after"
"""The key that whoever adds an arrow holds: one at a time, or two could close a cycle together."""


class Ended(NamedTuple):
    """A run that has ended in this transaction."""

    run_id: int
    job_id: int
    state: str
    ended_at: Micros


class Child(NamedTuple):
    """A job that runs after the one that a run was of."""

    id: int
    every_run: bool
    counts: str


async def _children(tx: Transaction, job_ids: Iterable[int]) -> dict[int, list[Child]]:
    children: dict[int, list[Child]] = defaultdict(list)
    for job_id, *child in await tx.rows(LIST_CHILDREN, list(set(job_ids))):
        children[job_id].append(Child(*child))
    return children


async def lock_sets(tx: Transaction, job_ids: Iterable[int]) -> bool:
    """Runs of these jobs are about to end: hold what waits for them, if anything does. Before gates and runs are
    locked."""
    children = await _children(tx, job_ids)
    if children:
        await tx.rows(WAIT_FOR_SETS, [child.id for each in children.values() for child in each])
    return bool(children)


async def follow(tx: Transaction, all_ended: Iterable[Ended]) -> None:
    """Runs have ended: insert the runs of those jobs that were waiting for just that."""
    ended = [run for run in all_ended if run.state in COUNTING]
    if not ended:
        return
    children = await _children(tx, (run.job_id for run in ended))
    if not children:
        return
    await tx.rows(TRY_SETS, [child.id for each in children.values() for child in each])
    for run in ended:
        counting = [child for child in children[run.job_id] if run.state in COUNTS[child.counts]]  # type: ignore[index]
        following = [child for child in counting if child.every_run or await _completes(tx, child.id, run)]
        if following:
            await _insert(tx, following, run)
            faults.point("finish.followed")


async def _completes(tx: Transaction, child_id: int, run: Ended) -> bool:
    """Note the run in the job's set; whether that is complete now. Then it is cleared."""
    await tx.do(NOTE_RUN, child_id, run.job_id, run.run_id, run.ended_at)
    if await tx.value(IS_INCOMPLETE, child_id):
        return False
    await tx.do(CLEAR_SET, child_id)
    return True


async def _insert(tx: Transaction, children: Sequence[Child], run: Ended) -> None:
    trigger, at = after_trigger(run.run_id), run.ended_at
    await insert_runs(tx, [Insert(child.id, trigger, at, None, None, False, "", at) for child in children], at)
    tx.hints.append(Hint("runs", run.ended_at))


async def put_after(tx: Transaction, job_id: int, job: Job) -> None:
    """A job was defined or edited: this is what it runs after now."""
    if job.after is None:
        await tx.do(DELETE_DEPENDENCIES, job_id)
        return
    values = (job_id, job.after.any, job.after.on, list(job.after.parents))
    await tx.do(DROP_OTHERS, *values)
    await tx.do(ADD_PARENTS, *values, job.namespace)


async def list_arrows(tx: Transaction, namespace: str) -> dict[str, list[str]]:
    """By name: the jobs that each job of the namespace runs after. Nobody adds one before we have ended."""
    await tx.lock_keys([ARROWS])
    arrows: dict[str, list[str]] = defaultdict(list)
    for name, parent in await tx.rows(LIST_ARROWS, namespace):
        arrows[name].append(parent)
    return arrows


async def list_parents(tx: Transaction, job_id: int) -> list[Parent]:
    """The parents of a job, by name, and what it has of each."""
    return [Parent(*row) for row in await tx.rows(LIST_PARENTS, job_id)]
