"""How the oracle ends a run, and what follows in the same write."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.model.errors import StateError
from onthedot.model.job import JobState
from onthedot.model.run import MOVES, TERMINAL, AttemptRecord, RunState
from onthedot.model.verdict import Finish, Verdict
from onthedot.stores.values import Parent
from tests.contract.oracle.lines import leave
from tests.contract.oracle.world import Job, Run, World

FAILURE = {RunState.DEAD, RunState.LOST}
COUNTS = {
    "success": {RunState.SUCCEEDED},
    "failure": FAILURE,
    "either": {RunState.SUCCEEDED} | FAILURE,
}


def check_verdict(verdict: Verdict) -> None:
    if verdict.state not in MOVES[RunState.RUNNING]:
        raise StateError(verdict.state)


def finish(world: World, finishes: Sequence[Finish]) -> list[bool]:
    """Record verdicts. A repetition is accepted, and a stale one is not."""
    for one in finishes:
        check_verdict(one.verdict)
    answers = []
    for one in finishes:
        run = world.run(one.lease.run_id)
        if run is not None and run.is_held_under(one.lease.lease_id, RunState.RUNNING):
            end_attempt(world, run, one.verdict, started_at=one.started_at, ended_at=one.ended_at)
            answers.append(True)
        else:
            said = (one.lease.lease_id, str(one.verdict.outcome))
            answers.append(run is not None and any((tried.lease_id, tried.outcome) == said for tried in run.tried))
    return answers


def end_attempt(world: World, run: Run, verdict: Verdict, *, started_at: int, ended_at: int) -> None:
    """The only way out of running."""
    hold, job = run.hold, run.job
    assert hold is not None
    run.tried.append(
        AttemptRecord(
            run.id, run.attempts, hold.lease_id, hold.fence, hold.node, hold.revision, str(verdict.outcome),
            verdict.error, run.due_at, hold.reserved_at, hold.armed_at, started_at or None, ended_at,
        )
    )  # fmt: skip
    run.failures += verdict.failed
    run.recoveries += verdict.recovered
    run.granted_at, run.granted_by, run.hold = None, "", None
    state, reason = verdict.state, verdict.reason
    if state not in TERMINAL and job.state is JobState.DELETED:
        state, reason = RunState.CANCELLED, "deleted"
    elif state not in TERMINAL and run.cancel_wanted is not None:
        state, reason = RunState.CANCELLED, run.cancel_wanted
    run.cancel_wanted = None
    if state in TERMINAL:
        run.armed_at, run.started_at, run.result = hold.armed_at, started_at or None, verdict.result
        end(world, run, state, reason, ended_at, error=verdict.error)
        return
    run.wait_until(None if job.state is JobState.PAUSED else verdict.due_at)
    run.due_at, run.reason, run.rank = verdict.due_at, reason, None
    leave(world, run, [gate.key for gate in run.gates if not gate.until_end])


def end(world: World, run: Run, state: RunState, reason: str, now: int, *, error: str | None = None) -> None:
    """The only way into a terminal state."""
    assert run.is_live
    run.state, run.reason, run.ended_at, run.error = state, reason, now, error
    run.hold, run.waits_at, run.ready_at, run.delayed_under = None, None, None, ""
    world.runs.remove(run)
    world.runs.append(run)
    leave(world, run, [gate.key for gate in run.gates])
    _next_of_fixed_delay(run, now)
    for child in [job for job in world.jobs.values() if job.state is not JobState.DELETED]:
        _run_after(world, child, run, now)


def _next_of_fixed_delay(run: Run, now: int) -> None:
    """The next slot of a fixed delay counts from the end of its run."""
    for schedule in run.job.schedules.values():
        if schedule.delay is not None and run.trigger == f"schedule:{schedule.id}":
            schedule.last_end, schedule.next_at = now, now + schedule.delay


def _run_after(world: World, child: Job, run: Run, now: int) -> None:
    """Note the end of a parent's run. If it completes the set, insert a run of the child."""
    after, parent = child.definition.after, run.job
    if after is None or parent.name not in after.parents:
        return
    if child.definition.namespace != parent.definition.namespace or run.state not in COUNTS[after.on]:
        return
    if not after.any:
        child.parents[parent.name] = Parent(parent.name, run.id, now)
        if len(child.parents) < len(after.parents):
            return
        child.parents.clear()
    world.insert(child, f"after:{run.id}", now, due_at=now, now=now)
