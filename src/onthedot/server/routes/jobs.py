"""Jobs: read, write, control."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, Field

from onthedot.access.principal import Principal
from onthedot.errors import UnknownJob
from onthedot.job import JobRecord
from onthedot.observe.json_lines import optional_iso
from onthedot.observe.text import iso
from onthedot.open_verbs import OpenStore, OpenVerbs
from onthedot.plan.asking import find_job
from onthedot.server.door import There, Who, verbs_for
from onthedot.server.routing import Routes
from onthedot.server.shapes import Body, JobOut, fields
from onthedot.stores.definitions import encode

routes = Routes(prefix="/api/v1", tags=["jobs"])

_NO_NUL = r"^[^\x00]*$"  # text that every store can compare
Name = Annotated[str, Path(description="The job's name.", max_length=100, pattern=_NO_NUL, examples=["nightly_report"])]
Namespace = Annotated[str, Query(description="Where the name is looked up.", max_length=100, pattern=_NO_NUL)]


class Removed(BaseModel):
    """A job is gone."""

    cancelled: int = Field(description="How many waiting runs were cancelled with it.")


class Pause(Body):
    """Why, and until when."""

    reason: str = Field("", max_length=500, examples=["the database moves"])


class PausedOut(BaseModel):
    """A job is paused."""

    job: JobOut
    withdrawn: int
    skipped: int
    held: int


def job_fields(record: JobRecord) -> dict[str, Any]:
    """A job as it is answered."""
    return fields(
        JobOut,
        id=record.id,
        name=record.job.name,
        namespace=record.job.namespace,
        owner=record.job.owner,
        revision=record.revision,
        state=str(record.state),
        created_at=iso(record.created_at),
        updated_at=iso(record.updated_at),
        pause_reason=record.pause_reason,
        paused_until=optional_iso(record.paused_until),
        definition=json.loads(encode(record.job)),
    )


async def seen_job(there: OpenStore, who: Principal, job: str, namespace: str) -> tuple[OpenVerbs, JobRecord]:
    """The job that is meant, if it is there for whoever asks, and the verbs to go on with."""
    verbs = verbs_for(there, who, namespace)
    record = await there.store.get_job(job, namespace=namespace)
    if record is None and not who.only_own:
        record = await find_job(there.store, job, namespace=namespace)  # which tells what may have been meant
    if record is None or not who.sees(namespace, record.job.owner):
        raise UnknownJob(f"no job {job!r} is stored")
    return verbs, record


@routes.get("/jobs/{job}", response_model=JobOut, responses={404: {}})
async def get_job(there: There, who: Who, job: Name, namespace: Namespace = "default") -> Any:
    """One job, as it is stored."""
    _, record = await seen_job(there, who, job, namespace)
    return job_fields(record)


@routes.delete("/jobs/{job}", response_model=Removed, responses={404: {}})
async def delete_job(there: There, who: Who, job: Name, namespace: Namespace = "default") -> Any:
    """End a job. Its waiting runs are cancelled; running ones end, and are not tried again."""
    verbs, _ = await seen_job(there, who, job, namespace)
    return {"cancelled": await verbs.remove(job)}


@routes.post("/jobs/{job}/pause", response_model=PausedOut, responses={404: {}})
async def pause_job(there: There, who: Who, job: Name, asked: Pause, namespace: Namespace = "default") -> Any:
    """Plan and start nothing more of a job until it is resumed. What runs goes on."""
    verbs, _ = await seen_job(there, who, job, namespace)
    paused = await verbs.pause(job, reason=asked.reason)
    counts = {"withdrawn": paused.withdrawn, "skipped": paused.skipped, "held": paused.held}
    return {"job": job_fields(paused.record), **counts}
