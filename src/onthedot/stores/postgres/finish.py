"""The way out of `running`, and into history: shared by the worker's finish, the reaper and expiry.

The hot path of a drain is one statement: what nothing else hangs on goes from `runs` into `history` and `attempts`,
fenced row by row. The primary key finds the rows, and the verdicts are joined afterwards: joined before, the planner
walks through the dead (a sixth of the rate when measured). `IS TRUE` keeps it from that: the leases are looked up in a
hash. All else goes the long way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from onthedot import faults
from onthedot.clock import NEVER, Micros
from onthedot.errors import StateError
from onthedot.run import MOVES, TERMINAL, Lease, RunState, schedule_of
from onthedot.stores.base import Hint
from onthedot.stores.postgres.arrays import numbers, words
from onthedot.stores.postgres.dependencies import Ended, follow, lock_sets
from onthedot.stores.postgres.gates import lock_gates_of, open_gates
from onthedot.stores.postgres.partitions import make_room
from onthedot.stores.postgres.transaction import Transaction, plain
from onthedot.stores.postgres.triggers import with_slots
from onthedot.verdict import Finish, Verdict

_AFTER_RUNNING = MOVES[RunState.RUNNING]

_INTO_HISTORY = """
INSERT INTO history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, armed_at,
                     started_at, ended_at, queue, priority, trigger, target, reason, origin, args, error, result)
SELECT r.id, r.job_id, v.state, r.slot_at, r.due_at, r.attempt, r.failures + v.failed, r.recoveries + v.recovered,
       r.created_at, r.armed_at, v.started_at, v.ended_at, r.queue, r.priority, r.trigger, r.target, v.reason,
       r.origin, r.args, v.error, v.result
"""

_INTO_ATTEMPTS = """
INSERT INTO attempts (run_id, attempt, lease_id, fence, node, revision, outcome, error, due_at, reserved_at, armed_at,
                      started_at, ended_at)
SELECT r.id, r.attempt, r.lease_id, r.fence,
       coalesce((SELECT n.id FROM nodes n WHERE n.incarnation = r.incarnation), ''), r.revision, v.outcome, v.error,
       r.due_at, r.reserved_at, r.armed_at, v.started_at, v.ended_at
"""

# Most verdicts of a batch are the same one: each is sent once, and the runs say which is theirs.
_VERDICTS = """
v AS MATERIALIZED (
    SELECT run.id, run.lease_id, run.started_at, run.ended_at, verdict.state, verdict.outcome, verdict.reason,
           verdict.failed, verdict.recovered, verdict.error, verdict.result
    FROM unnest($1::text::bigint[], $2::text::text[], $3::text::bigint[], $4::text::bigint[], $5::text::integer[])
        run (id, lease_id, started_at, ended_at, number)
    JOIN unnest($6::text[], $7::text[], $8::text[], $9::integer[], $10::integer[], $11::text[], $12::text[])
        WITH ORDINALITY verdict (state, outcome, reason, failed, recovered, error, result, number)
    ON run.number = verdict.number)
