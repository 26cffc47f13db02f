"""Reads from a store what starts next: of all jobs, or of one job with its last run (`rules/next_slots.py`).

For all jobs, the work grows with the number of lines, not with the number of jobs. Waiting runs are read in the order
of their due instants, and schedules in the order of their next slots, which stores index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.job import FixedDelay, JobRecord, JobState, Schedule
from onthedot.model.run import TERMINAL, RunRecord, RunState, is_manual, is_slot
from onthedot.model.window import ScheduleState
from onthedot.rules.next_slots import HORIZON, Ahead, Coming, Gathered, Key, is_ahead, next_of_each
from onthedot.schedules import schedule_id
from onthedot.stores.protocol import Store
from onthedot.stores.queries import FIRST_JOB, FIRST_LIVE, JobCursor, JobFilter, RunCursor, RunFilter
from onthedot.stores.values import ScheduleCursor

MOST_RUNS = 10_000
"""How many waiting runs are read: those that are due first."""
MOST_SCHEDULES = 20_000
"""How many schedules are read: those whose next slots come first."""
_AT_ONCE = 500
_MOST_COUNTED = 1_000

_WAITING = frozenset({RunState.SCHEDULED, RunState.RESERVED})


async def look_ahead(store: Store, job_id: int, now: Micros, *, limit: int = 1) -> Ahead:
    """Read what `coming` needs for so many starts of a job."""
    states = await store.queries.schedules_of(job_id)
    known = {(job_id, state.schedule_id): state for state in states}
    asked = RunFilter(job_id=job_id, states=_WAITING, since=now + 1)
    place: RunCursor | None = FIRST_LIVE
    waiting: list[RunRecord] = []
    singles = 0
    while place is not None and singles < limit and len(waiting) < MOST_RUNS:
        page, place = await store.queries.find_runs(asked, after=place, limit=_AT_ONCE)
        waiting += page
        singles += sum(not is_ahead(run, known, now) for run in page)
    return Ahead(states, waiting)


async def gather(
    store: Store, now: Micros, *, limit: int, until: Micros | None = None, wanted: JobFilter | None = None
) -> Gathered:
    """Read what `upcoming` needs for so many lines, of jobs of these namespaces and this owner."""
    wanted = wanted or JobFilter()
    runs, read_until = await _waiting(store, now, limit, until, wanted)
    ids = sorted({run.job_id for run in runs})
    jobs = {one.id: one for one in await store.queries.get_jobs_by_id(ids) if one.state is not JobState.PAUSED}
    states: dict[Key, ScheduleState] = {}
    for job_id in {run.job_id for run in runs if is_slot(run.trigger) or is_manual(run.trigger)} & jobs.keys():
        for state in await store.queries.schedules_of(job_id):
            states[job_id, state.schedule_id] = state
    planned, planned_until = await _planned_next(store, now, limit, until, wanted)
    for state in planned:
        states.setdefault((state.record.id, state.schedule_id), state)
    ends = [one for one in (read_until, planned_until) if one is not None]
    singles = [(run, jobs[run.job_id]) for run in runs if run.job_id in jobs and not is_ahead(run, states, now)]
    return Gathered(list(states.values()), singles, await _count_paused(store, wanted), min(ends, default=None))


async def _waiting(
    store: Store, now: Micros, limit: int, until: Micros | None, wanted: JobFilter
) -> tuple[list[RunRecord], Micros | None]:
    """Return the first waiting run of each schedule, and the runs without a schedule, until there are enough."""
    found: dict[object, RunRecord] = {}
    asked = RunFilter(
        namespaces=wanted.namespaces, owner=wanted.owner, states=_WAITING, since=now + 1,
        until=None if until is None else until + 1,
    )  # fmt: skip
    place: RunCursor | None = FIRST_LIVE
    read = 0
    while place is not None and len(found) <= limit:
        page, place = await store.queries.find_runs(asked, after=place, limit=_AT_ONCE)
        for run in page:
            planned = is_slot(run.trigger) and not run.attempts
            found.setdefault((run.job_id, run.trigger) if planned else run.id, run)
        read += len(page)
        if read >= MOST_RUNS and place is not None:
            return list(found.values()), place.at
    return list(found.values()), None


async def _planned_next(
    store: Store, now: Micros, limit: int, until: Micros | None, wanted: JobFilter
) -> tuple[list[ScheduleState], Micros | None]:
    """Return schedules in the order of their next slots: as many as there are lines, and all that nobody has planned.
    If there are too many, also return the slot up to which they were read.
    """
    found: list[ScheduleState] = []
    end, certain = now + HORIZON if until is None else until, 0
    place: ScheduleCursor | None = None
    for _ in range(MOST_SCHEDULES // _AT_ONCE):
        some, place = await store.queries.next_schedules(
            until=end, limit=_AT_ONCE, namespaces=wanted.namespaces, owner=wanted.owner, after=place
        )
        found += some
        certain += sum(_is_certain(state, now) for state in some)
        if place is None or certain > limit:
            return found, None
    return found, None if place is None else place.next_at


def _is_certain(state: ScheduleState, now: Micros) -> bool:
    """Return whether the schedule starts at its next slot: not if the slot has passed, or was skipped."""
    return state.next_at is not None and state.next_at > now and not state.exceptions


async def _count_paused(store: Store, wanted: JobFilter) -> int:
    asked = JobFilter(namespaces=wanted.namespaces, owner=wanted.owner, states=frozenset({JobState.PAUSED}))
    place: JobCursor | None = FIRST_JOB
    paused = 0
    while place is not None and paused < _MOST_COUNTED:
        page, place = await store.queries.find_jobs(asked, after=place, limit=_MOST_COUNTED)
        paused += len(page)
    return paused


# ── one job as it is shown ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Next:
    """One schedule of a job and its next instant, if that is known."""

    schedule: Schedule
    id: str
    at: Micros | None
    note: str = ""


@dataclass(frozen=True)
class Shown:
    """A job, its next instants and its last run."""

    record: JobRecord
    next: list[Next]
    last: RunRecord | None


class Looked(NamedTuple):
    """The stored data that `Shown` is computed from, without the store."""

    record: JobRecord
    ahead: Ahead
    newest: list[RunRecord]

    def shown(self, now: Micros) -> Shown:
        """Return the job as it is shown at this instant."""
        active = self.record.state is JobState.ACTIVE
        found = next_of_each(self.ahead, now) if active else {}
        upcoming = [_next(self.record, one, self.ahead, found) for one in self.record.job.schedules]
        return Shown(self.record, upcoming, self.newest[0] if self.newest else None)


async def shown(store: Store, record: JobRecord, now: Micros) -> Shown:
    """The job with its next instants and its last run."""
    return (await looked(store, record, now)).shown(now)


async def looked(store: Store, record: JobRecord, now: Micros) -> Looked:
    """Read the data for a job's next instants and its last run."""
    job = record.job
    ahead = await look_ahead(store, record.id, now)
    newest = await store.queries.list_runs(
        job=job.name, namespace=job.namespace, states=[RunState.RUNNING, *TERMINAL], limit=1
    )
    return Looked(record, ahead, newest)


def _next(record: JobRecord, schedule: Schedule, ahead: Ahead, found: dict[str, Coming]) -> Next:
    """Return when a run of one schedule is due next: at a slot, after a move, or for a retry."""
    name = schedule_id(schedule)
    if record.state is not JobState.ACTIVE:
        return Next(schedule, name, None, str(record.state))
    if name in found:
        return Next(schedule, name, found[name].due_at)
    if not isinstance(schedule, FixedDelay):
        return Next(schedule, name, None, "over")
    at = next((state.next_at for state in ahead.states if state.schedule_id == name), None)
    return Next(schedule, name, at, "" if at else "when its run ends")
