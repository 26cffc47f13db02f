"""The way out of `running`, and into history: shared by the worker's finish, the reaper and expiry.

The hot path of a drain. Everything that history needs is in the worker's own lease, so a batch is four
`executemany` and nothing is read back (6 µs per run; `DELETE … RETURNING` took 9.5 when measured).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from onthedot import faults
from onthedot.clock import NEVER, Micros
from onthedot.errors import StateError
from onthedot.run import MOVES, TERMINAL, RunState, schedule_of
from onthedot.stores.base import Hint
from onthedot.stores.sqlite.dependencies import Ended, follow
from onthedot.stores.sqlite.gates import open_gates
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.triggers import with_slots
from onthedot.verdict import Finish, Verdict

_AFTER_RUNNING = MOVES[RunState.RUNNING]

# Both are fenced: a run that is not running under this lease is not touched, and the count tells.
END_RUN = "DELETE FROM runs WHERE id = ? AND lease_id = ? AND state = 'running'"

TRY_AGAIN = """
UPDATE runs
SET state = 'scheduled', due_at = ?, failures = failures + ?, recoveries = recoveries + ?, reason = ?,
    lease_id = NULL, fence = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL, armed_at = NULL,
    cancel_wanted = NULL, granted_at = NULL, granted_by = NULL,
    route = CASE WHEN rank IS NULL THEN route ELSE substr(route, 2) END, rank = NULL,
    ready_at = CASE WHEN EXISTS (SELECT 1 FROM jobs j WHERE j.id = job_id AND j.state = 'paused')
                    THEN ? ELSE ? END
WHERE id = ? AND lease_id = ? AND state = 'running'
"""

# Runs that are not to be tried again, and why.
LIST_UNWANTED = """
SELECT r.id, CASE j.state WHEN 'deleted' THEN 'deleted' ELSE r.cancel_wanted END
FROM json_each(:runs) wanted CROSS JOIN runs r ON r.id = wanted.value JOIN jobs j ON j.id = r.job_id
WHERE j.state = 'deleted' OR r.cancel_wanted IS NOT NULL
"""

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

# What this incarnation runs for fixed delays; for everyone else one look at an empty range.
LIST_DELAYED = """
SELECT id, job_id, trigger FROM runs INDEXED BY runs_held
WHERE incarnation = ? AND delayed = 1 AND state = 'running'
"""

# The next slot of a fixed delay counts from the end of its run.
REOPEN = """
UPDATE schedules SET last_end = :ended_at, next_at = :ended_at + delay
WHERE job_id = :job_id AND schedule_id = :schedule_id AND delay IS NOT NULL
RETURNING next_at
"""

# A run that ended before its own instant (it was armed far ahead): no later edit may plan that slot again.
REMEMBER_ARMED = with_slots("""
UPDATE schedules SET armed_to = max(coalesce(armed_to, 0), ?)
WHERE job_id = ? AND {slot_trigger} = ?
""")

MOVE_TO_HISTORY = """
INSERT INTO history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, ended_at,
                     queue, priority, trigger, target, reason, origin, args, error)
SELECT id, job_id, :state, slot_at, due_at, attempt, failures, recoveries, created_at, :now,
       queue, priority, trigger, target, :reason, origin, args, :error