"""

_THESE = "ANY((SELECT $1::text::bigint[])::bigint[])"  # read once: without SELECT, for each row

_OF_RUN = "JOIN v ON v.id = r.id AND v.lease_id = r.lease_id"

# The same where `r` is what was deleted, of which the planner expects one row: it would go through all of `v` for each
# of 500. A full join it has to hash, and this condition does not tell it that an inner one would do.
_OF_EACH = f"FULL {_OF_RUN} WHERE coalesce(r.id, 0) <> 0"

# What is running under its lease, holds no gate, and nobody runs after: which leases were accepted.
FINISH = f"""
WITH {_VERDICTS}, r AS MATERIALIZED (
    DELETE FROM runs
    WHERE id = {_THESE} AND ((id, lease_id) IN (SELECT id, lease_id FROM v)) IS TRUE
      AND state = 'running' AND NOT delayed
      AND id NOT IN (SELECT g.run_id FROM gate_holders g WHERE g.run_id = {_THESE})
      AND NOT EXISTS (SELECT 1 FROM dependencies)
    RETURNING *
), kept AS ({_INTO_HISTORY} FROM r {_OF_EACH}
), tried AS ({_INTO_ATTEMPTS} FROM r {_OF_EACH}
)
SELECT lease_id FROM r
"""  # noqa: S608 - constants of this file

RECORD_ATTEMPTS = f"WITH {_VERDICTS} {_INTO_ATTEMPTS} FROM runs r {_OF_RUN} WHERE r.id = {_THESE}"

END_RUNS = f"""
WITH {_VERDICTS}, r AS MATERIALIZED (DELETE FROM runs WHERE id = {_THESE} RETURNING *)
{_INTO_HISTORY} FROM r {_OF_EACH}
"""  # noqa: S608

# Job by job: whether it is paused or deleted stays as it is.
HOLD_JOBS = "SELECT id, state FROM jobs WHERE id = ANY($1) ORDER BY id FOR KEY SHARE"

LOCK_RUNS = """
SELECT id, lease_id, state, delayed, cancel_wanted, incarnation FROM runs WHERE id = ANY($1) ORDER BY id FOR UPDATE
"""

TRY_AGAIN = """
UPDATE runs
SET state = 'scheduled', due_at = $2, ready_at = $3, failures = failures + $4, recoveries = recoveries + $5,
    reason = $6, lease_id = NULL, fence = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL,
    armed_at = NULL, cancel_wanted = NULL, granted_at = NULL, granted_by = NULL,
    route = CASE WHEN rank IS NULL THEN route ELSE substr(route, 2) END, rank = NULL
WHERE id = $1
"""

# The next slot of a fixed delay counts from the end of its run.
REOPEN = """
UPDATE schedules SET last_end = $3, next_at = $3 + delay
WHERE job_id = $1 AND schedule_id = $2 AND delay IS NOT NULL
RETURNING next_at
"""

# A run that ended before its own instant (it was armed far ahead): no later edit may plan that slot again.
REMEMBER_ARMED = with_slots("""
UPDATE schedules SET armed_to = greatest(coalesce(armed_to, 0), $1) WHERE job_id = $2 AND {slot_trigger} = $3
""")

END_WAITING = """
WITH r AS (DELETE FROM runs WHERE id = $1 AND state <> 'running' RETURNING *)
INSERT INTO history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, ended_at,
                     queue, priority, trigger, target, reason, origin, args, error)
SELECT id, job_id, $2, slot_at, due_at, attempt, failures, recoveries, created_at, $4,
       queue, priority, trigger, target, $3, origin, args, $5
