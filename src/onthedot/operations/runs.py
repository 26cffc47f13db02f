"""Operations on runs that are stored: find, wait for, cancel, run again, and read their logs. See `Verbs`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from datetime import datetime

from onthedot.clock import SECOND, Micros, to_micros
from onthedot.model.duration import Duration, micros, parse_duration
from onthedot.model.errors import RunFailed
from onthedot.model.job import Json
from onthedot.model.run import AttemptRecord, RunRecord, RunState, SkipRecord, stored_number
from onthedot.operations.rerun import rerun
from onthedot.operations.run_request import SubmittedRun
from onthedot.operations.session import Session, known_number, no_run
from onthedot.output.run_output import read_logs
from onthedot.schedules.instants import read_instant
from onthedot.stores.queries import RunFilter, all_runs
from onthedot.stores.values import CancelAnswer, LogRecord


async def get_run(session: Session, run_id: int) -> RunRecord | None:
    """A run, live or finished."""
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
    """Live runs first, by due instant; then finished ones, newest end first."""
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
    """Slots that did not run, and why."""
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
    """What the attempts of a run have logged, in order."""
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
        if not limit.expired():  # another one than that of `timeout`
            raise
        raise TimeoutError(f"run {number} has not ended in time; it goes on") from None
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
    """Run again what has ended, from the step that failed or from the named one."""
    number, token = known_number(run_id), session.ids.token()
    made, job = await rerun(session.store, number, from_step, token=token, now=session.clock.now())
    run = await session.store.queries.get_run(number)
    await session.changed("runs.retry", run or f"run/{number}", after={"run_id": made})
    return SubmittedRun(made, job, created=True)


def _instant(value: datetime | str | None, what: str) -> Micros | None:
    return None if value is None else to_micros(read_instant(value, what=what))
