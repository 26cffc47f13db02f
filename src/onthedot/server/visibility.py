"""Finds the jobs, runs, attempts and skips that a caller may see.

The check is part of the query or follows it immediately, so no route has a check of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from onthedot.access.permissions import Principal
from onthedot.model.errors import DefinitionError, UnknownJob, did_you_mean
from onthedot.model.job import JobRecord, JobState
from onthedot.model.run import AttemptRecord, RunRecord, SkipRecord, WaitReason
from onthedot.operations.job_lookup import near_names
from onthedot.operations.open_verbs import OpenStore, OpenVerbs
from onthedot.operations.session import no_run
from onthedot.server.auth import verbs_for
from onthedot.stores.protocol import Store
from onthedot.stores.queries import (
    AttemptCursor,
    AttemptFilter,
    JobCursor,
    JobFilter,
    RunCursor,
    RunFilter,
    SkipCursor,
    SkipFilter,
    decode_cursor,
    encode_cursor,
)

Filter = TypeVar("Filter", JobFilter, RunFilter, AttemptFilter, SkipFilter)
Cursor = TypeVar("Cursor", JobCursor, RunCursor, AttemptCursor, SkipCursor)


def visible_to(who: Principal, wanted: Filter) -> Filter:
    """Narrow a filter to what a caller may see.

    >>> from onthedot.access.permissions import LOCAL
    >>> visible_to(LOCAL, JobFilter(owner="ann")) == JobFilter(owner="ann")
    True
    """
    namespaces = wanted.namespaces
    if who.namespaces:
        namespaces = who.namespaces if namespaces is None else tuple(one for one in namespaces if one in who.namespaces)
    if who.only_own and wanted.owner not in (None, who.owner):
        namespaces = ()  # no namespace at all: the query finds nothing
    return replace(wanted, namespaces=namespaces, owner=who.owner if who.only_own else wanted.owner)


async def find_jobs(
    opened: OpenStore, who: Principal, wanted: JobFilter, *, after: str | None = None, limit: int = 100
) -> tuple[list[JobRecord], str | None]:
    """Return one page of jobs, ordered by namespace and name, and the cursor of the next page. A short page need not be
    the last."""
    page = await opened.store.queries.find_jobs(
        visible_to(who, wanted), after=read_cursor(after, JobCursor), limit=limit
    )
    return page.items, None if page.next is None else encode_cursor(page.next)


async def find_runs(
    opened: OpenStore, who: Principal, wanted: RunFilter, *, after: str | None = None, limit: int = 100
) -> tuple[list[RunRecord], str | None]:
    """One page of runs: live ones by due instant, then finished ones, the newest first."""
    page = await opened.store.queries.find_runs(
        visible_to(who, wanted), after=read_cursor(after, RunCursor), limit=limit
    )
    return page.items, None if page.next is None else encode_cursor(page.next)


async def find_attempts(
    opened: OpenStore, who: Principal, wanted: AttemptFilter, *, after: str | None = None, limit: int = 100
) -> tuple[list[AttemptRecord], str | None]:
    """One page of attempts, the newest end first."""
    page = await opened.store.queries.find_attempts(
        visible_to(who, wanted), after=read_cursor(after, AttemptCursor), limit=limit
    )
    return page.items, None if page.next is None else encode_cursor(page.next)


async def find_skips(
    opened: OpenStore, who: Principal, wanted: SkipFilter, *, after: str | None = None, limit: int = 100
) -> tuple[list[SkipRecord], str | None]:
    """One page of ranges of skipped slots, the newest record first."""
    page = await opened.store.queries.find_skips(
        visible_to(who, wanted), after=read_cursor(after, SkipCursor), limit=limit
    )
    return page.items, None if page.next is None else encode_cursor(page.next)


async def job_by_id(opened: OpenStore, who: Principal, job_id: int) -> JobRecord | None:
    """The job with this number, if the caller sees it."""
    for record in await opened.store.queries.get_jobs_by_id([job_id]):
        if record.state is not JobState.DELETED and who.sees(record.job.namespace, record.job.owner):
            return record
    return None


def read_cursor(after: str | None, kind: type[Cursor]) -> Cursor | None:
    """Read a cursor. Raise `DefinitionError` if no page can have returned it."""
    if after is None:
        return None
    try:
        cursor = decode_cursor(after, kind)
    except DefinitionError as error:
        raise DefinitionError(f"after: {error.problems[0].removeprefix('cursor: ')}") from error
    if "\0" in "".join(map(str, cursor)):  # no store returns this
        raise DefinitionError("after: expected a cursor as it was answered, got one with the character NUL in it")
    return cursor


async def visible_job(opened: OpenStore, who: Principal, job: str, namespace: str) -> tuple[OpenVerbs, JobRecord]:
    """Return a job that the caller may see, and the verbs of its namespace. Raise `UnknownJob` if there is none."""
    verbs = verbs_for(opened, who, namespace)
    record = await opened.store.queries.get_job(job, namespace=namespace)
    return verbs, await check_visible(opened, who, record, job, namespace)


async def check_visible(
    opened: OpenStore, who: Principal, record: JobRecord | None, job: str, namespace: str
) -> JobRecord:
    """Return the record found by a job's name if the caller may see it. Else raise `UnknownJob`, which suggests a
    similar name."""
    if record is None or not who.sees(namespace, record.job.owner):
        found = await near_names(opened.store.queries, job, visible_to(who, JobFilter(namespaces=(namespace,))))
        near = did_you_mean(job, found) if found else ""
        raise UnknownJob(f"no job {job!r} is stored{near if near.startswith(',') else ''}")
    return record


async def visible_run(store: Store, who: Principal, run_id: int) -> RunRecord:
    """Return a run that the caller may see. Else raise `UnknownRun`, with the same message as for a run that never
    existed."""
    run = await store.queries.get_run(run_id)
    if run is None or not who.sees(run.namespace, run.owner):
        raise no_run(run_id)
    return run


async def visible_runs(store: Store, who: Principal, run_ids: Iterable[int]) -> list[RunRecord]:
    """Return several runs by id. Raise `UnknownRun`, which names the first run that the caller may not see."""
    wanted = sorted(set(run_ids))
    found = {run.id: run for run in await store.queries.get_runs(wanted)}
    for run_id in wanted:
        run = found.get(run_id)
        if run is None or not who.sees(run.namespace, run.owner):
            raise no_run(run_id)
    return list(found.values())


async def visible_wait_reason(store: Store, who: Principal, run_id: int) -> tuple[WaitReason | None, int]:
    """Return why a run waits, and how many holders of its gate the caller may not see. The reason does not name
    those."""
    stands = await store.queries.why_waiting(run_id)
    if stands is None or not stands.holders:
        return stands, 0
    seen = {run.id for run in await store.queries.get_runs(stands.holders) if who.sees(run.namespace, run.owner)}
    named = tuple(holder for holder in stands.holders if holder in seen)
    return replace(stands, holders=named), len(stands.holders) - len(named)
