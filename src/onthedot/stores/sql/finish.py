"""Ends runs: records verdicts of attempts, and ends runs that never started.

The database has a fast path for runs on which nothing else depends (`Database.finish_plain`). All other runs end here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from onthedot import fault_points
from onthedot.clock import NEVER, Micros
from onthedot.model.errors import StateError
from onthedot.model.job import holds_gates
from onthedot.model.run import MOVES, TERMINAL, Lease, RunState, is_slot, schedule_of
from onthedot.model.verdict import Finish, Verdict
from onthedot.stores.hints import Hint
from onthedot.stores.sql.after import Ended, follow, lock_sets
from onthedot.stores.sql.fragments import UNRESERVED, each_run
from onthedot.stores.sql.gates import lock_gates_of, open_gates
from onthedot.stores.sql.plan import HOLD_EDGE, try_schedule
from onthedot.stores.sql.port import Tx, plain, sql

_AFTER_RUNNING = MOVES[RunState.RUNNING]


class JobRow(NamedTuple):
    """A job, and its state."""

    id: int
    state: str


# Locks the jobs: they are not paused, edited or deleted before the transaction ends.
LOCK_JOBS = sql("SELECT id, state FROM jobs WHERE id {in1} ORDER BY id [[FOR KEY SHARE]]", JobRow)


class RunRow(NamedTuple):
    """A live run."""

    id: int
    lease_id: str | None
    state: str
    delayed: bool  # its end sets the next slot of its fixed delay
    cancel_wanted: str | None


LOCK_RUNS = sql(
    """
    SELECT id, lease_id, state, delayed, cancel_wanted FROM runs WHERE id {in1} ORDER BY id
    [[FOR UPDATE]]
    """,
    RunRow,
)


# The run `r` with the values of its verdict. PostgreSQL's fast path uses this, too.
KEEP_ATTEMPT = """
INSERT INTO attempts (run_id, attempt, lease_id, fence, node, revision, outcome, error, due_at, reserved_at,
                      armed_at, started_at, ended_at)
SELECT r.id, r.attempt, r.lease_id, r.fence,
       coalesce((SELECT n.id FROM nodes n WHERE n.incarnation = r.incarnation), ''), r.revision, {outcome}, {error},
       r.due_at, r.reserved_at, r.armed_at, {started_at}, {ended_at}
"""
KEEP_RUN = """
INSERT INTO history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, armed_at,
                     started_at, ended_at, queue, priority, trigger, target, reason, origin, args, error, result)
SELECT r.id, r.job_id, {state}, r.slot_at, r.due_at, r.attempt, r.failures + {failed}, r.recoveries + {recovered},
       r.created_at, r.armed_at, {started_at}, {ended_at}, r.queue, r.priority, r.trigger, r.target, {reason},
       r.origin, r.args, {error}, {result}
"""
_OF_LEASE = "FROM runs r WHERE r.id = $1 AND r.lease_id = $2 AND r.state = 'running'"

RECORD_ATTEMPT = each_run(
    KEEP_ATTEMPT.format(outcome="$3", error="$4", started_at="$5", ended_at="$6") + _OF_LEASE,
    "bigint text text text bigint bigint",
)
INTO_HISTORY = each_run(
    KEEP_RUN.format(
        state="$3", failed="$4", recovered="$5", started_at="$6", ended_at="$7", reason="$8", error="$9", result="$10"
    )
    + _OF_LEASE,
    "bigint text text integer integer bigint bigint text text text",
)

DELETE_ENDED = sql("DELETE FROM runs WHERE id {in1} AND lease_id {in2} AND state = 'running'")

TRY_AGAIN = sql(f"""
UPDATE runs
SET {UNRESERVED}, due_at = $3, ready_at = $4, failures = failures + $5, recoveries = recoveries + $6,
    reason = $7, fence = NULL, armed_at = NULL, cancel_wanted = NULL, granted_at = NULL, granted_by = NULL,
    route = CASE WHEN rank IS NULL THEN route ELSE substr(route, 2) END, rank = NULL
