"""Who runs after whom, in SQLite: what each job waits for, and the runs that follow when it is there.

Most stores have no such jobs: one look at an empty table for each batch that ends, and done.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from onthedot import faults
from onthedot.after import COUNTING, COUNTS
from onthedot.clock import NEVER, Micros
from onthedot.job import Job
from onthedot.run import after_trigger
from onthedot.stores.base import Hint, Parent
from onthedot.stores.planned import Insert
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.plan import HOLD_NEW, insert_runs

ARE_THERE_ANY = "SELECT EXISTS (SELECT 1 FROM dependencies)"

LIST_CHILDREN = """
SELECT parent.id, d.child_id, d.every_run, d.counts, child.state = 'paused'
FROM json_each(:jobs) wanted
CROSS JOIN jobs parent ON parent.id = wanted.value
CROSS JOIN dependencies d ON d.namespace = parent.namespace AND d.parent = parent.name
CROSS JOIN jobs child ON child.id = d.child_id
ORDER BY d.child_id
"""

NOTE_RUN = """
UPDATE dependencies SET run_id = :run_id, ended_at = :ended_at
WHERE child_id = :child_id AND (namespace, parent) = (SELECT namespace, name FROM jobs WHERE id = :job_id)
"""

IS_INCOMPLETE = "SELECT EXISTS (SELECT 1 FROM dependencies WHERE child_id = ? AND run_id IS NULL)"

CLEAR_SET = "UPDATE dependencies SET run_id = NULL, ended_at = NULL WHERE child_id = ?"

LIST_PARENTS = "SELECT parent, run_id, ended_at FROM dependencies WHERE child_id = ? ORDER BY parent"

LIST_PARENT_NAMES = """
SELECT d.parent FROM jobs j JOIN dependencies d ON d.child_id = j.id
WHERE j.namespace = ? AND j.name = ? AND j.state <> 'deleted'
"""

DELETE_DEPENDENCIES = "DELETE FROM dependencies WHERE child_id = ?"

# Parents that stay keep what is noted of them, unless other runs count now.
DROP_OTHERS = """
DELETE FROM dependencies
WHERE child_id = :child_id
  AND ((every_run, counts) <> (:every_run, :counts) OR parent NOT IN (SELECT value FROM json_each(:parents)))
"""

ADD_PARENT = """
INSERT INTO dependencies (namespace, parent, child_id, every_run, counts)
VALUES (:namespace, :parent, :child_id, :every_run, :counts)
ON CONFLICT (namespace, parent, child_id) DO NOTHING
"""


class Ended(NamedTuple):
    """A run that has ended in this transaction."""

    run_id: int
    job_id: int
    state: str
    ended_at: Micros


class Child(NamedTuple):
    """A job that runs after the one that a run was of."""

    id: int
    every_run: int
    counts: str
    paused: int


def follow(tx: Transaction, all_ended: Iterable[Ended]) -> None:
    """Runs have ended: insert the runs of those jobs that were waiting for just that."""
    if not tx.db.execute(ARE_THERE_ANY).fetchone()[0]:
        return  # and nobody has gone through what ended
    ended = [run for run in all_ended if run.state in COUNTING]
    if not ended:
        return
    children: dict[int, list[Child]] = defaultdict(list)
    for job_id, *child in tx.db.execute(LIST_CHILDREN, {"jobs": json.dumps(list({run.job_id for run in ended}))}):
        children[job_id].append(Child(*child))
    for run in ended:
        counting = [child for child in children[run.job_id] if run.state in COUNTS[child.counts]]  # type: ignore[index]
        following = [child for child in counting if child.every_run or _completes(tx.db, child.id, run)]
        if following:
            _insert(tx, following, run)
            faults.point("finish.followed")


def _completes(db: sqlite3.Connection, child_id: int, run: Ended) -> bool:
    """Note the run in the job's set; whether that is complete now. Then it is cleared."""
    db.execute(NOTE_RUN, {"child_id": child_id, **run._asdict()})
    if db.execute(IS_INCOMPLETE, (child_id,)).fetchone()[0]:
        return False
    db.execute(CLEAR_SET, (child_id,))
    return True


def _insert(tx: Transaction, children: Sequence[Child], run: Ended) -> None:
    trigger = after_trigger(run.run_id)
    at = run.ended_at
    insert_runs(tx.db, [Insert(child.id, trigger, at, None, None, False, "", at) for child in children], at)
    tx.db.executemany(HOLD_NEW, [(NEVER, child.id) for child in children if child.paused])
    tx.hints.append(Hint("runs", run.ended_at))


def put_after(db: sqlite3.Connection, job_id: int, job: Job) -> None:
    """A job was defined or edited: this is what it runs after now."""
    if job.after is None:
        db.execute(DELETE_DEPENDENCIES, (job_id,))
        return
    parents = job.after.parents
    values = {
        "child_id": job_id, "namespace": job.namespace, "every_run": int(job.after.any), "counts": job.after.on,
        "parents": json.dumps(parents),
    }  # fmt: skip
    db.execute(DROP_OTHERS, values)
    db.executemany(ADD_PARENT, [values | {"parent": parent} for parent in parents])


def parent_names(db: sqlite3.Connection, namespace: str, name: str) -> list[str]:
    """The names of the jobs that this one runs after."""
    return [parent for (parent,) in db.execute(LIST_PARENT_NAMES, (namespace, name))]


def list_parents(db: sqlite3.Connection, job_id: int) -> list[Parent]:
    """The parents of a job, by name, and what it has of each."""
    return [Parent(*row) for row in db.execute(LIST_PARENTS, (job_id,))]
