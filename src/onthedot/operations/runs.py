"""Operations on runs that are stored: find, wait for, explain, cancel, run again, and read their logs. See `Verbs`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from datetime import datetime

from onthedot.clock import SECOND, Micros, to_micros
from onthedot.model.duration import Duration, micros, parse_duration
from onthedot.model.errors import DefinitionError, RunFailed, StateError, UnknownRun, did_you_mean
from onthedot.model.job import Json
from onthedot.model.run import (
    TERMINAL,
    AttemptRecord,
    NewRun,
    RunRecord,
    RunState,
    SkipRecord,
    WaitReason,
    stored_number,
)
from onthedot.model.task import Command, Steps
from onthedot.operations.cluster import live_workers
from onthedot.operations.dead_letters import REPLAYED, is_letter
from onthedot.operations.job_lookup import Sees, job_of, jobs_of, sees_all
from onthedot.operations.run_request import SubmittedRun
from onthedot.operations.session import Session, known_number, no_run
from onthedot.output.run_output import read_logs
from onthedot.rules.steps import Progress, before_failure, progress_of, rerun_trigger, steps_of
from onthedot.rules.why_waiting import Surroundings, reasons
from onthedot.schedules.instants import read_instant
from onthedot.stores.protocol import Store
from onthedot.stores.queries import RunFilter, all_runs
from onthedot.stores.values import CancelAnswer, LogRecord


async def get_run(session: Session, run_id: int) -> RunRecord | None:
    """Return a run, live or finished."""
    return await session.store.queries.get_run(stored_number(run_id))


async def list_runs(
    session: Session,
    job: str | None = None,
    *,
    states: Iterable[RunState] | None = None,
    owner: str | None = None,
    queue: str | None = None,
    label: str | None = None,
    node: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    limit: int | None = None,
) -> list[RunRecord]:
    """Return live runs first, by due instant; then finished ones, newest end first."""
    wanted = RunFilter(
        namespaces=(session.namespace_of(job or ""),),
        job=job,
        states=None if states is None else frozenset(states),
        owner=owner,
        queue=queue,
        label=label,
        node=node,
        since=_instant(since, "since"),
        until=_instant(until, "until"),
    )
    return await all_runs(session.store.queries, wanted, limit)


async def list_skips(
    session: Session,
    job: str | None = None,
    *,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    limit: int | None = None,
) -> list[SkipRecord]:
    """Return slots that did not run, each with the reason."""
    return await session.store.queries.list_skips(
        job=job,
        namespace=session.namespace_of(job or ""),
        since=_instant(since, "since"),
        until=_instant(until, "until"),
        limit=None if limit is None else max(0, limit),
    )


async def history(session: Session, run_id: int) -> list[AttemptRecord]:
    """The ended attempts of a run, in order."""
    return await session.store.queries.list_attempts(stored_number(run_id))


async def logs(session: Session, run_id: int) -> list[LogRecord]:
    """Return what the attempts of a run have logged, in order."""
    return await read_logs(session.store, session.outputs, stored_number(run_id))


async def result(session: Session, run_id: int, *, timeout: Duration | None = None) -> Json:
    """Wait until a run has ended, and return what its handler returned."""
    seconds = None if timeout is None else micros(parse_duration(timeout, what="timeout")) / SECOND
    number = known_number(run_id)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            run = await session.ends.wait(number)
    except TimeoutError:
        if not limit.expired():  # a time-out that is not ours
            raise
        raise TimeoutError(f"run {number} has not ended in time; it continues") from None
    if run is None:
        raise no_run(number)
    if run.state is not RunState.SUCCEEDED:
        raise RunFailed(run.id, state=run.state.value, reason=run.reason, error=run.error)
    return None if run.result is None else json.loads(run.result)


async def cancel(session: Session, run_id: int, *, why: str = "cancelled") -> CancelAnswer:
    """Cancel a run: at once if it waits; if it runs, it is asked to stop."""
    [answer] = await session.store.cancel([stored_number(run_id)], why=why)
    if answer.kind in ("cancelled", "asked"):
        run = await session.store.queries.get_run(run_id)
        await session.changed("runs.cancel", run or f"run/{run_id}")
    return answer


async def retry_run(session: Session, run_id: int, *, from_step: str | None = None) -> SubmittedRun:
    """Run an ended run again, from the failed step or from the named one."""
    number, token = known_number(run_id), session.ids.token()
    made, job = await rerun(session.store, number, from_step, token=token, now=session.clock.now())
    run = await session.store.queries.get_run(number)
    await session.changed("runs.retry", run or f"run/{number}", after={"run_id": made})
    return SubmittedRun(made, job, created=True)


def _instant(value: datetime | str | None, what: str) -> Micros | None:
    return None if value is None else to_micros(read_instant(value, what=what))


# ── running again ──────────────────────────────────────────────────────────────────────────────────────────────


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
    """Submit the run again. Returns the new run's id, and its job's name.

    The same key gives the same run. A dead letter is settled, as by a replay: first the new run is stored, then the
    letter is settled. If the process dies in between, the letter stays in the box. Raise `UnknownJob` if the job was
    deleted, or if the caller does not see it.
    """
    run = await store.queries.get_run(run_id)
    if run is None:
        raise UnknownRun(f"there is no run {run_id}: expected one that was submitted and not removed")
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


# ── explaining ─────────────────────────────────────────────────────────────────────────────────────────────────


async def why_waiting(
    store: Store, run: RunRecord, standing: WaitReason | None, now: Micros, *, unnamed: int = 0
) -> list[str]:
    """Return in words why a run waits; see `reasons`."""
    waits = standing is not None and run.state is not RunState.RUNNING and run.state not in TERMINAL
    around = await _surroundings(store, run, now) if waits else Surroundings()
    return reasons(run, standing, around, now, unnamed=unnamed)


async def _surroundings(store: Store, run: RunRecord, now: Micros) -> Surroundings:
    record = (await jobs_of(store, [run])).get(run.job_id)
    queues = {queue.name: queue for queue in await store.queries.list_queues(now=now)}
    queue = queues.get(run.queue)
    return Surroundings(
        job=record,
        queue_paused=None if queue is None or queue.paused_at is None else queue.reason,
        places=[] if record is None else await live_workers(store, now),
        nodes={node.incarnation: node.id for node in await store.queries.list_nodes()},
    )