WHERE id = $1 AND lease_id = $2 AND state = 'running'
""")  # noqa: S608 - a constant

# The end of a run sets the next slot of its fixed delay.
REOPEN = sql(f"""
UPDATE schedules SET last_end = $3, next_at = $3 + delay
WHERE {try_schedule("job_id = $1 AND schedule_id = $2 AND delay IS NOT NULL")} RETURNING next_at
""")  # noqa: S608 - constants


class EndedRow(NamedTuple):
    """A run that ended without an attempt."""

    job_id: int
    trigger: str


END_WAITING = sql(
    """
    INSERT INTO history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, ended_at,
                         queue, priority, trigger, target, reason, origin, args, error)
    SELECT id, job_id, $2, slot_at, due_at, attempt, failures, recoveries, created_at, $4,
           queue, priority, trigger, target, $3, origin, args, $5
    FROM (SELECT * FROM runs WHERE id = $1 AND state <> 'running' [[FOR UPDATE]]) r
    RETURNING job_id, trigger
    """,
    EndedRow,
)
DELETE_WAITING = sql("DELETE FROM runs WHERE id = $1 AND state <> 'running'")


LIST_RECORDED = sql("SELECT run_id, lease_id, outcome FROM attempts WHERE run_id {in1} AND lease_id {in2}")


def check_moves(verdicts: Iterable[Verdict]) -> None:
    """Raise `StateError` for a verdict that no running run can get."""
    for verdict in verdicts:
        if verdict.state not in _AFTER_RUNNING:
            legal = ", ".join(sorted(_AFTER_RUNNING))
            raise StateError(f"verdict: expected a state that may follow running ({legal}), got {verdict.state}")


def plain_ones(finishes: Sequence[Finish]) -> Sequence[Finish]:
    """Return the verdicts for the fast path: the run ends, most likely holds no gate, and was not armed ahead."""
    simple = [
        one
        for one in finishes
        if one.verdict.state in TERMINAL
        and one.lease.fence
        and one.lease.slot_at <= one.ended_at
        and not holds_gates(one.lease.record.job)
    ]
    return simple if len({one.lease.run_id for one in simple}) == len(simple) else ()


class Locked(NamedTuple):
    """The rows that are locked for a batch of verdicts."""

    runs: dict[int, RunRow]
    jobs: dict[int, str]  # the state of each job whose runs are to be retried
    followed: bool  # some job runs after one of them

    def is_running(self, lease: Lease) -> bool:
        """Return whether the run is running under this lease."""
        row = self.runs.get(lease.run_id)
        return row is not None and (row.lease_id, row.state) == (lease.lease_id, "running")

    def moving(self, finishes: Iterable[Finish]) -> dict[int, Finish]:
        """Return the verdicts that move a run, by run. A second verdict for the same lease is a repetition."""
        moving: dict[int, Finish] = {}
        for one in finishes:
            if self.is_running(one.lease):
                moving.setdefault(one.lease.run_id, one)
        return moving


async def lock_for(tx: Tx, finishes: Sequence[Finish]) -> Locked:
    """Lock everything that these verdicts touch, in order."""
    trying = {one.lease.record.id for one in finishes if one.verdict.state not in TERMINAL}
    jobs = {job.id: job.state for job in await tx.rows(LOCK_JOBS, list(trying))} if trying else {}
    followed = await lock_sets(tx, (one.lease.record.id for one in finishes))
    run_ids = [one.lease.run_id for one in finishes]
    await lock_gates_of(tx, run_ids)
    return Locked({run.id: run for run in await tx.rows(LOCK_RUNS, run_ids)}, jobs, followed)


async def finish(tx: Tx, finishes: Sequence[Finish]) -> list[bool]:
    """Record verdicts row by row. Return for each whether it was accepted, now or before."""
    locked = await lock_for(tx, finishes)
    moving = locked.moving(finishes)
    await move_runs(tx, list(moving.values()), locked)
    if len(moving) == len(finishes):
        return [True] * len(finishes)
    ids, names = [one.lease.run_id for one in finishes], [one.lease.lease_id for one in finishes]
    recorded = {tuple(row) for row in await tx.rows(LIST_RECORDED, ids, names)}
    return [
        moving.get(one.lease.run_id) is one
        or (one.lease.run_id, one.lease.lease_id, one.verdict.outcome.value) in recorded
        for one in finishes
    ]


async def move_runs(tx: Tx, finishes: Sequence[Finish], locked: Locked) -> None:
    """Record the attempts and move each run to its verdict's state. All are locked, and running under their lease."""
    if not finishes:
        return
    await tx.make_room(one.ended_at for one in finishes)
    await tx.each(RECORD_ATTEMPT, [_attempt(one) for one in finishes])  # the attempt's own outcome, before `_final`
    finishes = [_final(one, locked) for one in finishes]
    ending = [one for one in finishes if one.verdict.state in TERMINAL]
    trying = [one for one in finishes if one.verdict.state not in TERMINAL]
    if ending:
        await tx.each(INTO_HISTORY, [_ended_run(one) for one in ending])
        await tx.do(DELETE_ENDED, [one.lease.run_id for one in ending], [one.lease.lease_id for one in ending])
    if trying:
        await tx.each(TRY_AGAIN, [_next_try(one, locked) for one in trying])
    fault_points.point("finish.in_transaction")
    for lease, _, _, ended_at in ending:
        if lease.slot_at > ended_at and is_slot(lease.trigger):  # it was armed ahead
            await tx.do(HOLD_EDGE, lease.slot_at, lease.record.id, schedule_of(lease.trigger))
        if locked.runs[lease.run_id].delayed:
            await reopen(tx, lease.record.id, lease.trigger, ended_at)
    if ending:
        tx.hints.append(Hint("ends", ending[0].ended_at))
    await open_gates(tx, [one.lease.run_id for one in ending], ended=True)
    await open_gates(tx, [one.lease.run_id for one in trying], ended=False)
    if locked.followed:
        await follow(tx, (Ended(one.run_id, one.record.id, verdict.state, at) for one, verdict, _, at in ending))
    if trying:
        tx.hints.append(Hint("runs", min(one.verdict.due_at for one in trying)))


