"""Submits runs: finds their jobs, checks the arguments, and stores 500 runs to a write.

With a caller's connection, the runs exist exactly if the caller's transaction is committed. The store's loop reads the
jobs; the connection is used on the caller's own loop and thread.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from onthedot.access.audit_recorder import Counted
from onthedot.model.errors import ArgumentsError, DefinitionError, RevisionConflict, UnknownJob
from onthedot.model.job import Call, JobRecord
from onthedot.model.run import NewRun, manual_trigger, submit_trigger
from onthedot.operations.run_request import RunRequest, SubmittedRun, Timing
from onthedot.operations.session import Session
from onthedot.runners.params import require_params
from onthedot.stores.documents import Noting
from onthedot.stores.protocol import Store
from onthedot.stores.transactions import Joins, run_now
from onthedot.stores.values import ONE_WRITE


def check_arguments(record: JobRecord, args: str | None) -> None:
    """`ArgumentsError` if a job that is no handler does not declare these arguments (canonical JSON; None: its own)."""
    if not isinstance(record.job.task, Call):
        require_params(record.job, record.job.args if args is None else json.loads(args))


async def find_jobs(session: Session, requests: Sequence[RunRequest]) -> dict[str, JobRecord]:
    """Read the jobs of all requests, each once; then check every argument."""
    found: dict[str, JobRecord] = {}
    for job in dict.fromkeys(one.job for one in requests):
        found[job] = await session.find_job(job)
        session.known.keep(job, session.namespace_of(job), found[job])
    for one in requests:
        check_arguments(found[one.job], one.args)
    return found


def known_jobs(session: Session, requests: Sequence[RunRequest]) -> dict[str, JobRecord] | None:
    """The jobs of all requests as they were last read here, if that is enough; else None.

    Not for more than one write of the store: the first could be stored before the second finds that a job was edited,
    and then be stored again."""
    if len(requests) > min(session.settings.batch, ONE_WRITE):
        return None
    found: dict[str, JobRecord] = {}
    for one in requests:
        record = session.known.get(one.job, session.namespace_of(one.job))
        if record is None:
            return None
        found[one.job] = record
    return found


# ── storing runs ─────────────────────────────────────────────────────────────────────────────────────────────────


async def submit(
    session: Session,
    requests: Sequence[RunRequest],
    timing: Timing = Timing(),  # noqa: B008 - it is frozen
) -> list[SubmittedRun]:
    """Store the requested runs, `Settings.batch` of them to a call of the store (see `Store.submit`)."""
    known = known_jobs(session, requests)
    if known is not None:
        with suppress(ArgumentsError, RevisionConflict, UnknownJob):  # the job as it is now decides
            for one in requests:
                check_arguments(known[one.job], one.args)
            return await _store(session, requests, known, timing, same_revision=True)
    jobs = await find_jobs(session, requests)
    made: list[SubmittedRun] = []
    for some in batches(session, requests):
        made += await _store(session, some, jobs, timing)
    return made


async def trigger(session: Session, request: RunRequest) -> SubmittedRun:
    """Store one run by hand, due now."""
    jobs = await find_jobs(session, [request])
    recorder = session.recorder
    noting = None if recorder is None else recorder.noting_run("runs.trigger", jobs[request.job].job)
    run = NewRun(jobs[request.job].id, manual_trigger(session.ids.token()), session.clock.now(), request.args)
    [(run_id, created)] = await insert_runs(session.store, [run], noting=noting)
    return SubmittedRun(run_id, request.job, created)


async def _store(
    session: Session,
    requests: Sequence[RunRequest],
    jobs: Mapping[str, JobRecord],
    timing: Timing,
    *,
    same_revision: bool = False,
) -> list[SubmittedRun]:
    """One write, and what the audit says of it. `same_revision`: refuse it if a job was edited since it was read."""
    runs = new_runs(session, requests, jobs, timing)
    if same_revision:
        runs = [replace(run, revision=jobs[one.job].revision) for run, one in zip(runs, requests, strict=True)]
    if session.recorder is None:
        made = await insert_runs(session.store, runs)
    else:
        with session.recorder.submitting(counted(requests, jobs)) as noting:
            made = await insert_runs(session.store, runs, noting=noting)
    return [SubmittedRun(run_id, one.job, created) for (run_id, created), one in zip(made, requests, strict=True)]


def batches(session: Session, requests: Sequence[RunRequest]) -> list[Sequence[RunRequest]]:
    """The requests, as many to a batch as one write may hold."""
    size = session.settings.batch
    return [requests[first : first + size] for first in range(0, len(requests), size)]


def new_runs(
    session: Session, requests: Sequence[RunRequest], jobs: Mapping[str, JobRecord], timing: Timing
) -> list[NewRun]:
    """The runs to store. Each has a trigger of its own, which tells afterwards whether this call created it."""
    token, due_at = session.ids.token(), session.clock.now() + timing.delay
    expires_at = None if timing.expires is None else due_at + timing.expires
    return [
        NewRun(jobs[one.job].id, submit_trigger(f"{token}-{number}"), due_at, one.args, one.key, expires_at)
        for number, one in enumerate(requests)
    ]


def counted(requests: Sequence[RunRequest], jobs: Mapping[str, JobRecord]) -> Counted:
    """How many runs of which jobs, for the audit."""
    if len(requests) == 1:  # the usual case, on the path of every submit
        record = jobs[requests[0].job]
        return {record.id: (record.job, 1)}
    counts = Counter(one.job for one in requests)
    return {jobs[job].id: (jobs[job].job, count) for job, count in counts.items()}


async def insert_runs(store: Store, runs: Sequence[NewRun], *, noting: Noting | None = None) -> list[tuple[int, bool]]:
    """Store runs whose triggers were drawn for this call, and what is to be noted of them: the id of each, and whether
    this call has created it. False: a run with its key was there already."""
    ids = await store.submit(runs, noting=noting)
    if not any(run.key for run in runs):
        return [(run_id, True) for run_id in ids]
    keyed = [run_id for run_id, run in zip(ids, runs, strict=True) if run.key]
    # A trigger is drawn for each asking: under a key, the run that has ours is the one that this call created.
    triggers = {run.id: run.trigger for run in await store.queries.get_runs(keyed)}
    return [(run_id, triggers.get(run_id, run.trigger) == run.trigger) for run_id, run in zip(ids, runs, strict=True)]


T = TypeVar("T")


# ── in a transaction of the caller ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class JoinedSubmit:
    """Checked requests, ready to be stored with the caller's connection."""

    session: Session
    store: Joins
    requests: Sequence[RunRequest]
    jobs: Mapping[str, JobRecord]
    timing: Timing

    async def submit(self, connection: Any) -> list[SubmittedRun]:
        """Store the runs. Called on the loop of the connection, which is not that of the engine."""
        made: list[SubmittedRun] = []
        for some in batches(self.session, self.requests):
            blocks = self.store.blocks(connection)
            jobs = [self.jobs[job] for job in {one.job for one in some}]
            runs = new_runs(self.session, some, self.jobs, self.timing)
            joined = await wait_for(self.store.submit_within(connection, runs, jobs), blocks=blocks)
            made += [SubmittedRun(one.id, each.job, one.created) for one, each in zip(joined, some, strict=True)]
        return made


