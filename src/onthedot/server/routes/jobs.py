"""Jobs: list, read, create, replace, patch and delete them, and tell when they run next."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field, JsonValue

from onthedot.model.job import Job, JobRecord, JobState
from onthedot.observe.formats import iso, optional_iso
from onthedot.observe.json_fields import coming_fields, start_fields
from onthedot.operations.next_slots import Shown, gather, look_ahead, looked
from onthedot.rules.next_slots import coming, upcoming
from onthedot.server.auth import There, Who
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
"""How many jobs a page with details has: each may have a hundred schedules, whose next instants are computed."""
ETAG = {"ETag": {"description": "The job at this revision: for `If-Match`.", "schema": {"type": "string"}}}


class JobNextOut(BaseModel):
    """One schedule of a job, and its next instant."""

    schedule: str = Field(description="The schedule's id.", examples=["s1"])
    at: str | None = Field(description="None: it is not known, or there is none.")
    note: str = Field(description="Why not.", examples=["paused"])


class JobShownOut(JobOut):
    """A job with what people want to know of it."""

    next: list[JobNextOut]
    last_run: RunOut | None = Field(description="That runs, or has ended last.")


class JobsOut(BaseModel):
    """A page of jobs."""

    items: list[JobShownOut | JobOut]
    next: str | None = Field(description="The cursor of the next page; null: there is none.", examples=[None])


class RevisionOut(BaseModel):
    """One definition that a job had."""

    revision: int = Field(examples=[3])
    written_at: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    definition: dict[str, JsonValue] = Field(examples=[EXAMPLE])


class RevisionsOut(BaseModel):
    """The definitions of a job, the newest first."""

    items: list[RevisionOut]
    next: str | None = Field(description="The cursor of the next page; null: there is none.", examples=[None])


class ComingOut(BaseModel):
    """One instant at which a job is to run."""

    schedule: str | None = Field(
        description="The schedule's id; null: a run that no schedule asked for.", examples=["s1"]
    )
    slot_at: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    due_at: str = Field(
        description="The slot, and its jitter; of a run that was moved or is tried again, when that starts.",
        examples=["2026-01-01T09:00:00.000000Z"],
    )
    run_id: int | None = Field(description="The run that waits, if it is more than a slot.", examples=[None])
    moved: bool = Field(description="Whether the run was moved here from its slot.", examples=[False])
    trigger: str | None = Field(description="What asked for that run.", examples=[None])
    attempts: int = Field(description="How often it was tried already.", examples=[0])


class NextOut(BaseModel):
    """The next instants of a job. Of one that is paused, those at which it would run."""

    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    state: str = Field(examples=["active"])
    items: list[ComingOut]


class StartOut(BaseModel):
    """Something that is to start: a slot of a schedule, or a run that waits."""

    due_at: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    schedule: str | None = Field(description="The schedule's id; null: it is no slot.", examples=["s1"])
    reading: str | None = Field(description="The schedule in words.", examples=["at 09:00 every day, UTC"])
    run_id: int | None = Field(description="The run that waits, if it is no slot, or is tried again.", examples=[None])
    trigger: str | None = Field(description="What asked for that run.", examples=[None])
    attempts: int = Field(description="How often it was tried already.", examples=[0])
    many: bool = Field(description="Its schedule would fill the list: this is the first start.", examples=[False])
    every_s: float | None = Field(
        description="How many seconds lie between those, on average; null: not all days have as many.",
        examples=[None],
    )
    moved_from: str | None = Field(description="The slot from which somebody moved the run here.", examples=[None])


class UpcomingOut(BaseModel):
    """What starts next, in the order of time."""

    items: list[StartOut]
    paused: int = Field(description="How many jobs are paused, and start nothing; 1,000 at the most.", examples=[0])
    read_until: str | None = Field(
        description="What is due later was not read, because there is too much; null: all was.",
        examples=[None],
    )


@routes.get("/jobs", response_model=JobsOut)
async def list_jobs(
    there: There,
    who: Who,
    namespace: Word = None,
    owner: Word = None,
    state: JobState | None = None,
    queue: Word = None,
    label: Word = None,
    name: Annotated[str | None, Query(max_length=100, description="A part of the name.")] = None,
    details: Annotated[
        bool, Query(description=f"With the next instants of each, and its last run; {MOST_SHOWN} on a page.")
    ] = False,
    limit: JobsLimit = 100,
    after: JobsAfter = None,
) -> Any:
    """Jobs by namespace and name. A page may be short, and still have a next one."""
    wanted = JobFilter(
        namespaces=None if namespace is None else (namespace,),
        owner=owner,
        states=None if state is None else frozenset({state}),
        queue=queue,
        label=label,
        name_contains=name,
    )
    most = min(limit, MOST_SHOWN) if details else limit
    found, following = await find_jobs(there, who, wanted, after=after, limit=most)
    if details:
        now = there.clock.now()
        items = [_shown_fields(await in_thread((await looked(there.store, one, now)).shown, now)) for one in found]
        return json_response({"items": items, "next": following})
    return {"items": [job_out(record) for record in found], "next": following}


def _shown_fields(one: Shown) -> dict[str, Any]:
    upcoming = [{"schedule": next_.id, "at": optional_iso(next_.at), "note": next_.note} for next_ in one.next]
    last = None if one.last is None else run_out(one.last)
    return {**job_out(one.record), "next": upcoming, "last_run": last}


@routes.get("/jobs/{job}", response_model=JobOut, responses={200: {"headers": ETAG}, 404: {}})
async def get_job(there: There, who: Who, response: Response, job: Name, namespace: Namespace = "default") -> Any:
    """One job, as it is stored."""
    _, record = await visible_job(there, who, job, namespace)
    response.headers["ETag"] = etag_of(record)
    return job_out(record)


@routes.get("/jobs/{job}/revisions", response_model=RevisionsOut, responses={404: {}})
async def list_revisions(
    there: There,
    who: Who,
    job: Name,
    limit: JobsLimit = 100,
    after: Annotated[
        str | None,
        Query(description="Where to go on: `next` of the page before.", pattern="^[1-9][0-9]{0,15}$", examples=["3"]),
    ] = None,
    namespace: Namespace = "default",
) -> Any:
    """Every definition that it had, the newest first."""
    _, record = await visible_job(there, who, job, namespace)
    before = None if after is None else int(after)
    found = await there.store.queries.list_revisions(record.id, before=before, limit=limit)
    items = [
        {"revision": one.revision, "written_at": iso(one.written_at), "definition": definition_of(one.job)}
        for one in found
    ]
    return {"items": items, "next": str(found[-1].revision) if len(found) == limit else None}


@routes.get("/jobs/{job}/next", response_model=NextOut, responses={404: {}})
async def next_instants(
    there: There,
    who: Who,
    job: Name,
    count: Annotated[int, Query(ge=1, le=MOST_INSTANTS)] = 10,
    namespace: Namespace = "default",
) -> Any:
    """When it runs next: the slots that nobody has skipped or moved, and runs that wait because they were moved, are
    tried again, or were submitted. Of a schedule that counts from the end of a run, one at the most."""
    _, record = await visible_job(there, who, job, namespace)
    now = there.clock.now()
    ahead = await look_ahead(there.store, record.id, now, limit=count)
    items = [fields(ComingOut, **coming_fields(one)) for one in await in_thread(coming, ahead, now, count)]
    return {"job": job, "namespace": namespace, "state": str(record.state), "items": items}


@routes.get("/upcoming", response_model=UpcomingOut)
async def list_upcoming(
    there: There,
    who: Who,
    namespace: Word = None,
    until: Instant = None,
    limit: PageSize = 20,
) -> Any:
    """What starts next, over all jobs in the order of time: slots of schedules, and runs that wait. A schedule that
    would have more than a quarter of the list is told once, with `many`."""
    now, end = there.clock.now(), instant(until, "until")
    wanted = visible_to(who, JobFilter(namespaces=None if namespace is None else (namespace,)))
    found = await gather(there.store, now, limit=limit, until=end, wanted=wanted)
    starts = await in_thread(upcoming, found, now, limit=limit, until=end)
    items = [fields(StartOut, **start_fields(start)) for start in starts]
    return {"items": items, "paused": found.paused, "read_until": optional_iso(found.read_until)}


_LOCATION = {"Location": {"description": "Where the job is.", "schema": {"type": "string"}}}
_CREATED: dict[str, Any] = {"model": JobOut, "description": "It is new.", "headers": {**ETAG, **_LOCATION}}
_THERE: dict[str, Any] = {"headers": ETAG}


class StoredOut(JobOut):
    """A job as it is stored now, and what that changed."""

    change: str = Field(description="created, changed or unchanged.", examples=["created"])
    planned: int = Field(description="Runs that were planned with it.", examples=[1])
    withdrawn: int = Field(description="Runs to come that were planned before, and are no more.", examples=[0])


class Removed(BaseModel):
    """A job is gone."""

    cancelled: int = Field(description="How many waiting runs were cancelled with it.", examples=[1])


@routes.post("/jobs", response_model=JobOut, status_code=201, responses={201: _CREATED, 404: {}, 409: {}})
async def post_job(
    request: Request, response: Response, there: There, who: Who, asked: Definition, namespace: Namespace = "default"
) -> Any:
    """Store a new job: what a file says of one. 409 if there is one of this name. Its owner is that of the key; an
    admin may say another."""
    body = {"namespace": namespace, **asked}
    job = await in_thread(read_definition, body)
    record = await create_job(request, there, who, job, said="owner" in body)
    return _answer(response, record, created=True)


@routes.put(
    "/jobs/{job}", response_model=StoredOut,
    responses={200: _THERE, 201: {**_CREATED, "model": StoredOut}, 404: {}, 409: {}, 412: {}},
)  # fmt: skip
async def put_job(
    request: Request,
    response: Response,
    there: There,
    who: Who,
    job: Name,
    asked: Named,
    namespace: Namespace = "default",
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    revision: Annotated[
        int | None, Query(ge=0, le=2**53, description="Only if the stored job has this one; 0: only if there is none.")
    ] = None,
) -> Any:
    """Store a job under this name, whether there is one (200) or not (201). What the body does not say is at its
    default; the owner stays. `If-Match` and `If-None-Match` say what must be there; so does `revision`, but a job that
    is as it should be already is never refused for it: whoever did not hear the answer may ask again."""
    body = {"name": job, "namespace": namespace, **asked}
    _check_same_place(body, job, namespace)
    read = await in_thread(read_definition, body)

    def check(before: JobRecord | None) -> None:
        check_sees(who, job, before)
        check_match(before, if_match, if_none_match)

    def make(before: JobRecord | None) -> Job:
        return with_owner(who, read, before, said="owner" in body)

    put = (await write_job(request, there, who, JobKey(namespace, job), check, make, revision=revision)).put
    more = {"change": put.change, "planned": put.planned, "withdrawn": put.withdrawn}
    return {**_answer(response, put.record, created=put.change == "created"), **more}


@routes.patch("/jobs/{job}", response_model=JobOut, responses={200: _THERE, 404: {}, 409: {}, 412: {}})
async def patch_job(
    request: Request,
    response: Response,
    there: There,
    who: Who,
    job: Name,
    asked: Patch,
    namespace: Namespace = "default",
    if_match: IfMatch = None,
) -> Any:
    """Change some options of a job: a JSON merge patch of its definition. null takes an option back to its default."""
    _check_same_place(asked, job, namespace)
    await visible_job(there, who, job, namespace)

    def check(before: JobRecord | None) -> None:
        check_sees(who, job, before)
        check_match(before, if_match, None)

    def make(before: JobRecord | None) -> Job:
        if before is None:
            raise unknown_job(job)
        body = patched(definition_of(before.job), asked)
        return with_owner(who, read_definition(body), before, said="owner" in body)

    written = await write_job(request, there, who, JobKey(namespace, job), check, make)
    return _answer(response, written.put.record)


@routes.delete("/jobs/{job}", response_model=Removed, responses={404: {}, 409: {}, 412: {}})
async def delete_job(
    request: Request, there: There, who: Who, job: Name, namespace: Namespace = "default", if_match: IfMatch = None
) -> Any:
    """End a job. Its waiting runs are cancelled; running ones end, and are not tried again."""
    await visible_job(there, who, job, namespace)
    return {"cancelled": await remove_job(request, there, who, JobKey(namespace, job), if_match=if_match)}


def _answer(response: Response, record: JobRecord, *, created: bool = False) -> dict[str, Any]:
    response.headers["ETag"] = etag_of(record)
    if created:
        response.status_code = 201
        response.headers["Location"] = f"/api/v1/jobs/{record.job.name}?namespace={record.job.namespace}"
    return job_out(record)


def _check_same_place(body: JobBody, job: str, namespace: str) -> None:
    """A job keeps its name and its namespace: that is what others know it by."""
    wrong = [
        FieldProblem(field, f"expected {place!r}, as the address says, got {body[field]!r}; leave it out")
        for field, place in (("name", job), ("namespace", namespace))
        if field in body and body[field] != place
    ]
    if wrong:
        raise Problem(422, "invalid", "; ".join(f"{one.field}: {one.problem}" for one in wrong), wrong)
