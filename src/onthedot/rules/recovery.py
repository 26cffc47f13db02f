"""Decides what happens to a run whose node died while it ran. The job's guarantee decides. Pure."""

from __future__ import annotations

from onthedot.clock import Micros
from onthedot.model.job import Guarantee, Job
from onthedot.model.run import RunState
from onthedot.model.verdict import OutcomeKind, Verdict


def decide(job: Job, *, recoveries: int, now: Micros, why: str, due_at: Micros) -> Verdict:
    """Return the verdict on an attempt that was lost with its node, after `recoveries` earlier losses.

    `at_most_once` never runs again. `at_least_once` is due again at once, up to `max_recoveries` times: a job that
    kills its worker each time must not kill the whole cluster, one worker after the other. The new attempt is not due
    before `due_at`, the due instant of the lost attempt, which was armed a little ahead.
    """
    if job.guarantee is Guarantee.AT_MOST_ONCE:
        return Verdict(RunState.LOST, OutcomeKind.LOST, "node lost", recovered=True, error=why)
    if recoveries >= job.max_recoveries:
        reason = f"lost with its node {recoveries + 1} times"
        return Verdict(RunState.DEAD, OutcomeKind.LOST, reason, recovered=True, error=why)
    again_at = max(now, due_at)
    return Verdict(RunState.SCHEDULED, OutcomeKind.LOST, "recovered", due_at=again_at, recovered=True, error=why)