async def join_submit(session: Session, requests: Sequence[RunRequest], timing: Timing) -> JoinedSubmit:
    """Check the requests on the store's loop, and count them in the audit."""
    store, jobs = joining(session.store), await find_jobs(session, requests)
    if session.recorder is not None:
        await session.recorder.submit_elsewhere(counted(requests, jobs))
    return JoinedSubmit(session, store, requests, jobs, timing)


def joining(store: object) -> Joins:
    """The store, if it can; `DefinitionError` if it cannot."""
    if isinstance(store, Joins):
        return store
    raise DefinitionError(
        "connection: expected a store that can take part in a transaction of yours (PostgreSQL), got one that cannot; "
        "leave 'connection' out, and submit when your transaction is committed"
    )


async def wait_for(work: Coroutine[Any, Any, T], *, blocks: bool) -> T:
    """What comes of it: here, or if it blocks on a thread of its own, so that this loop goes on.

    A thread of its own, not one of a pool: somebody may wait there for as long as another's transaction is open, and
    that one must find a thread to end it. Cancelled, it ends first: nobody else may use the connection before."""
    if not blocks:
        return await work
    answer: Future[T] = Future()

    def go() -> None:
        try:
            answer.set_result(run_now(work))
        except BaseException as error:  # noqa: BLE001 - raised to who waits
            answer.set_exception(error)

    threading.Thread(target=go, name="onthedot submit", daemon=True).start()
    waiting = asyncio.wrap_future(answer)
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.wait([waiting])  # a cancel ends the wait alone
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        waiting.exception()  # nobody asks for it any more
        raise cancelled
    return waiting.result()
