"""Control of jobs: pause and resume them, skip and move slots, backfill."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from fastapi import Request
from pydantic import BaseModel, Field

from onthedot.clock import to_datetime
from onthedot.model.errors import DefinitionError
from onthedot.model.events import Events
from onthedot.model.job import JobRecord, JobState
from onthedot.model.run import manual_trigger
from onthedot.observe.formats import iso
from onthedot.operations.backfill import Asked as Range
from onthedot.operations.backfill import Backfill as Filled
from onthedot.operations.backfill import backfill
from onthedot.operations.move_slot import move_next_slot, new_instant
from onthedot.operations.open_verbs import OpenStore
from onthedot.operations.put_job import resume_job as resume_job_of
from onthedot.rules.next_slots import HORIZON
from onthedot.schedules.instants import read_instant
from onthedot.server.audit import record_change
from onthedot.server.auth import StoreDep, Who
from onthedot.server.compute import in_thread
from onthedot.server.models import Body, JobOut, Line, Name, Namespace, datetime_out, fields, job_out
from onthedot.server.quotas import owner_of, quotas_for, room_for_runs
from onthedot.server.router import Routes
from onthedot.server.visibility import visible_job
from onthedot.stores.values import MovedSlot, Resumed

routes = Routes(prefix="/api/v1", tags=["jobs"])

MOST_SLOTS = 10_000


class Pause(Body):
    """The reason of a pause, and its end."""

    reason: Line = Field("", max_length=500, examples=["the database moves"])
    until: Line | None = Field(
        None,
        max_length=50,
        description="Resume the job automatically at this instant, or after this time with a '+'.",
        examples=["+2h"],
    )


class PausedOut(BaseModel):
    """A paused job."""

    job: JobOut
    withdrawn: int = Field(description="Planned runs of future slots that were withdrawn.", examples=[1])
    skipped: int = Field(description="Slots that were due and had not started.", examples=[0])
    held: int = Field(description="Runs that wait until the job is resumed.", examples=[0])


class Resume(Body):
    """What to do with the slots of the pause."""

    missed: Literal["none", "last", "all"] = Field("none", examples=["last"])
    dry_run: bool = Field(False, description="Change nothing; return what would happen.")


class SkipsOut(BaseModel):
    """A range of slots that do not run."""

    first: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    last: str = Field(examples=["2026-01-01T12:00:00.000000Z"])
    count: int = Field(examples=[4])
    reason: str = Field(examples=["paused"])


class ResumedOut(BaseModel):
    """A resumed job, or the result of a dry run."""

    job: JobOut
    was_paused: bool
    dry_run: bool
    slots: list[str] = Field(description="Slots that become runs.", examples=[["2026-01-01T13:00:00.000000Z"]])
    skips: list[SkipsOut]
    released: int = Field(description="Held runs that may start now.", examples=[0])


class Skip(Body):
    """A slot of a job; without `slot`, the next one."""

    slot: Line | None = Field(None, max_length=50, examples=["2026-01-01T09:00:00Z"])
    schedule: Line | None = Field(None, max_length=200, description="Only slots of the schedule with this id.")


class Move(Skip):
    """A slot of a job, and its new instant."""

    to: Line = Field(
        max_length=50, description="An instant, a time after the slot such as '+2h', or 'now'.", examples=["+2h", "now"]
    )


class ExceptedOut(BaseModel):
    """A skipped or moved slot."""

    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    schedule: str = Field(description="The schedule's id.")
    slot_at: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    reason: str = Field(examples=["moved"])
    run_id: int | None = Field(description="The run in its place; null if the slot was skipped.", examples=[7])


class Backfill(Body):
    """A range of past slots: from `start` on, and before `end`."""

    start: Line = Field(max_length=50, examples=["2026-01-01T00:00:00Z"])
    end: Line | None = Field(None, max_length=50, description="Default: now.")
    schedule: Line | None = Field(None, max_length=200, description="Only slots of the schedule with this id.")
    limit: int = Field(MOST_SLOTS, ge=1, le=MOST_SLOTS, description="A range with more slots is refused.")
    dry_run: bool = Field(False, description="Change nothing; return what would happen.")


class BackfillOut(BaseModel):
    """The result of a backfill, or of its dry run."""

    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    dry_run: bool
    slots: int = Field(description="Slots in the range.", examples=[31])
    first: str | None = Field(examples=["2026-01-01T02:30:00.000000Z"])
    last: str | None
    created: int = Field(description="New runs.", examples=[30])
    existing: int = Field(description="Slots that were backfilled before.", examples=[1])
    succeeded: int = Field(description="Slots whose scheduled run succeeded.", examples=[12])
    run_ids: list[int]


@routes.post("/jobs/{job}/pause", response_model=PausedOut, responses={404: {}})
async def pause_job(
    request: Request, opened: StoreDep, who: Who, job: Name, body: Pause | None = None, namespace: Namespace = "default"
) -> Any:
    """Pause a job: none of its runs is planned or started until it is resumed. Running ones continue."""
    body = body or Pause.model_validate({})
    _, record = await visible_job(opened, who, job, namespace)
    now = opened.clock.now()
    until = None if body.until is None else new_instant(body.until, now, now=now, what="until")
    paused = await opened.store.pause_job(record.id, reason=body.reason, until=until)
    await record_change(request, "jobs.pause", record.job)
    counts = {"withdrawn": paused.withdrawn, "skipped": paused.skipped, "held": paused.held}
    return fields(PausedOut, job=job_out(paused.record), **counts)


@routes.post("/jobs/{job}/resume", response_model=ResumedOut, responses={404: {}})
async def resume_job(
    request: Request,
    opened: StoreDep,
    who: Who,
    job: Name,
    body: Resume | None = None,
    namespace: Namespace = "default",
) -> Any:
    """Resume a paused job. `missed` chooses which slots of the pause run now: none, the last, or all. A job that is not
    paused does not change."""
    body = body or Resume.model_validate({})
    _, record = await visible_job(opened, who, job, namespace)
    owner, count = owner_of(record.job), 0
    if body.missed == "all" and not body.dry_run and quotas_for(request) is not None:
        count = len((await _resume(opened, record, body, dry_run=True)).slots)
    async with room_for_runs(request, {owner: count}) as made:
        resumed = await _resume(opened, record, body, dry_run=body.dry_run)
        made[owner] += min(count, len(resumed.slots))
    if not body.dry_run:
        await record_change(request, "jobs.resume", record.job)
    return fields(
        ResumedOut,
        job=job_out(resumed.record),
        was_paused=record.state is JobState.PAUSED,
        dry_run=body.dry_run,
        slots=[iso(slot) for slot in resumed.slots],
        skips=[
            fields(SkipsOut, first=iso(skip.first), last=iso(skip.last), count=skip.count, reason=skip.reason)
            for skip in resumed.skips
        ],
        released=resumed.released,
    )


async def _resume(opened: OpenStore, record: JobRecord, body: Resume, *, dry_run: bool) -> Resumed:
    return await resume_job_of(
        opened.store,
        record.id,
        missed=body.missed,
        clock=opened.clock,
        settings=opened.settings,
        dry_run=dry_run,
        compute=in_thread,
    )


@routes.post("/jobs/{job}/skip-next", response_model=ExceptedOut, responses={404: {}, 409: {}})
async def skip_next(
    request: Request, opened: StoreDep, who: Who, job: Name, body: Skip | None = None, namespace: Namespace = "default"
) -> Any:
    """Skip the next slot of a job, or the one in `slot`. 409 if it has started, or was skipped or moved before."""
    _, record = await visible_job(opened, who, job, namespace)
    done = await _except(opened, record, body or Skip.model_validate({}), to=None)
    await record_change(request, "jobs.skip-next", record.job)
    return _excepted(done, job, namespace)


@routes.post("/jobs/{job}/move-next", response_model=ExceptedOut, responses={404: {}, 409: {}})
async def move_next(
    request: Request, opened: StoreDep, who: Who, job: Name, body: Move, namespace: Namespace = "default"
) -> Any:
    """Run the next slot of a job, or the one in `slot`, at another instant. Other slots do not change. 409 if it has
    started, or was skipped or moved before."""
    _, record = await visible_job(opened, who, job, namespace)
    done = await _except(opened, record, body, to=body.to)
    await record_change(request, "jobs.move-next", record.job)
    return _excepted(done, job, namespace)


@routes.post("/jobs/{job}/backfill", response_model=BackfillOut, responses={404: {}})
async def backfill_job(
    request: Request, opened: StoreDep, who: Who, job: Name, body: Backfill, namespace: Namespace = "default"
) -> Any:
    """Run the past slots of a range: one run per slot, due immediately, oldest first. The same request again creates no
    further runs."""
    _, record = await visible_job(opened, who, job, namespace)
    now = opened.clock.now()
    year = body.start[:4]
    if year.isdecimal() and year < to_datetime(now - HORIZON).isoformat()[:4]:  # rare slots are searched day by day
        raise DefinitionError(f"start: expected an instant within the last hundred years, got {body.start!r}")
    end = to_datetime(now) if body.end is None else body.end
    wanted = Range(body.start, end, body.schedule, body.limit)
    owner, count = owner_of(record.job), 0
    if not body.dry_run and quotas_for(request) is not None:
        count = (await _backfill(opened, record, wanted, dry_run=True)).created
    async with room_for_runs(request, {owner: count}) as made:
        done = await _backfill(opened, record, wanted, dry_run=body.dry_run)
        made[owner] += min(count, done.created)
    if not body.dry_run:
        await record_change(request, "jobs.backfill", record.job)
    return fields(
        BackfillOut,
        job=job,
        namespace=namespace,
        dry_run=body.dry_run,
        slots=done.slots,
        first=datetime_out(done.first),
        last=datetime_out(done.last),
        created=done.created,
        existing=done.existing,
        succeeded=done.succeeded,
        run_ids=list(done.run_ids),
    )


async def _backfill(opened: OpenStore, record: JobRecord, wanted: Range, *, dry_run: bool) -> Filled:
    return await backfill(
        opened.store, record, wanted, dry_run=dry_run, clock=opened.clock, events=Events(), compute=in_thread
    )


async def _except(opened: OpenStore, record: JobRecord, body: Skip, to: str | None) -> MovedSlot:
    return await move_next_slot(
        opened.store,
        record.id,
        slot=_slot(body),
        to=to,
        trigger=manual_trigger(opened.ids.token()),
        clock=opened.clock,
        schedule=body.schedule,
        compute=in_thread,
    )


def _slot(body: Skip) -> datetime | None:
    return None if body.slot is None else read_instant(body.slot, what="slot")


def _excepted(done: MovedSlot, job: str, namespace: str) -> dict[str, Any]:
    return fields(
        ExceptedOut,
        job=job,
        namespace=namespace,
        schedule=done.schedule_id,
        slot_at=iso(done.slot_at),
        reason=done.reason,
        run_id=done.run_id,
    )
