"""Stores and deletes jobs for a caller: checks permissions, If-Match and quotas, and records each change in the audit.

The needed permission depends on the task that a job has, and on the task that it had before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, NamedTuple

from fastapi import Header, Request

from onthedot.access.permissions import Permission, Principal, Role, writing_needs
from onthedot.model.errors import RevisionConflict
from onthedot.model.job import Job, JobRecord
from onthedot.operations.open_verbs import OpenStore
from onthedot.operations.put_job import check_read
from onthedot.server.audit import record_change
from onthedot.server.auth import verbs_for
from onthedot.server.compute import in_thread
from onthedot.server.models import definition_of
from onthedot.server.problems import FieldProblem, Problem
from onthedot.server.quotas import room_for_job
from onthedot.stores.values import PutJob

_TRIES = 10

Check = Callable[[JobRecord | None], None]
Make = Callable[[JobRecord | None], Job]


class JobKey(NamedTuple):
    """The namespace and name of a job."""

    namespace: str
    name: str


class WrittenJob(NamedTuple):
    """The result of a write, and the job before it."""

    before: JobRecord | None
    put: PutJob


# ── permissions ──────────────────────────────────────────────────────────────────────────────────────────────────


def check_may_write(who: Principal, job: Job) -> None:
    """Raise 403 unless the caller may write or delete a job with this task."""
    needed = writing_needs(job.task)
    if not (who.may(Permission.JOBS_WRITE) and who.may(needed)):
        what = type(job.task).__name__.lower()
        raise Problem(403, "forbidden", f"job {job.name!r} ({what}): {who.name} may not write it: expected {needed}")
    if job.paused is not None and not who.may(Permission.JOBS_CONTROL):
        needed = Permission.JOBS_CONTROL
        raise Problem(403, "forbidden", f"paused: {who.name} may not pause or resume {job.name!r}: expected {needed}")


def check_sees(who: Principal, name: str, before: JobRecord | None) -> None:
    """Raise 404 if the stored job of this name is one that the caller may not see."""
    if before is not None and not who.sees(before.job.namespace, before.job.owner):
        raise unknown_job(name)


def unknown_job(name: str) -> Problem:
    """The 404 answer for a job that is not stored."""
    return Problem(404, "unknown", f"no job {name!r} is stored")


def with_owner(who: Principal, job: Job, before: JobRecord | None, *, names_owner: bool) -> Job:
    """Return the job with its owner: the owner of the stored job or, for a new job, the owner of the caller. Only an
    admin may name another owner. `names_owner` is True if the request names an owner."""
    keeps = who.owner if before is None else before.job.owner
    if job.owner == keeps:
        return job
    if not names_owner:
        return replace(job, owner=keeps)
    if who.role is not Role.ADMIN or who.only_own:
        problem = f"owner: expected {keeps!r}, got {job.owner!r}; only an admin may say another"
        raise Problem(403, "forbidden", problem)
    return job


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────


async def write_job(
    request: Request,
    opened: OpenStore,
    who: Principal,
    key: JobKey,
    check: Check,
    make: Make,
    *,
    revision: int | None = None,
) -> WrittenJob:
    """Store the job that `make` returns for the stored one. `check` raises if the stored job must not be replaced.

    Only the job that was checked is replaced. If another writer is faster, both functions are called again with the new
    job. `revision` is as in `Verbs.put`."""
    verbs = verbs_for(opened, who, key.namespace)
    for _ in range(_TRIES):
        before = await opened.store.queries.get_job(key.name, namespace=key.namespace)
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
    """The job to store in place of `before`. Raises 403 unless the caller may write both."""
    check(before)
    if before is not None:
        check_may_write(who, before.job)
    job = make(before)
    check_may_write(who, job)
    return job


async def create_job(request: Request, opened: OpenStore, who: Principal, job: Job, *, names_owner: bool) -> JobRecord:
    """Store a new job. Raises 409 if its name is taken. `names_owner` is True if the body names an owner."""

    def check(before: JobRecord | None) -> None:
        if before is not None:
            raise _taken(job)

    key = JobKey(job.namespace, job.name)
    written = await write_job(
        request, opened, who, key, check, lambda before: with_owner(who, job, before, names_owner=names_owner)
    )
    if written.put.change != "created":  # another writer was faster, with the same definition
        raise _taken(job)
    return written.put.record


async def remove_job(
    request: Request,
    opened: OpenStore,
    who: Principal,
    key: JobKey,
    *,
    if_match: str | None = None,
    job_id: int | None = None,
) -> int:
    """Delete exactly the revision that was checked. Returns the number of waiting runs that were cancelled. With
    `job_id`, delete only the job with this number."""
    verbs_for(opened, who, key.namespace)
    for _ in range(_TRIES):
        record = await opened.store.queries.get_job(key.name, namespace=key.namespace)
        if record is None or (job_id is not None and record.id != job_id):
            raise unknown_job(key.name)
        check_sees(who, key.name, record)
        check_match(record, if_match, None)
        check_may_write(who, record.job)
        try:
            cancelled = await opened.store.delete_job(record.id, expected=record.revision)
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


# ── ETags ──────────────────────────────────────────────────────────────────────────────────────────────────────

_LIST = re.compile(r'\s*(?:W/)?"[\x21\x23-\x7e]*"\s*(?:,\s*(?:W/)?"[\x21\x23-\x7e]*"\s*)*')
_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"')

IfMatch = Annotated[
    str | None,
    Header(
        description="Write only if the job still has this `ETag`; else 412.", max_length=1000, examples=['"7-3"'],
    ),
]  # fmt: skip
IfNoneMatch = Annotated[
    str | None,
    Header(description="`*`: write only if the job does not exist yet; else 412.", max_length=1000, examples=["*"]),
]


def etag_of(record: JobRecord) -> str:
    """The ETag of a job at this revision. A job that was deleted and created again has another one."""
    return f'"{record.id}-{record.revision}"'


def check_match(record: JobRecord | None, if_match: str | None, if_none_match: str | None) -> None:
    """Raise 412 unless the stored job fits these headers; 422 if they cannot be read. This prevents one client from
    overwriting the edit of another."""
    tag = None if record is None else etag_of(record)
    if if_match is not None and not _names(if_match, tag, "If-Match"):
        raise _stale(f"a job with the tag {if_match}", tag)
    if if_none_match is not None and _names(if_none_match, tag, "If-None-Match"):
        wanted = "no such job" if if_none_match.strip() == "*" else f"another tag than {if_none_match}"
        raise _stale(wanted, tag)


def _names(header: str, tag: str | None, name: str) -> bool:
    """Return whether a header lists this tag. A weak tag (`W/"7-3"`) never matches."""
    if header.strip() == "*":
        return tag is not None
    if not _LIST.fullmatch(header):
        problem = f'expected an ETag as it was answered, such as "7-3", or *, got {header[:80]!r}'
        raise Problem(422, "invalid", f"{name}: {problem}", [FieldProblem(f"header.{name}", problem)])
    return tag is not None and tag in _TAG.findall(header)


def _stale(wanted: str, tag: str | None) -> Problem:
    found = "none" if tag is None else f"one with the tag {tag}"
    return Problem(412, "stale", f"expected {wanted}, found {found}; read it again, and make the change anew")
