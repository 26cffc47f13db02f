"""Finds the job that a name or a run means, and the nearest names when there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from onthedot.model.errors import UnknownJob, did_you_mean
from onthedot.model.job import JobRecord, JobState
from onthedot.model.run import RunRecord
from onthedot.stores.protocol import Store
from onthedot.stores.queries import FindsJobs, JobFilter, all_jobs
from onthedot.stores.values import Node, Queue

_FEW = 1_000  # how many names are compared at most; no server has larger pages

Sees = Callable[[str, str], bool]
"""Whether the caller sees jobs of this namespace and owner."""


def sees_all(*_place: str) -> bool:
    """Return True: callers with direct access to the store see all jobs."""
    return True


async def jobs_of(store: Store, runs: Iterable[RunRecord], *, sees: Sees = sees_all) -> dict[int, JobRecord]:
    """Return the jobs of these runs by id, without jobs that were deleted or that the caller does not see. Never look
    them up by name: when a job is deleted its name is free, and the next job with it may have another owner.
    """
    found = await store.queries.get_jobs_by_id(sorted({run.job_id for run in runs}))
    return {
        record.id: record
        for record in found
        if record.state is not JobState.DELETED and sees(record.job.namespace, record.job.owner)
    }


async def job_of(store: Store, run: RunRecord, *, sees: Sees = sees_all) -> JobRecord:
    """Return the job of this run. Raise `UnknownJob` if it was deleted, or if the caller does not see it."""
    record = (await jobs_of(store, [run], sees=sees)).get(run.job_id)
    if record is None:
        named = await store.queries.get_job(run.job, namespace=run.namespace)
        other = (
            "; another job has that name now: submit that one" if named and sees(run.namespace, named.job.owner) else ""
        )
        raise UnknownJob(f"run {run.id}: its job {run.job!r} was deleted{other}")
    return record


async def find_job(store: Store, name: str, *, namespace: str = "default", known: Iterable[str] = ()) -> JobRecord:
    """Return the stored job of that name. Otherwise raise `UnknownJob` with the nearest of the stored and the `known`
    names.
    """
    record = await store.queries.get_job(name, namespace=namespace)
    if record is None:
        stored = await near_names(store.queries, name, JobFilter(namespaces=(namespace,)))
        raise UnknownJob(f"no job {name!r} is stored{did_you_mean(name, {*stored, *known})}")
    return record


async def near_names(store: FindsJobs, name: str, wanted: JobFilter) -> set[str]:
    """Return the names of these jobs, for `did_you_mean`. If there are many jobs, return only names that contain a
    third of this name: two wrong letters leave at least one third unchanged.
    """
    page = await store.find_jobs(wanted, limit=_FEW)
    found = {record.job.name for record in page.items}
    if page.next is None:
        return found
    near: set[str] = set()
    for part in _thirds(name):
        some = await all_jobs(store, replace(wanted, name_contains=part), _FEW)
        near |= {record.job.name for record in some}
    return near


def _thirds(name: str) -> set[str]:
    """
    >>> sorted(_thirds("report")), sorted(_thirds("x"))
    (['po', 're', 'rt'], ['x'])
    """
    size = max(1, len(name) // 3)
    return {part for part in (name[:size], name[size:-size], name[-size:]) if part}


class FindsQueues(FindsJobs, Protocol):
    """Lists jobs in pages, queues and nodes."""

    async def list_queues(self) -> list[Queue]:
        """See `Store`."""
        ...

    async def list_nodes(self, *, limit: int | None = None) -> list[Node]:
        """See `Store`."""
        ...


async def why_unused(store: FindsQueues, queue: str) -> str | None:
    """Return None if a job or a node uses this queue, or if somebody has paused or shared it. Otherwise return a
    message with the nearest name, from the first thousand jobs and nodes.
    """
    known = {one.name for one in await store.list_queues()}
    known |= {name for node in await store.list_nodes(limit=_FEW) for name in node.queues}
    if queue in known or await all_jobs(store, JobFilter(queue=queue), 1):
        return None
    known |= {record.job.queue for record in await all_jobs(store, JobFilter(), _FEW)}
    return f"expected a queue that a job or a node uses, got {queue!r}{did_you_mean(queue, known)}"