def _attempt(one: Finish) -> tuple[object, ...]:
    lease, verdict = one.lease, one.verdict
    outcome, error = verdict.outcome.value, plain(verdict.error)
    return lease.run_id, lease.lease_id, outcome, error, one.started_at or None, one.ended_at


def _ended_run(one: Finish) -> tuple[object, ...]:
    verdict = one.verdict
    return (
        one.lease.run_id, one.lease.lease_id, verdict.state.value, int(verdict.failed), int(verdict.recovered),
        one.started_at or None, one.ended_at, plain(verdict.reason), plain(verdict.error), plain(verdict.result),
    )  # fmt: skip


def _next_try(one: Finish, locked: Locked) -> tuple[object, ...]:
    lease, verdict = one.lease, one.verdict
    ready_at = NEVER if locked.jobs.get(lease.record.id) == "paused" else verdict.due_at
    counts = int(verdict.failed), int(verdict.recovered)
    return lease.run_id, lease.lease_id, verdict.due_at, ready_at, *counts, plain(verdict.reason)


def _final(one: Finish, locked: Locked) -> Finish:
    """Return the verdict, with a cancel instead of a retry for deleted jobs and for runs that were asked to stop."""
    lease, verdict = one.lease, one.verdict
    why = "deleted" if locked.jobs.get(lease.record.id) == "deleted" else locked.runs[lease.run_id].cancel_wanted
    if verdict.state in TERMINAL or why is None:
        return one
    return one._replace(verdict=verdict._replace(state=RunState.CANCELLED, reason=why))


async def reopen(tx: Tx, job_id: int, trigger: str, ended_at: Micros) -> None:
    """Set the next slot of a fixed delay, now that its run has ended."""
    for next_at in await tx.values(REOPEN, job_id, schedule_of(trigger), ended_at):
        tx.hints.append(Hint("schedules", next_at))


async def end_waiting(
    tx: Tx, run_id: int, state: RunState, reason: str, now: Micros, *, error: str | None = None, late: bool = False
) -> bool:
    """End a run that is not running. Return False if there is none. `late`: the run is already locked, but its gates
    are not."""
    await lock_gates_of(tx, [run_id], late=late)
    await tx.make_room([now])
    row = await tx.row(END_WAITING, run_id, state.value, plain(reason), now, error)
    if row is None:
        return False
    await tx.do(DELETE_WAITING, run_id)
    await open_gates(tx, [run_id], ended=True)
    tx.hints.append(Hint("ends", now))
    await reopen(tx, row.job_id, row.trigger, now)
    await follow(tx, [Ended(run_id, row.job_id, state, now)])
    return True
