"""Submits runs: finds their jobs, checks the arguments, and stores up to 500 runs per write.

With a caller's connection, the runs exist if and only if the caller's transaction is committed. The store's loop reads
the jobs; the connection is used on the caller's own loop and thread.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from onthedot.access.audit_recorder import Counted
from onthedot.clock import Micros
from onthedot.model.errors import (
    ArgumentsError,
    DefinitionError,
    OnTheDotError,
    RevisionConflict,
    StateError,
    UnknownJob,
)
from onthedot.model.job import Call, JobRecord
from onthedot.model.run import NewRun, manual_trigger, submit_trigger
from onthedot.operations.run_request import RunRequest, SubmittedRun, Timing
from onthedot.operations.session import Session
from onthedot.runners.params import require_params
from onthedot.stores.documents import Noting
from onthedot.stores.protocol import Store
from onthedot.stores.transactions import Joins, run_now

T = TypeVar("T")

Jobs = Mapping[str, JobRecord]
"""The jobs of some requests, by name."""

_MOST_READS = 10  # how often a submit is repeated if others edit the job all the time


# ── finding and checking jobs ──────────────────────────────────────────────────────────────────────────────────


def check_arguments(record: JobRecord, args: str | None) -> None:
    """Raise `ArgumentsError` if a job without a handler does not declare these arguments (canonical JSON; None: its
    defaults).
    """
    if not isinstance(record.job.task, Call):
        require_params(record.job, record.job.args if args is None else json.loads(args))


def check_all(requests: Sequence[RunRequest], jobs: Jobs) -> None:
    """Raise `ArgumentsError` for the first request whose job does not take its arguments."""
    for one in requests:
        check_arguments(jobs[one.job], one.args)


async def find_jobs(session: Session, requests: Sequence[RunRequest]) -> Jobs:
    """Read the jobs of all requests, each once; then check every argument."""
    found: dict[str, JobRecord] = {}
    for job in dict.fromkeys(one.job for one in requests):
        found[job] = await session.find_job(job)
        session.known.keep(job, session.namespace_of(job), found[job])
    check_all(requests, found)
    return found


def known_jobs(session: Session, requests: Sequence[RunRequest]) -> Jobs | None:
    """Return the jobs of all requests as they were last read here. Return None if a job does not take its arguments.

    Also None if the requests need more than one write: then every argument is checked against the current jobs before
    the first write.
    """
    if len(requests) > session.settings.batch:
        return None
    found: dict[str, JobRecord] = {}
    for one in requests:
        record = session.known.get(one.job, session.namespace_of(one.job))
        if record is None:
            return None
        found[one.job] = record
    try:
        check_all(requests, found)
    except ArgumentsError:
        return None  # the stored job decides
    return found


async def write_checked(
    session: Session, requests: Sequence[RunRequest], jobs: Jobs | None, write: Callable[[Jobs], Awaitable[T]]
) -> T:
    """Write runs of `jobs`, against which the requests were checked (None: read and check them first). If one of the
    jobs was edited or deleted since, read them again and repeat.

    `write` names the revision of each job, so that the store compares it. It may be called several times, and must
    store the same runs each time."""
    for _ in range(_MOST_READS):
        if jobs is not None:
            with suppress(RevisionConflict, UnknownJob):
                return await write(jobs)
        jobs = await find_jobs(session, requests)
    return await write(jobs or {})


# ── storing runs ─────────────────────────────────────────────────────────────────────────────────────────────────


async def submit(
    session: Session,
    requests: Sequence[RunRequest],
    timing: Timing = Timing(),  # noqa: B008 - it is frozen
) -> list[SubmittedRun]:
    """Store the requested runs, `Settings.batch` of them per call of the store (see `Store.submit`)."""
    jobs = known_jobs(session, requests)
    if jobs is None:
        jobs = await find_jobs(session, requests)
    made: list[SubmittedRun] = []
    for some in batches(session, requests):
        draws = Draw.new(session, timing).each(len(some))
        made += await write_checked(session, some, jobs, partial(_store, session, some, draws))
    return made


async def submit_together(
    session: Session, asked: Sequence[tuple[RunRequest, Timing]]
) -> list[SubmittedRun | Exception]:
    """Store runs of several callers with one write. Each caller gets the answer that `submit` would give."""
    requests = [request for request, _ in asked]
    draws = [Draw.new(session, timing) for _, timing in asked]
    jobs = known_jobs(session, requests)
    if jobs is not None:
        with suppress(RevisionConflict, UnknownJob):  # a store that makes several writes may have stored some
            return [*await _store(session, requests, draws, jobs)]
    return [await _alone(session, request, draw) for request, draw in zip(requests, draws, strict=True)]


async def _alone(session: Session, request: RunRequest, draw: Draw) -> SubmittedRun | Exception:
    """Store one run. It has the draw of the first try, so it is not stored twice."""
    try:
        [made] = await write_checked(session, [request], None, partial(_store, session, [request], [draw]))
    except OnTheDotError as error:
        return error
    return made


async def trigger(session: Session, request: RunRequest) -> SubmittedRun:
    """Store one run by hand, due now."""
    drawn, now = manual_trigger(session.ids.token()), session.clock.now()

    async def write(jobs: Jobs) -> SubmittedRun:
        record, recorder = jobs[request.job], session.recorder
        noting = None if recorder is None else recorder.noting_run("runs.trigger", record.job)
        run = NewRun(record.id, drawn, now, request.args, revision=record.revision, is_new=True)
        [(run_id, created)] = await insert_runs(session.store, [run], noting=noting)
        return SubmittedRun(run_id, request.job, created)

    return await write_checked(session, [request], known_jobs(session, [request]), write)


async def _store(
    session: Session, requests: Sequence[RunRequest], draws: Sequence[Draw], jobs: Jobs
) -> list[SubmittedRun]:
    """Store runs with one write, and record it in the audit."""
    runs = drawn_runs(requests, draws, jobs)
    if session.recorder is None:
        made = await insert_runs(session.store, runs)
    else:
        with session.recorder.submitting(counted(requests, jobs)) as noting:
            made = await insert_runs(session.store, runs, noting=noting)
    return [SubmittedRun(run_id, one.job, created) for (run_id, created), one in zip(made, requests, strict=True)]


def batches(session: Session, requests: Sequence[RunRequest]) -> list[Sequence[RunRequest]]:
    """Return the requests in batches of the size of one write."""
    size = session.settings.batch
    return [requests[first : first + size] for first in range(0, len(requests), size)]


class Draw(NamedTuple):
    """The random token and the instants of a new run. A repeated write uses the same draw, so it stores the
    same run.
    """

    token: str
    due_at: Micros
    expires_at: Micros | None

    @classmethod
    def new(cls, session: Session, timing: Timing) -> Draw:
        """Draw them now."""
        due_at = session.clock.now() + timing.delay
        return cls(session.ids.token(), due_at, None if timing.expires is None else due_at + timing.expires)

    def each(self, count: int) -> list[Draw]:
        """Return a draw for each of `count` runs of one call, with the same instants."""
        return [Draw(f"{self.token}-{number}", self.due_at, self.expires_at) for number in range(count)]


def drawn_runs(requests: Sequence[RunRequest], draws: Sequence[Draw], jobs: Jobs) -> list[NewRun]:
    """Return the runs to store, each with its job's revision. The trigger of each shows afterwards whether this call
    created it."""
    return [
        NewRun(
            jobs[one.job].id, submit_trigger(draw.token), draw.due_at, one.args, one.key, draw.expires_at,
            revision=jobs[one.job].revision, is_new=True,
        )
        for one, draw in zip(requests, draws, strict=True)
    ]  # fmt: skip


def counted(requests: Sequence[RunRequest], jobs: Jobs) -> Counted:
    """Return the number of runs of each job, for the audit."""
    if len(requests) == 1:  # the usual case, on the path of every submit
        record = jobs[requests[0].job]
        return {record.id: (record.job, 1)}
    counts = Counter(one.job for one in requests)
    return {jobs[job].id: (jobs[job].job, count) for job, count in counts.items()}


async def insert_runs(store: Store, runs: Sequence[NewRun], *, noting: Noting | None = None) -> list[tuple[int, bool]]:
    """Store runs with new triggers, and the audit entry about them.

    Returns the id of each, and whether this call created it (False: a run with its key was stored before)."""
    ids = await store.submit(runs, noting=noting)
    if not any(run.key for run in runs):
        return [(run_id, True) for run_id in ids]
    keyed = [run_id for run_id, run in zip(ids, runs, strict=True) if run.key]
    # Each request draws a trigger. If the stored run of a key has our trigger, this call created it.
    triggers = {run.id: run.trigger for run in await store.queries.get_runs(keyed)}
    return [(run_id, triggers.get(run_id, run.trigger) == run.trigger) for run_id, run in zip(ids, runs, strict=True)]


# ── in a transaction of the caller ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class JoinedSubmit:
    """Checked requests, ready to be stored with the caller's connection."""

    session: Session
    store: Joins
    requests: Sequence[RunRequest]
    jobs: Jobs
    timing: Timing
    is_read: bool
    """True if the jobs were read for this call, and not for an earlier one."""

    async def submit(self, connection: Any) -> list[SubmittedRun] | None:
        """Store the runs. Call this on the loop of the connection, which is not the engine's loop.

        Return None, and store nothing, if a job that was read for an earlier call has changed. Then call `read_again`
        and repeat. Raise `RevisionConflict` if the job was read for this call: the caller's transaction may see an
        older state than the store has now.
        """
        made: list[SubmittedRun] = []
        try:
            for some in batches(self.session, self.requests):
                made += await self._store(connection, some)
        except (RevisionConflict, UnknownJob, StateError):
            if self.is_read:
                raise
            return None
        return made

    async def _store(self, connection: Any, requests: Sequence[RunRequest]) -> list[SubmittedRun]:
        blocks = self.store.blocks(connection)
        jobs = [self.jobs[job] for job in {one.job for one in requests}]
        runs = drawn_runs(requests, Draw.new(self.session, self.timing).each(len(requests)), self.jobs)
        joined = await wait_for(self.store.submit_within(connection, runs, jobs), blocks=blocks)
        return [SubmittedRun(one.id, each.job, one.created) for one, each in zip(joined, requests, strict=True)]


