"""Runs a job again from the step at which an earlier run ended, or from a named step."""

from __future__ import annotations

import json

from onthedot.clock import Micros
from onthedot.model.errors import DefinitionError, StateError, UnknownRun, did_you_mean
from onthedot.model.run import TERMINAL, NewRun, RunRecord, RunState
from onthedot.model.task import Command, Steps
from onthedot.operations.dead_letters import REPLAYED, is_letter
from onthedot.operations.job_lookup import Sees, job_of, sees_all
from onthedot.rules.steps import Progress, before_failure, progress_of, rerun_trigger, steps_of
from onthedot.stores.protocol import Store


async def rerun(
    store: Store,
    run_id: int,
    from_step: str | None,
    *,
    token: str,
    now: Micros,
    key: str = "",
    sees: Sees = sees_all,
) -> tuple[int, str]:
    """Submit it; the new run's id, and its job's name. Under the same key it is the same run, however often. A dead
    letter is settled by it, as by a replay: first the new run, then the settling, so that what is lost in between is
    seen in the box, and not forgotten. `UnknownJob` if its job was deleted, or the caller does not see it."""
    run = await store.queries.get_run(run_id)
    if run is None:
        raise UnknownRun(f"there is no run {run_id}: expected one that was submitted and not forgotten since")
    if run.state not in TERMINAL:
        raise StateError(f"run {run_id}: expected one that has ended, it is {run.state}; cancel it first, or wait")
    record = await job_of(store, run, sees=sees)
    task = record.job.task
    if not isinstance(task, Command | Steps):
        raise DefinitionError(f"run {run_id}: expected one of a command or of steps; submit {run.job!r} instead")
    saved = await store.queries.get_checkpoint(run_id)
    progress = before_failure(progress_of(None if saved is None else json.loads(saved.value), steps_of(task)))
    at = _step(task, run, progress, from_step)
    args = run.args  # None: the job's own
    [made] = await store.submit([NewRun(record.id, rerun_trigger(run_id, at, token), now, args, key)])
    if is_letter(run):
        await store.settle_dead([(run_id, f"{REPLAYED}{made}")])
    return made, run.job


def _step(task: Command | Steps, run: RunRecord, progress: Progress, from_step: str | None) -> int:
    reached = len(progress.done)
    if from_step is None:
        return 0 if run.state is RunState.SUCCEEDED else reached
    names = [step.name for step in steps_of(task)]
    if from_step not in names:
        raise DefinitionError(
            f"from_step: expected a step of job {run.job!r}, got {from_step!r}{did_you_mean(from_step, names)}"
        )
    at = names.index(from_step)
    if at > reached:
        raise DefinitionError(
            f"from_step: expected {names[reached]!r} or a step before it, got {from_step!r}, "
            f"which run {run.id} has not come to"
        )
    return at
