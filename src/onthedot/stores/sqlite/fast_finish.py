"""SQLite's fast path for `finish`: ends plain runs with three `executemany`.

The worker's own lease has all that history needs, so nothing is read back. This takes 6 us per run; `DELETE ...
RETURNING` took 9.5 when measured.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from onthedot import fault_points
from onthedot.model.verdict import Finish
from onthedot.stores.hints import Hint
from onthedot.stores.sql.port import plain
from onthedot.stores.sqlite.writer_thread import Transaction

HAS_MORE = """
SELECT EXISTS (SELECT 1 FROM dependencies)
    OR EXISTS (SELECT 1 FROM gate_holders WHERE run_id IN (SELECT value FROM json_each(?1)))
"""

END_RUN = "DELETE FROM runs WHERE id = ? AND lease_id = ? AND state = 'running' AND NOT delayed"

INSERT_HISTORY = """
INSERT INTO history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, armed_at,
                     started_at, ended_at, queue, priority, trigger, target, reason, args, error, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

INSERT_ATTEMPT = """
INSERT INTO attempts (run_id, attempt, lease_id, fence, node, revision, outcome, error, due_at, reserved_at, armed_at,
                      started_at, ended_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

FIND_NODE_ID = "SELECT id FROM nodes WHERE incarnation = ?"


def finish_plain(tx: Transaction, finishes: Sequence[Finish]) -> frozenset[str]:
    """End all these runs and return the accepted lease ids. End none if one is not plain or has lost its lease."""
    ids = json.dumps([one.lease.run_id for one in finishes])
    [has_more] = tx.db.execute(HAS_MORE, (ids,)).fetchone()
    if has_more:
        return frozenset()
    tx.db.execute("SAVEPOINT finish")
    ended = tx.db.executemany(END_RUN, [(one.lease.run_id, one.lease.lease_id) for one in finishes]).rowcount
    accepted: frozenset[str] = frozenset()
    if ended == len(finishes):
        fault_points.point("finish.in_transaction")
        tx.db.executemany(INSERT_HISTORY, [_ended_run(one) for one in finishes])
        _record_attempts(tx.db, finishes)
        tx.hints.append(Hint("ends", finishes[0].ended_at))
        accepted = frozenset(one.lease.lease_id for one in finishes)
    else:
        tx.db.execute("ROLLBACK TO finish")
    tx.db.execute("RELEASE finish")
    return accepted


def _ended_run(finish: Finish) -> tuple[object, ...]:
    lease, verdict, started_at, ended_at = finish
    return (
        lease.run_id, lease.record.id, verdict.state.value, lease.slot_at, lease.due_at, lease.attempt,
        lease.failures + verdict.failed, lease.recoveries + verdict.recovered, lease.created_at, lease.armed_at,
        started_at or None, ended_at, lease.queue, lease.level, lease.trigger, lease.target, plain(verdict.reason),
        lease.args, plain(verdict.error), plain(verdict.result),
    )  # fmt: skip


def _record_attempts(db: sqlite3.Connection, finishes: Sequence[Finish]) -> None:
    """Record ended attempts, each with the node that ran it."""
    nodes: dict[str, str] = {}
    for incarnation in {finish.lease.incarnation for finish in finishes}:
        row = db.execute(FIND_NODE_ID, (incarnation,)).fetchone()
        nodes[incarnation] = "" if row is None else row[0]
    rows = [
        (
            lease.run_id, lease.attempt, lease.lease_id, lease.fence, nodes[lease.incarnation], lease.record.revision,
            verdict.outcome.value, plain(verdict.error), lease.due_at, lease.reserved_at, lease.armed_at,
            started_at or None, ended_at,
        )
        for lease, verdict, started_at, ended_at in finishes
    ]  # fmt: skip
    db.executemany(INSERT_ATTEMPT, rows)