async def join_submit(session: Session, requests: Sequence[RunRequest], timing: Timing) -> JoinedSubmit:
    """Check the requests on the store's loop, and count them in the audit."""
    store, known = joining(session.store), known_jobs(session, requests)
    jobs = await find_jobs(session, requests) if known is None else known
    if session.recorder is not None:
        await session.recorder.submit_elsewhere(counted(requests, jobs))
    return JoinedSubmit(session, store, requests, jobs, timing, is_read=known is None)


async def read_again(session: Session, joined: JoinedSubmit) -> JoinedSubmit:
    """Return the same requests, checked against the current jobs."""
    return replace(joined, jobs=await find_jobs(session, joined.requests), is_read=True)


def joining(store: object) -> Joins:
    """Return the store's part that joins transactions. Raise `DefinitionError` if the store has none."""
    if isinstance(store, Joins):
        return store
    raise DefinitionError(
        "connection: expected a store that can take part in a transaction of yours (PostgreSQL), got one that cannot; "
        "leave 'connection' out, and submit when your transaction is committed"
    )


async def wait_for(work: Coroutine[Any, Any, T], *, blocks: bool) -> T:
    """Return the result of the work. Await it here or, if it blocks, run it on a new thread, so that this loop stays
    free.

    The thread does not come from a pool. The work may wait until another transaction ends, and that transaction needs a
    free thread to end. If the caller is cancelled, the work ends first: until then the connection is in use."""
    if not blocks:
        return await work
    answer: Future[T] = Future()

    def go() -> None:
        try:
            answer.set_result(run_now(work))
        except BaseException as error:  # noqa: BLE001 - raised to the waiting caller
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
        waiting.exception()  # read the error, so that asyncio does not report it as lost
        raise cancelled
    return waiting.result()
