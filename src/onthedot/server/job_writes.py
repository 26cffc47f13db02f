"""Stores and deletes jobs for a caller. The permissions depend on what a job does, and on what it did before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from fastapi import Request

from onthedot.access.permissions import Permission, Principal, Role, writing_needs
from onthedot.model.errors import RevisionConflict
from onthedot.model.job import Job, JobRecord
from onthedot.operations.open_verbs import OpenStore
from onthedot.operations.put_job import check_read
from onthedot.server.audit import record_change
from onthedot.server.auth import verbs_for
from onthedot.server.compute import in_thread
from onthedot.server.definitions import definition_of
from onthedot.server.etags import check_match
from onthedot.server.problems import Problem
from onthedot.server.quotas import room_for_job
from onthedot.stores.values import PutJob

_TRIES = 10

Check = Callable[[JobRecord | None], None]
Make = Callable[[JobRecord | None], Job]


class JobKey(NamedTuple):
    """The key of a job: its namespace and name."""

    namespace: str
    name: str


class WrittenJob(NamedTuple):
    """What was stored, and the job before."""

    before: JobRecord | None
    put: PutJob


# ── permissions ──────────────────────────────────────────────────────────────────────────────────────────────────


def check_may_write(who: Principal, job: Job) -> None:
    """403 unless the caller may write or delete a job that does this."""
    needed = writing_needs(job.task)
    if not (who.may(Permission.JOBS_WRITE) and who.may(needed)):
        what = type(job.task).__name__.lower()
        raise Problem(403, "forbidden", f"job {job.name!r} ({what}): {who.name} may not write it: expected {needed}")
    if job.paused is not None and not who.may(Permission.JOBS_CONTROL):
        needed = Permission.JOBS_CONTROL
        raise Problem(403, "forbidden", f"paused: {who.name} may not pause or resume {job.name!r}: expected {needed}")


def check_sees(who: Principal, name: str, before: JobRecord | None) -> None:
    """404 if a job of this name is stored that the caller does not see."""
    if before is not None and not who.sees(before.job.namespace, before.job.owner):
        raise unknown_job(name)


def unknown_job(name: str) -> Problem:
    """404: there is no such job."""
    return Problem(404, "unknown", f"no job {name!r} is stored")


def with_owner(who: Principal, job: Job, before: JobRecord | None, *, said: bool) -> Job:
    """The job with its owner: whoever created it. Only an admin may name another one."""
    keeps = who.owner if before is None else before.job.owner
    if job.owner == keeps:
        return job
    if not said:
        return replace(job, owner=keeps)
    if who.role is not Role.ADMIN or who.only_own:
        problem = f"owner: expected {keeps!r}, got {job.owner!r}; only an admin may say another"
        raise Problem(403, "forbidden", problem)
    return job


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────


async def write_job(
    request: Request,
    there: OpenStore,
    who: Principal,
    key: JobKey,
    check: Check,
    make: Make,
    *,
    revision: int | None = None,
) -> WrittenJob:
    """Store the job that `make` makes of the stored one, unless `check` refuses that one. Only the job that was checked
    is replaced: if another writer is faster, check and make it again. `revision` is as in `Verbs.put`."""
    verbs = verbs_for(there, who, key.namespace)
    for _ in range(_TRIES):
        before = await there.store.queries.get_job(key.name, namespace=key.namespace)
        job = await in_thread(checked_job, who, before, check, make)
        if before is None or before.job != job:
            check_read(job, before, revision)
        try:
            async with room_for_job(request, job, before):
                put = await verbs.put(job, revision=0 if before is None else before.revision)
        except RevisionConflict:
            continue
        if put.change != "unchanged":
            was = None if before is None else definition_of(before.job)
            verb = "jobs.create" if before is None else "jobs.edit"
            await record_change(request, verb, job, before=was, after=definition_of(put.record.job))
        if put.pause:
            await record_change(request, f"jobs.{put.pause}", job)
        return WrittenJob(before, put)
    raise _busy(key.name)


def checked_job(who: Principal, before: JobRecord | None, check: Check, make: Make) -> Job:
    """The job to store in place of this one, if the caller may write both."""
    check(before)
    if before is not None:
        check_may_write(who, before.job)
    job = make(before)
    check_may_write(who, job)
    return job


async def create_job(request: Request, there: OpenStore, who: Principal, job: Job, *, said: bool) -> JobRecord:
    """Store a new job; 409 if its name is taken. `said`: the body names its owner."""

    def check(before: JobRecord | None) -> None:
        if before is not None:
            raise _taken(job)

    key = JobKey(job.namespace, job.name)
    written = await write_job(request, there, who, key, check, lambda before: with_owner(who, job, before, said=said))
    if written.put.change != "created":  # another writer was faster, with the same definition
        raise _taken(job)
    return written.put.record


async def remove_job(
    request: Request,
    there: OpenStore,
    who: Principal,
    key: JobKey,
    *,
    if_match: str | None = None,
    job_id: int | None = None,
) -> int:
    """Delete exactly the revision that was checked; returns how many waiting runs were cancelled. With `job_id`, only
    the job with this number."""
    verbs_for(there, who, key.namespace)
    for _ in range(_TRIES):
        record = await there.store.queries.get_job(key.name, namespace=key.namespace)
        if record is None or (job_id is not None and record.id != job_id):
            raise unknown_job(key.name)
        check_sees(who, key.name, record)
        check_match(record, if_match, None)
        check_may_write(who, record.job)
        try:
            cancelled = await there.store.delete_job(record.id, expected=record.revision)
        except RevisionConflict:
            continue
        await record_change(request, "jobs.delete", record.job, before=definition_of(record.job))
        return cancelled
    raise _busy(key.name)


def _taken(job: Job) -> Problem:
    return Problem(
        409,
        "conflict",
        f"name: expected one that no job of namespace {job.namespace!r} has, got {job.name!r}; "
        f"to replace it: PUT /api/v1/jobs/{job.name}",
    )


def _busy(name: str) -> Problem:
    return Problem(409, "conflict", f"job {name!r}: expected a moment in which nobody else edits it; ask again")
