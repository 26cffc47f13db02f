"""Submits runs in a transaction that the caller has open: they exist exactly if it is committed.

The store's loop reads the jobs; the connection is used on the caller's own loop and thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from onthedot.model.errors import DefinitionError
from onthedot.model.job import JobRecord
from onthedot.operations.run_request import RunRequest, SubmittedRun, Timing
from onthedot.operations.session import Session
from onthedot.operations.submit import batches, counted, find_jobs, new_runs
from onthedot.stores.transactions import Joins, run_now

T = TypeVar("T")


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
