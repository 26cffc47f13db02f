"""Stores a job or resumes it, together with the slots of its next moments.

Both read, compute and write. If the job changed in between, the store refuses the write, and they start again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from onthedot.clock import Clock, Micros, to_micros
from onthedot.model.errors import DefinitionError, RevisionConflict, StoreUnusable, WindowStale
from onthedot.model.job import Guarantee, Job, JobRecord, Pause
from onthedot.model.job_json import encode
from onthedot.operations.cluster import live_workers
from onthedot.operations.session import Compute, at_once
from onthedot.rules.pauses import pause_change, pause_of
from onthedot.rules.placement import targets
from onthedot.rules.windows import Missed, aimed, edit_windows, resume_windows
from onthedot.settings import Settings
from onthedot.stores.protocol import Store
from onthedot.stores.values import PutJob, Resumed


async def put_job(store: Store, job: Job, *, clock: Clock, settings: Settings, revision: int | None = None) -> PutJob:
    """Store a definition with the runs of its next moments, and apply its `paused`. Raise `DefinitionError` if this
    store cannot keep it.

    `revision` is the one that the caller has read (0: no such job yet; None: whichever is current). If another revision
    with another definition is stored, raise `RevisionConflict` and write nothing.
    """
    if job.paused is None:
        return await _put(store, job, clock=clock, settings=settings, revision=revision)
    stored = None
    with suppress(StoreUnusable):  # the stored definition is replaced
        stored = await store.queries.get_job(job.name, namespace=job.namespace)
    change = pause_change(job.paused, pause_of(stored), clock.now())
    if change == "pause":
        return await _put_paused(store, job, job.paused, stored, clock=clock, settings=settings, revision=revision)
    put = await _put(store, job, clock=clock, settings=settings, revision=revision)
    if change == "resume":
        resumed = await resume_job(store, put.record.id, missed="none", clock=clock, settings=settings)
        return replace(put, record=resumed.record, pause="resume")
    return put


async def _put_paused(
    store: Store,
    job: Job,
    pause: Pause,
    stored: JobRecord | None,
    *,
    clock: Clock,
    settings: Settings,
    revision: int | None,
) -> PutJob:
    """Pause first, then store: nothing of the new definition starts in between. A new job is stored without anything
    that could start it, until it is paused."""
    created = False
    if stored is None:
        idle = replace(job, schedules=(), after=None)
        first = await _put(store, idle, clock=clock, settings=settings, revision=revision)
        stored, revision, created = first.record, None, first.change == "created"
    elif encode(stored.job) != encode(job):
        check_read(job, stored, revision)
    until = None if pause.until is None else to_micros(pause.until)
    paused = await store.pause_job(stored.id, reason=pause.reason, until=until)
    put = await _put(store, job, clock=clock, settings=settings, revision=revision)
    record = paused.record if put.record.revision == paused.record.revision else put.record
    return replace(put, record=record, change="created" if created else put.change, pause="pause")


async def _put(store: Store, job: Job, *, clock: Clock, settings: Settings, revision: int | None) -> PutJob:
    job = job if job.paused is None else replace(job, paused=None)  # `paused` is not stored
    refuse_without(store.transactions is not None, job)
    told: Micros | None = None  # the store's time, if it differed from ours
    slack: Micros = 0  # how long the next write may take
    while True:
        now = clock.now() if told is None else told
        stored, expected = None, None
        with suppress(StoreUnusable):  # a definition that this version cannot read is replaced
            stored = await store.queries.get_job(job.name, namespace=job.namespace)
            expected = 0 if stored is None else stored.revision
        if stored is not None and encode(stored.job) == encode(job):
            return PutJob(stored, "unchanged")
        if expected is not None:
            check_read(job, stored, revision)
        places = await live_workers(store, now) if job.on == "all" else []
        known = {} if stored is None else {s.schedule_id: s for s in await store.queries.schedules_of(stored.id)}
        windows = edit_windows(
            job, known, now=now, lookahead=settings.lookahead, late_after=settings.late_after, slack=slack
        )
        windows = [aimed(window, targets(job, places), now) for window in windows]
        try:
            return await store.put_job(job, windows, expected=expected)
        except RevisionConflict:
            continue  # another edit came first; `check_read` reports it to callers that named a revision
        except WindowStale as stale:
            slack = 0 if told is None else max(0, 2 * (stale.now - told))
            told = stale.now


def check_read(job: Job, stored: JobRecord | None, expected: int | None) -> None:
    """Raise `RevisionConflict` unless the stored revision is the one that the caller has read (0: no job;
    None: any).
    """
    if expected is None or expected == (0 if stored is None else stored.revision):
        return
    wanted = "no such job" if expected == 0 else f"revision {expected}"
    found = "none" if stored is None else f"revision {stored.revision}"
    raise RevisionConflict(f"job {job.name!r}: expected {wanted}, found {found}; read it again, and repeat the change")


async def resume_job(
    store: Store,
    job_id: int,
    *,
    missed: Missed,
    clock: Clock,
    settings: Settings,
    overdue: bool = False,
    dry_run: bool = False,
    compute: Compute = at_once,
) -> Resumed:
    """Resume a paused job (`overdue`: only if its pause is over). Returns what became of the slots of the pause."""
    told: Micros | None = None
    while True:
        states, now = await store.queries.schedules_of(job_id), clock.now() if told is None else told
        windows = await compute(
            resume_windows,
            states,
            missed=missed,
            now=now,
            lookahead=settings.lookahead,
            late_after=settings.late_after,
        )
        seen = states[0].record.revision if states else None
        if states and states[0].record.job.on == "all":
            aims = targets(states[0].record.job, await live_workers(store, now))
            windows = [aimed(window, aims, now) for window in windows]
        try:
            return await store.resume_job(job_id, windows, expected=seen, overdue=overdue, dry_run=dry_run)
        except RevisionConflict:
            continue  # the job was edited meanwhile
        except WindowStale as stale:
            told = stale.now


def refuse_without(transactions: bool, job: Job) -> None:
    """Raise `DefinitionError` for a job under exactly_once on a store without transactions."""
    if job.guarantee is Guarantee.EXACTLY_ONCE and not transactions:
        raise DefinitionError(
            "guarantee: expected a store with transactions for 'exactly_once' (PostgreSQL, or memory for tests), got "
            "one without; choose 'at_least_once', and let ctx.run_id make its effects idempotent",
            subject=f"job {job.name!r}",
        )
