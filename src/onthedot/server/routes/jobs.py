"""Jobs: list, read, create, replace, patch and delete them, and preview their next runs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field, JsonValue

from onthedot.model.job import Job, JobRecord, JobState
from onthedot.observe.formats import iso, optional_iso
from onthedot.observe.json_fields import coming_fields, start_fields
from onthedot.operations.next_slots import Shown, gather, look_ahead, looked
from onthedot.rules.next_slots import coming, upcoming
from onthedot.server.auth import StoreDep, Who
from onthedot.server.compute import in_thread
from onthedot.server.job_writes import (
    IfMatch,
    IfNoneMatch,
    JobKey,
    check_match,
    check_sees,
    create_job,
    etag_of,
    remove_job,
    unknown_job,
    with_owner,
    write_job,
)
from onthedot.server.models import (
    EXAMPLE,
    Definition,
    Instant,
    JobBody,
    JobOut,
    JobsAfter,
    JobsLimit,
    Name,
    Named,
    Namespace,
    PageSize,
    Patch,
    RunOut,
    Word,
    definition_of,
    fields,
    instant,
    job_out,
    json_response,
    patched,
    read_definition,
    run_out,
)
from onthedot.server.problems import FieldProblem, Problem
from onthedot.server.router import Routes
from onthedot.server.visibility import find_jobs, visible_job, visible_to
from onthedot.stores.queries import JobFilter

routes = Routes(prefix="/api/v1", tags=["jobs"])

MOST_INSTANTS = 1_000
MOST_SHOWN = 100
"""Jobs on a page with details: each may have a hundred schedules, whose next instants are computed."""
ETAG = {"ETag": {"description": "The tag of this revision of the job, for `If-Match`.", "schema": {"type": "string"}}}


class JobNextOut(BaseModel):
    """A schedule of a job, and its next instant."""

    schedule: str = Field(description="The schedule's id.", examples=["s1"])
    at: str | None = Field(description="Null: unknown, or none.")
    note: str = Field(description="Why there is none.", examples=["paused"])


class JobShownOut(JobOut):
    """A job with its next instants and its last run."""

    next: list[JobNextOut]
    last_run: RunOut | None = Field(description="The running run, or the one that ended last.")


class JobsOut(BaseModel):
    """A page of jobs."""

    items: list[JobShownOut | JobOut]
    next: str | None = Field(
        description="Send it as `after` to get the next page; null: this is the last page.", examples=[None]
    )


class RevisionOut(BaseModel):
    """One revision of a job."""

    revision: int = Field(examples=[3])
    written_at: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    definition: dict[str, JsonValue] = Field(examples=[EXAMPLE])


class RevisionsOut(BaseModel):
    """A page of revisions, newest first."""

    items: list[RevisionOut]
    next: str | None = Field(
        description="Send it as `after` to get the next page; null: this is the last page.", examples=[None]
    )


class ComingOut(BaseModel):
    """A future run of a job."""

    schedule: str | None = Field(description="The schedule's id; null: the run has no schedule.", examples=["s1"])
    slot_at: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    due_at: str = Field(
        description="The slot plus jitter; for a moved run or a retry, its start.",
        examples=["2026-01-01T09:00:00.000000Z"],
    )
    run_id: int | None = Field(description="The waiting run; null: only a slot so far.", examples=[None])
    moved: bool = Field(description="Whether the slot was moved.", examples=[False])
    trigger: str | None = Field(description="What created the run: a schedule, a submit, a person.", examples=[None])
    attempts: int = Field(description="The number of finished attempts.", examples=[0])


class NextOut(BaseModel):
    """The next runs of a job. For a paused job, those that it would have."""

    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    state: str = Field(examples=["active"])
    items: list[ComingOut]


class StartOut(BaseModel):
    """A future start: a slot of a schedule, or a waiting run."""

    due_at: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    schedule: str | None = Field(description="The schedule's id; null: not a slot.", examples=["s1"])
    reading: str | None = Field(description="The schedule in words.", examples=["at 09:00 every day, UTC"])
    run_id: int | None = Field(description="The waiting run; null: only a slot so far.", examples=[None])
    trigger: str | None = Field(description="What created the run: a schedule, a submit, a person.", examples=[None])
    attempts: int = Field(description="The number of finished attempts.", examples=[0])
    many: bool = Field(
        description="True: its schedule is frequent, and only the first start is listed.", examples=[False]
    )
    every_s: float | None = Field(
        description="Average seconds between those starts; null: days differ.",
        examples=[None],
    )
    moved_from: str | None = Field(description="The original slot of a moved run.", examples=[None])


class UpcomingOut(BaseModel):
    """The next starts, in order of time."""

    items: list[StartOut]
    paused: int = Field(description="The number of paused jobs, at most 1,000.", examples=[0])
    read_until: str | None = Field(
        description="Later starts were not read, because there are too many; null: all were read.",
        examples=[None],
    )


@routes.get("/jobs", response_model=JobsOut)
async def list_jobs(
    opened: StoreDep,
    who: Who,
    namespace: Word = None,
    owner: Word = None,
    state: JobState | None = None,
    queue: Word = None,
    label: Word = None,
    name: Annotated[str | None, Query(max_length=100, description="Only jobs whose name contains this text.")] = None,
    details: Annotated[
        bool, Query(description=f"Include the next instants and the last run of each; at most {MOST_SHOWN} on a page.")
    ] = False,
    limit: JobsLimit = 100,
    after: JobsAfter = None,
) -> Any:
    """List jobs, ordered by namespace and name. A page can be short and still have a `next`."""
    wanted = JobFilter(
        namespaces=None if namespace is None else (namespace,),
        owner=owner,
        states=None if state is None else frozenset({state}),
        queue=queue,
        label=label,
        name_contains=name,
    )
    most = min(limit, MOST_SHOWN) if details else limit
    found, following = await find_jobs(opened, who, wanted, after=after, limit=most)
    if details:
        now = opened.clock.now()
        items = [_shown_fields(await in_thread((await looked(opened.store, one, now)).shown, now)) for one in found]
        return json_response({"items": items, "next": following})
    return {"items": [job_out(record) for record in found], "next": following}


def _shown_fields(one: Shown) -> dict[str, Any]:
    upcoming = [{"schedule": next_.id, "at": optional_iso(next_.at), "note": next_.note} for next_ in one.next]
    last = None if one.last is None else run_out(one.last)
    return {**job_out(one.record), "next": upcoming, "last_run": last}


@routes.get("/jobs/{job}", response_model=JobOut, responses={200: {"headers": ETAG}, 404: {}})
async def get_job(opened: StoreDep, who: Who, response: Response, job: Name, namespace: Namespace = "default") -> Any:
    """A job. Its `ETag` is for `If-Match`. 404 if you may not see it."""
    _, record = await visible_job(opened, who, job, namespace)
    response.headers["ETag"] = etag_of(record)
    return job_out(record)


@routes.get("/jobs/{job}/revisions", response_model=RevisionsOut, responses={404: {}})
async def list_revisions(
    opened: StoreDep,
    who: Who,
    job: Name,
    limit: JobsLimit = 100,
    after: Annotated[
        str | None,
        Query(description="The `next` of the previous page.", pattern="^[1-9][0-9]{0,15}$", examples=["3"]),
    ] = None,
    namespace: Namespace = "default",
) -> Any:
    """The revisions of a job, newest first."""
    _, record = await visible_job(opened, who, job, namespace)
    before = None if after is None else int(after)
    found = await opened.store.queries.list_revisions(record.id, before=before, limit=limit)
    items = [
        {"revision": one.revision, "written_at": iso(one.written_at), "definition": definition_of(one.job)}
        for one in found
    ]
    return {"items": items, "next": str(found[-1].revision) if len(found) == limit else None}


@routes.get("/jobs/{job}/next", response_model=NextOut, responses={404: {}})
async def next_instants(
    opened: StoreDep,
    who: Who,
    job: Name,
    count: Annotated[int, Query(ge=1, le=MOST_INSTANTS)] = 10,
    namespace: Namespace = "default",
) -> Any:
    """The next runs of a job: slots to come, and waiting runs that were moved, submitted, or wait for a retry. Skipped
    slots are left out. A schedule that counts from the end of a run has at most one."""
    _, record = await visible_job(opened, who, job, namespace)
    now = opened.clock.now()
    ahead = await look_ahead(opened.store, record.id, now, limit=count)
    items = [fields(ComingOut, **coming_fields(one)) for one in await in_thread(coming, ahead, now, count)]
    return {"job": job, "namespace": namespace, "state": str(record.state), "items": items}


@routes.get("/upcoming", response_model=UpcomingOut)
async def list_upcoming(
    opened: StoreDep,
    who: Who,
    namespace: Word = None,
    until: Instant = None,
    limit: PageSize = 20,
) -> Any:
    """The next starts of all jobs, in order of time: slots of schedules, and waiting runs. A schedule that would fill
    more than a quarter of the list appears once, with `many`."""
    now, end = opened.clock.now(), instant(until, "until")
    wanted = visible_to(who, JobFilter(namespaces=None if namespace is None else (namespace,)))
    found = await gather(opened.store, now, limit=limit, until=end, wanted=wanted)
    starts = await in_thread(upcoming, found, now, limit=limit, until=end)
    items = [fields(StartOut, **start_fields(start)) for start in starts]
    return {"items": items, "paused": found.paused, "read_until": optional_iso(found.read_until)}


_LOCATION = {"Location": {"description": "The path of the job.", "schema": {"type": "string"}}}
_CREATED: dict[str, Any] = {"model": JobOut, "description": "The job was created.", "headers": {**ETAG, **_LOCATION}}
_REPLACED: dict[str, Any] = {"headers": ETAG}


class StoredOut(JobOut):
    """The stored job, and what the request changed."""

    change: str = Field(description="created, changed or unchanged.", examples=["created"])
    planned: int = Field(description="Runs that were planned by this write.", examples=[1])
    withdrawn: int = Field(description="Planned future runs that were withdrawn.", examples=[0])


class Removed(BaseModel):
    """The answer to a deleted job."""

    cancelled: int = Field(description="The number of waiting runs that were cancelled.", examples=[1])


@routes.post("/jobs", response_model=JobOut, status_code=201, responses={201: _CREATED, 404: {}, 409: {}})
async def post_job(
    request: Request,
    response: Response,
    opened: StoreDep,
    who: Who,
    definition: Definition,
    namespace: Namespace = "default",
) -> Any:
    """Create a job from its definition, as in a YAML file. 409 if the name is taken. The owner is that of your key; an
    admin may name another."""
    body = {"namespace": namespace, **definition}
    job = await in_thread(read_definition, body)
    record = await create_job(request, opened, who, job, names_owner="owner" in body)
    return _answer(response, record, created=True)


@routes.put(
    "/jobs/{job}", response_model=StoredOut,
    responses={200: _REPLACED, 201: {**_CREATED, "model": StoredOut}, 404: {}, 409: {}, 412: {}},
)  # fmt: skip
async def put_job(
    request: Request,
    response: Response,
    opened: StoreDep,
    who: Who,
    job: Name,
    definition: Named,
    namespace: Namespace = "default",
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    revision: Annotated[
        int | None,
        Query(
            ge=0, le=2**53, description="Write only if the stored job has this revision; 0: only if it does not exist."
        ),
    ] = None,
) -> Any:
    """Create a job (201) or replace its definition (200). Options that the body leaves out get their defaults; the
    owner stays. With `If-Match`, `If-None-Match` or `revision`, the write happens only if the stored job matches; else
    412. `revision` accepts a job that already has this definition, so you can safely repeat a request."""
    body = {"name": job, "namespace": namespace, **definition}
    _check_same_name(body, job, namespace)
    read = await in_thread(read_definition, body)

    def check(before: JobRecord | None) -> None:
        check_sees(who, job, before)
        check_match(before, if_match, if_none_match)

    def make(before: JobRecord | None) -> Job:
        return with_owner(who, read, before, names_owner="owner" in body)

    put = (await write_job(request, opened, who, JobKey(namespace, job), check, make, revision=revision)).put
    more = {"change": put.change, "planned": put.planned, "withdrawn": put.withdrawn}
    return {**_answer(response, put.record, created=put.change == "created"), **more}


@routes.patch("/jobs/{job}", response_model=JobOut, responses={200: _REPLACED, 404: {}, 409: {}, 412: {}})
async def patch_job(
    request: Request,
    response: Response,
    opened: StoreDep,
    who: Who,
    job: Name,
    patch: Patch,
    namespace: Namespace = "default",
    if_match: IfMatch = None,
) -> Any:
    """Change some options of a job with a JSON merge patch (RFC 7396). null resets an option to its default. 412 if
    `If-Match` does not match."""
    _check_same_name(patch, job, namespace)
    await visible_job(opened, who, job, namespace)

    def check(before: JobRecord | None) -> None:
        check_sees(who, job, before)
        check_match(before, if_match, None)

    def make(before: JobRecord | None) -> Job:
        if before is None:
            raise unknown_job(job)
        body = patched(definition_of(before.job), patch)
        return with_owner(who, read_definition(body), before, names_owner="owner" in body)

    written = await write_job(request, opened, who, JobKey(namespace, job), check, make)
    return _answer(response, written.put.record)


@routes.delete("/jobs/{job}", response_model=Removed, responses={404: {}, 409: {}, 412: {}})
async def delete_job(
    request: Request, opened: StoreDep, who: Who, job: Name, namespace: Namespace = "default", if_match: IfMatch = None
) -> Any:
    """Delete a job. Its waiting runs are cancelled. Running ones finish, and are not retried."""
    await visible_job(opened, who, job, namespace)
    return {"cancelled": await remove_job(request, opened, who, JobKey(namespace, job), if_match=if_match)}


def _answer(response: Response, record: JobRecord, *, created: bool = False) -> dict[str, Any]:
    response.headers["ETag"] = etag_of(record)
    if created:
        response.status_code = 201
        response.headers["Location"] = f"/api/v1/jobs/{record.job.name}?namespace={record.job.namespace}"
    return job_out(record)


def _check_same_name(body: JobBody, job: str, namespace: str) -> None:
    """Raise 422 if a body has another name or namespace than the path: a job cannot be renamed."""
    wrong = [
        FieldProblem(field, f"expected {place!r}, as the address says, got {body[field]!r}; leave it out")
        for field, place in (("name", job), ("namespace", namespace))
        if field in body and body[field] != place
    ]
    if wrong:
        raise Problem(422, "invalid", "; ".join(f"{one.field}: {one.problem}" for one in wrong), wrong)
