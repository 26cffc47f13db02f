"""Sources: store all jobs of a file at once, and report what changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Any

from fastapi import Path, Request, Response
from pydantic import BaseModel, Field, JsonValue

from onthedot.access.permissions import Principal
from onthedot.clock import Micros
from onthedot.define.differences import Difference, compare
from onthedot.define.job_reader import read_job_list
from onthedot.model.job import Job, JobRecord
from onthedot.observe.formats import iso
from onthedot.operations.apply import Review, apply_jobs
from onthedot.server.audit import record_change
from onthedot.server.auth import StoreDep, Who, verbs_for
from onthedot.server.compute import in_thread
from onthedot.server.job_writes import check_may_write, check_sees, with_owner
from onthedot.server.models import EXAMPLE, Body, definition_of, fields, json_response
from onthedot.server.quotas import Quotas, owner_of, quotas_for
from onthedot.server.router import Routes

routes = Routes(prefix="/api/v1", tags=["jobs"])

MOST_JOBS = 1_000
SourceName = Annotated[
    str, Path(description="The name of the source, such as a file.", max_length=200, examples=["jobs.yaml"])
]


class Source(Body):
    """All jobs of a source."""

    jobs: list[dict[str, JsonValue]] = Field(
        max_length=MOST_JOBS,
        description="Job definitions as in a YAML file; the default namespace is `default`.",
        examples=[[EXAMPLE]],
    )
    prune: bool = Field(False, description="Delete jobs that came from this source before and are not in it any more.")
    dry_run: bool = Field(False, description="Change nothing; return what would happen.")
    take_over: bool = Field(False, description="Replace jobs that are stored from another source.")


class MoveOut(BaseModel):
    """A start that moves to another instant."""

    old: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    new: str


class DifferenceOut(BaseModel):
    """The changes of one job."""

    name: str = Field(examples=["nightly_report"])
    kind: str = Field(description="created, changed, removed or unchanged.", examples=["changed"])
    fields: dict[str, list[JsonValue]] = Field(description="By dotted name, as in a file: the old and the new value.")
    appear: list[str] = Field(description="New starts within the next 30 days.")
    vanish: list[str]
    moved: list[MoveOut]
    until: str | None = Field(description="Starts after this instant were not compared.")
    stopped: bool = Field(description="True: there are too many starts, and comparing stopped at `until`.")


class AppliedOut(BaseModel):
    """The result of an apply, or of its dry run. Jobs are named `name`, or `namespace/name` outside of `default`."""

    source: str = Field(examples=["jobs.yaml"])
    dry_run: bool
    differences: list[DifferenceOut]
    elsewhere: dict[str, str] = Field(description="Jobs that came from another source before, with that source.")
    warnings: dict[str, str] = Field(description="Jobs that run after a job that is not stored, with an explanation.")
    refused: list[str] = Field(description="Jobs of another source. Without `take_over` nothing is written (409).")
    paused: list[str] = Field(description="Jobs that stay paused.")
    left: list[str] = Field(description="Jobs that came from this source before, are not in it any more, and stay.")


class _Reviewed(Review):
    """Checks the permissions and quotas of a caller who applies a source, and records each change."""

    def __init__(
        self, request: Request, who: Principal, with_owners: frozenset[tuple[str, str]], quotas: Quotas | None
    ) -> None:
        self._request = request
        self._who = who
        self._with_owners = with_owners
        self._quotas = quotas

    def sees(self, record: JobRecord) -> bool:
        return self._who.sees(record.job.namespace, record.job.owner)

    def look(self, job: Job, before: JobRecord | None) -> Job:
        check_sees(self._who, job.name, before)
        if before is not None:
            check_may_write(self._who, before.job)
        job = with_owner(self._who, job, before, names_owner=(job.namespace, job.name) in self._with_owners)
        check_may_write(self._who, job)
        return job

    def look_at_removal(self, record: JobRecord) -> None:
        check_may_write(self._who, record.job)

    async def compare(self, old: Mapping[str, Job], new: Mapping[str, Job], now: Micros) -> list[Difference]:
        if self._quotas is not None:
            more = Counter(map(owner_of, new.values()))
            more.subtract(map(owner_of, old.values()))
            await self._quotas.check_jobs(self._who, more)
        return await in_thread(compare, old, new, now=now)

    async def done(self, before: JobRecord | None, after: JobRecord | None) -> None:
        verb = "jobs.create" if before is None else "jobs.delete" if after is None else "jobs.edit"
        about = after or before
        if about is not None:
            was, is_ = (None if one is None else definition_of(one.job) for one in (before, after))
            await record_change(self._request, verb, about.job, before=was, after=is_)

    async def pause_changed(self, verb: str, job: Job) -> None:
        await record_change(self._request, verb, job)


@routes.put("/sources/{source:path}", response_model=AppliedOut, responses={404: {}, 409: {}, 412: {}})
async def apply_source(request: Request, opened: StoreDep, who: Who, source: SourceName, body: Source) -> Response:
    """Store all jobs of a source, such as a file, and return what changes: fields, and starts within the next 30 days.
    Everything is checked before anything is written; then each job is one write. `prune` deletes jobs that came from
    this source before and are not in it any more. If a job is stored from another source, nothing is written (409),
    unless `take_over` is set. A paused job stays paused unless its definition says `paused: false`. A job with
    `paused: true`, or with a reason and an end, is paused."""
    jobs = await in_thread(read_job_list, {"jobs": body.jobs})
    for namespace in {job.namespace for job in jobs}:
        verbs_for(opened, who, namespace)
    with_owners = frozenset((job.namespace, job.name) for job in jobs if job.owner)
    quotas = None if body.dry_run else quotas_for(request)
    async with nullcontext() if quotas is None else quotas.creating(who.owner):
        applied = await apply_jobs(
            opened.store,
            jobs,
            source=source,
            prune=body.prune,
            dry_run=body.dry_run,
            take_over=body.take_over,
            clock=opened.clock,
            settings=opened.settings,
            review=_Reviewed(request, who, with_owners, quotas),
        )
    told = fields(
        AppliedOut,
        source=applied.source,
        dry_run=applied.dry_run,
        differences=[_difference(one) for one in applied.differences],
        elsewhere=dict(applied.elsewhere),
        refused=list(applied.refused),
        warnings=dict(applied.warnings),
        paused=list(applied.paused),
        left=list(applied.left),
    )
    return json_response(told)


def _difference(one: Difference) -> dict[str, Any]:
    return fields(
        DifferenceOut,
        name=one.name,
        kind=one.kind,
        fields={name: [was, is_] for name, (was, is_) in one.fields.items()},
        appear=[iso(at) for at in one.appear],
        vanish=[iso(at) for at in one.vanish],
        moved=[{"old": iso(move.old), "new": iso(move.new)} for move in one.moved],
        until=iso(one.until) if one.until else None,
        stopped=one.stopped,
    )
