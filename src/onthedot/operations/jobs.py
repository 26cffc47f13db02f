"""Operations on jobs: store, apply, remove, pause, resume, find, skip or move a slot, backfill. See `Verbs`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from onthedot.clock import to_micros
from onthedot.define.check import check_job
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Job, JobRecord
from onthedot.model.run import manual_trigger
from onthedot.operations.apply import Applied, Recorded, apply_jobs
from onthedot.operations.backfill import Asked as Range
from onthedot.operations.backfill import Backfill
from onthedot.operations.backfill import backfill as backfill_slots
from onthedot.operations.move_slot import To, move_next_slot
from onthedot.operations.put_job import put_job, resume_job
from onthedot.operations.session import Session
from onthedot.rules.windows import Missed
from onthedot.stores.values import MovedSlot, Paused, PutJob, Resumed


async def put(session: Session, job: Job, *, revision: int | None = None) -> PutJob:
    """Store a definition."""
    check_job(job)
    stored = await put_job(session.store, job, clock=session.clock, settings=session.settings, revision=revision)
    if session.recorder is not None:
        await session.recorder.put(stored)
    return stored


async def apply(
    session: Session,
    jobs: Iterable[Job],
    *,
    source: str,
    prune: bool = False,
    dry_run: bool = False,
    take_over: bool = False,
) -> Applied:
    """Store all jobs of a source."""
    return await apply_jobs(
        session.store,
        jobs,
        source=source,
        prune=prune,
        dry_run=dry_run,
        take_over=take_over,
        clock=session.clock,
        settings=session.settings,
        review=Recorded(session.recorder),
    )


async def remove(session: Session, job: str) -> int:
    """Delete a job. Returns how many waiting runs were cancelled."""
    record = await session.find_job(job)
    cancelled = await session.store.delete_job(record.id)
    if session.recorder is not None:
        await session.recorder.replaced(record.job, None)
    return cancelled


async def pause(session: Session, job: str, *, reason: str = "", until: datetime | None = None) -> Paused:
    """Stop planning and starting runs of a job."""
    at = None if until is None else to_micros(until)
    paused = await session.store.pause_job((await session.find_job(job)).id, reason=reason, until=at)
    await session.changed("jobs.pause", paused.record.job)
    return paused


async def resume(session: Session, job: str, *, missed: Missed = "none", dry_run: bool = False) -> Resumed:
    """Resume a paused job."""
    if missed not in ("none", "last", "all"):
        raise DefinitionError(f"missed: expected 'none', 'last' or 'all', got {missed!r}")
    record = await session.find_job(job)
    resumed = await resume_job(
        session.store, record.id, missed=missed, clock=session.clock, settings=session.settings, dry_run=dry_run
    )
    if not dry_run:
        await session.changed("jobs.resume", record.job)
    return resumed


async def get_job(session: Session, job: str) -> JobRecord | None:
    """The stored job, or None."""
    return await session.store.queries.get_job(job, namespace=session.namespace_of(job))


async def list_jobs(session: Session, *, limit: int | None = None) -> list[JobRecord]:
    """The stored jobs, by namespace and name."""
    return await session.store.queries.list_jobs(limit=limit)


async def skip_next(
    session: Session, job: str, *, slot: datetime | None = None, schedule: str | None = None
) -> MovedSlot:
    """Leave out the next slot, or the named one."""
    return await _change_slot(session, job, slot, None, schedule)


async def move_next(
    session: Session, job: str, *, to: To, slot: datetime | None = None, schedule: str | None = None
) -> MovedSlot:
    """Run the next slot, or the named one, at another instant."""
    return await _change_slot(session, job, slot, to, schedule)


async def _change_slot(
    session: Session, job: str, slot: datetime | None, to: To | None, schedule: str | None
) -> MovedSlot:
    record, trigger = await session.find_job(job), manual_trigger(session.ids.token())
    moved = await move_next_slot(
        session.store, record.id, slot=slot, to=to, trigger=trigger, clock=session.clock, schedule=schedule
    )
    await session.changed("jobs.skip-next" if to is None else "jobs.move-next", record.job)
    return moved


async def backfill(
    session: Session,
    job: str,
    start: datetime | str,
    end: datetime | str,
    *,
    schedule: str | None = None,
    dry_run: bool = False,
    limit: int = 10_000,
) -> Backfill:
    """Run the slots of a range in the past."""
    record, asked = await session.find_job(job), Range(start, end, schedule, limit)
    done = await backfill_slots(
        session.store, record, asked, dry_run=dry_run, clock=session.clock, events=session.events
    )
    if not dry_run:
        await session.changed("jobs.backfill", record.job)
    return done