FROM r
RETURNING job_id, trigger
"""


def check_moves(verdicts: Iterable[Verdict]) -> None:
    """`StateError` for a verdict that no running run can get."""
    for verdict in verdicts:
        if verdict.state not in _AFTER_RUNNING:
            legal = ", ".join(sorted(_AFTER_RUNNING))
            raise StateError(f"verdict: expected a state that may follow running ({legal}), got {verdict.state}")


def columns(finishes: Sequence[Finish]) -> list[object]:
    """The values of `_VERDICTS`."""
    places: dict[Verdict, int] = {}
    which = [places.setdefault(finish.verdict, len(places) + 1) for finish in finishes]
    verdicts = list(places)
    return [
        numbers(finish.lease.run_id for finish in finishes),
        words([finish.lease.lease_id for finish in finishes]),
        numbers(finish.started_at or "NULL" for finish in finishes),
        numbers(finish.ended_at for finish in finishes),
        numbers(which),
        [verdict.state.value for verdict in verdicts],
        [verdict.outcome.value for verdict in verdicts],
        [plain(verdict.reason) for verdict in verdicts],
        [int(verdict.failed) for verdict in verdicts],
        [int(verdict.recovered) for verdict in verdicts],
        [plain(verdict.error) for verdict in verdicts],
        [plain(verdict.result) for verdict in verdicts],
    ]


class Held(NamedTuple):
    """What is locked for verdicts: the runs as they are, and the states of jobs whose runs are to be tried again."""

    runs: dict[int, Any]
    jobs: dict[int, str]
    followed: bool  # somebody runs after one of them

    def is_running(self, lease: Lease) -> bool:
        """Whether the run is running under this lease."""
        row = self.runs.get(lease.run_id)
        return row is not None and row["lease_id"] == lease.lease_id and row["state"] == "running"


async def hold(tx: Transaction, finishes: Sequence[Finish]) -> Held:
    """Lock all that these verdicts touch, in order."""
    trying = {finish.lease.record.id for finish in finishes if finish.verdict.state not in TERMINAL}
    jobs = dict(await tx.rows(HOLD_JOBS, list(trying))) if trying else {}
    followed = await lock_sets(tx, (finish.lease.record.id for finish in finishes))
    run_ids = [finish.lease.run_id for finish in finishes]
    await lock_gates_of(tx, run_ids)
    return Held({row["id"]: row for row in await tx.rows(LOCK_RUNS, run_ids)}, jobs, followed)


async def move_runs(tx: Transaction, finishes: Sequence[Finish], held: Held) -> None:
    """Record the attempts, and move every run to its verdict's state; the ended ones to history.

    Each is running under its lease, is locked, and is there once.
    """
    if not finishes:
        return
    await make_room(tx, (finish.ended_at for finish in finishes))
    await tx.do(RECORD_ATTEMPTS, *columns(finishes))  # as the attempt ended, whatever becomes of the run
    finishes = [_last_one(finish, held) for finish in finishes]
    ending = [finish for finish in finishes if finish.verdict.state in TERMINAL]
    trying = [finish for finish in finishes if finish.verdict.state not in TERMINAL]
    if ending:
        await tx.do(END_RUNS, *columns(ending))
    if trying:
        await tx.each(TRY_AGAIN, [_next_try(finish, held) for finish in trying])
    faults.point("finish.in_transaction")
    for lease, _, _, ended_at in ending:
        if lease.slot_at > ended_at:
            await tx.do(REMEMBER_ARMED, lease.slot_at, lease.record.id, lease.trigger)
        if held.runs[lease.run_id]["delayed"]:
            await reopen(tx, lease.record.id, lease.trigger, ended_at)
    if ending:
        tx.hints.append(Hint("ends", ending[0].ended_at))
    await open_gates(tx, [finish.lease.run_id for finish in ending], ended=True)
    await open_gates(tx, [finish.lease.run_id for finish in trying], ended=False)
    if held.followed:
        await follow(tx, (Ended(one.run_id, one.record.id, verdict.state, at) for one, verdict, _, at in ending))
    if trying:
        tx.hints.append(Hint("runs", min(finish.verdict.due_at for finish in trying)))


def _last_one(finish: Finish, held: Held) -> Finish:
    """Runs of deleted jobs, and those that somebody asked to stop, are not tried again: they are cancelled."""
    lease, verdict = finish.lease, finish.verdict
    why = "deleted" if held.jobs.get(lease.record.id) == "deleted" else held.runs[lease.run_id]["cancel_wanted"]
    if verdict.state in TERMINAL or why is None:
        return finish
    return finish._replace(verdict=verdict._replace(state=RunState.CANCELLED, reason=why))


def _next_try(finish: Finish, held: Held) -> tuple[object, ...]:
    lease, verdict, _, _ = finish
    ready_at = NEVER if held.jobs.get(lease.record.id) == "paused" else verdict.due_at
    failed, recovered = int(verdict.failed), int(verdict.recovered)
    return (lease.run_id, verdict.due_at, ready_at, failed, recovered, plain(verdict.reason))


async def reopen(tx: Transaction, job_id: int, trigger: str, ended_at: Micros) -> None:
    """Let a fixed delay go on, now that its run has ended."""
    for (next_at,) in await tx.rows(REOPEN, job_id, schedule_of(trigger), ended_at):
        tx.hints.append(Hint("schedules", next_at))


async def end_waiting(
    tx: Transaction, run_id: int, state: RunState, reason: str, now: Micros, *, error: str | None = None
) -> bool:
    """Move a run that is not running to a terminal state; False if it was not there."""
    await lock_gates_of(tx, [run_id])
    await make_room(tx, [now])
    row = await tx.row(END_WAITING, run_id, state.value, plain(reason), now, error)
    if row is None:
        return False
    job_id, trigger = row
    await open_gates(tx, [run_id], ended=True)
    tx.hints.append(Hint("ends", now))
    await reopen(tx, job_id, trigger, now)
    await follow(tx, [Ended(run_id, job_id, state, now)])
    return True