FROM runs WHERE id = :id AND state <> 'running'
RETURNING job_id, trigger
"""

DELETE_WAITING = "DELETE FROM runs WHERE id = ? AND state <> 'running'"


def check_moves(verdicts: Iterable[Verdict]) -> None:
    """`StateError` for a verdict that no running run can get."""
    for verdict in verdicts:
        if verdict.state not in _AFTER_RUNNING:
            legal = ", ".join(sorted(_AFTER_RUNNING))
            raise StateError(f"verdict: expected a state that may follow running ({legal}), got {verdict.state}")


def move_runs(tx: Transaction, finishes: Sequence[Finish]) -> bool:
    """Move every run to its verdict's state and the ended ones to history.

    False if any of them was not running under its lease: then the caller must roll back.
    """
    db = tx.db
    finishes = _last_ones(db, finishes)
    ending = [finish for finish in finishes if finish.verdict.state in TERMINAL]
    trying = [finish for finish in finishes if finish.verdict.state not in TERMINAL]
    delayed = _delayed(db, {finish.lease.incarnation for finish in ending})
    moved = 0
    if ending:
        moved += db.executemany(END_RUN, [(lease.run_id, lease.lease_id) for lease, *_ in ending]).rowcount
    if trying:
        moved += db.executemany(TRY_AGAIN, [_next_try(finish) for finish in trying]).rowcount
    if moved != len(finishes):
        return False
    faults.point("finish.in_transaction")
    db.executemany(INSERT_HISTORY, [_ended_run(finish) for finish in ending])
    ahead = [lease for lease, _, _, ended_at in ending if lease.slot_at > ended_at]
    if ahead:
        db.executemany(REMEMBER_ARMED, [(lease.slot_at, lease.record.id, lease.trigger) for lease in ahead])
    if delayed:
        for lease, _, _, ended_at in ending:
            if lease.run_id in delayed:
                reopen(tx, lease.record.id, lease.trigger, ended_at)
    if ending:
        tx.hints.append(Hint("ends", ending[0].ended_at))
    open_gates(tx, [finish.lease.run_id for finish in ending], ended=True)
    open_gates(tx, [finish.lease.run_id for finish in trying], ended=False)
    follow(tx, (Ended(one.run_id, one.record.id, verdict.state, at) for one, verdict, _, at in ending))
    if trying:
        tx.hints.append(Hint("runs", min(finish.verdict.due_at for finish in trying)))
    return True


def _last_ones(db: sqlite3.Connection, finishes: Sequence[Finish]) -> Sequence[Finish]:
    """Runs of deleted jobs, and those that somebody asked to stop, are not tried again: they are cancelled."""
    trying = [finish.lease.run_id for finish in finishes if finish.verdict.state not in TERMINAL]
    unwanted: dict[int, str] = dict(db.execute(LIST_UNWANTED, {"runs": json.dumps(trying)})) if trying else {}
    if not unwanted:
        return finishes
    return [
        finish._replace(verdict=finish.verdict._replace(state=RunState.CANCELLED, reason=unwanted[finish.lease.run_id]))
        if finish.lease.run_id in unwanted and finish.verdict.state not in TERMINAL
        else finish
        for finish in finishes
    ]


def _delayed(db: sqlite3.Connection, incarnations: Iterable[str]) -> set[int]:
    return {row[0] for incarnation in incarnations for row in db.execute(LIST_DELAYED, (incarnation,))}


def _next_try(finish: Finish) -> tuple[object, ...]:
    lease, verdict, _, _ = finish
    due_at = verdict.due_at
    failed, recovered = int(verdict.failed), int(verdict.recovered)
    return (due_at, failed, recovered, verdict.reason, NEVER, due_at, lease.run_id, lease.lease_id)


def _ended_run(finish: Finish) -> tuple[object, ...]:
    lease, verdict, started_at, ended_at = finish
    return (
        lease.run_id, lease.record.id, verdict.state.value, lease.slot_at, lease.due_at, lease.attempt,
        lease.failures + verdict.failed, lease.recoveries + verdict.recovered, lease.created_at, lease.armed_at,
        started_at or None, ended_at, lease.queue, lease.level, lease.trigger, lease.target, verdict.reason, lease.args,
        verdict.error, verdict.result,
    )  # fmt: skip


def record_attempts(db: sqlite3.Connection, finishes: Sequence[Finish]) -> None:
    """Record ended attempts, with the node that tried."""
    nodes: dict[str, str] = {}
    for incarnation in {finish.lease.incarnation for finish in finishes}:
        row = db.execute(FIND_NODE_ID, (incarnation,)).fetchone()
        nodes[incarnation] = "" if row is None else row[0]
    rows = [
        (
            lease.run_id, lease.attempt, lease.lease_id, lease.fence, nodes[lease.incarnation], lease.record.revision,
            verdict.outcome.value, verdict.error, lease.due_at, lease.reserved_at, lease.armed_at, started_at or None,
            ended_at,
        )
        for lease, verdict, started_at, ended_at in finishes
    ]  # fmt: skip
    db.executemany(INSERT_ATTEMPT, rows)


def reopen(tx: Transaction, job_id: int, trigger: str, ended_at: Micros) -> None:
    """Let a fixed delay go on, now that its run has ended."""
    values = {"job_id": job_id, "schedule_id": schedule_of(trigger), "ended_at": ended_at}
    for (next_at,) in tx.db.execute(REOPEN, values).fetchall():
        tx.hints.append(Hint("schedules", next_at))


def end_waiting(
    tx: Transaction, run_id: int, state: RunState, reason: str, now: Micros, *, error: str | None = None
) -> bool:
    """Move a run that is not running to a terminal state; False if it was not there."""
    values = {"id": run_id, "state": state.value, "reason": reason, "now": now, "error": error}
    rows = tx.db.execute(MOVE_TO_HISTORY, values).fetchall()
    tx.db.execute(DELETE_WAITING, (run_id,))
    open_gates(tx, [run_id], ended=True)
    if rows:
        tx.hints.append(Hint("ends", now))
    for job_id, trigger in rows:
        reopen(tx, job_id, trigger, now)
        follow(tx, [Ended(run_id, job_id, state, now)])
    return bool(rows)
