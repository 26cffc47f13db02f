"""Jobs: create, replace, patch, delete (`job_writing.py` says who may)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from onthedot.model.job import Job, JobRecord
from onthedot.server.computing import computed
from onthedot.server.definitions import Definition, Named, Patch, definition_of, patched, read_definition
from onthedot.server.definitions import Written as Said
from onthedot.server.door import There, Who
from onthedot.server.job_writing import Place, check_seen, create_job, owned, remove_job, unknown, write_job
from onthedot.server.preconditions import IfMatch, IfNoneMatch, check_match, etag_of
from onthedot.server.problems import Problem, Wrong
from onthedot.server.routes.jobs import ETAG, Name, Namespace, job_fields, seen_job
from onthedot.server.routing import Routes
from onthedot.server.shapes import JobOut

routes = Routes(prefix="/api/v1", tags=["jobs"])

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
    job = await computed(read_definition, body)
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
    read = await computed(read_definition, body)

    def look(before: JobRecord | None) -> None:
        check_seen(who, job, before)
        check_match(before, if_match, if_none_match)

    def make(before: JobRecord | None) -> Job:
        return owned(who, read, before, said="owner" in body)

    put = (await write_job(request, there, who, Place(namespace, job), look, make, revision=revision)).put
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
    await seen_job(there, who, job, namespace)

    def look(before: JobRecord | None) -> None:
        check_seen(who, job, before)
        check_match(before, if_match, None)

    def make(before: JobRecord | None) -> Job:
        if before is None:
            raise unknown(job)
        body = patched(definition_of(before.job), asked)
        return owned(who, read_definition(body), before, said="owner" in body)

    written = await write_job(request, there, who, Place(namespace, job), look, make)
    return _answer(response, written.put.record)


@routes.delete("/jobs/{job}", response_model=Removed, responses={404: {}, 409: {}, 412: {}})
async def delete_job(
    request: Request, there: There, who: Who, job: Name, namespace: Namespace = "default", if_match: IfMatch = None
) -> Any:
    """End a job. Its waiting runs are cancelled; running ones end, and are not tried again."""
    await seen_job(there, who, job, namespace)
    return {"cancelled": await remove_job(request, there, who, Place(namespace, job), if_match=if_match)}


def _answer(response: Response, record: JobRecord, *, created: bool = False) -> dict[str, Any]:
    response.headers["ETag"] = etag_of(record)
    if created:
        response.status_code = 201
        response.headers["Location"] = f"/api/v1/jobs/{record.job.name}?namespace={record.job.namespace}"
    return job_fields(record)


def _check_same_place(body: Said, job: str, namespace: str) -> None:
    """A job keeps its name and its namespace: that is what others know it by."""
    wrong = [
        Wrong(field, f"expected {place!r}, as the address says, got {body[field]!r}; leave it out")
        for field, place in (("name", job), ("namespace", namespace))
        if field in body and body[field] != place
    ]
    if wrong:
        raise Problem(422, "invalid", "; ".join(f"{one.field}: {one.problem}" for one in wrong), wrong)
