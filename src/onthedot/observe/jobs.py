"""Jobs as people look at them: with their next instants, and how they went last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.job import FixedDelay, JobRecord, JobState, Schedule
from onthedot.run import TERMINAL, RunRecord, RunState, slot_trigger
from onthedot.schedules import next_after, schedule_id
from onthedot.stores.base import ScheduleState, Store


@dataclass(frozen=True)
class Next:
    """One schedule of a job and its next instant, if that is known."""

    schedule: Schedule
    id: str
    at: Micros | None
    note: str = ""


@dataclass(frozen=True)
class Shown:
    """A job with what people want to know of it."""

    record: JobRecord
    next: list[Next]
    last: RunRecord | None


class Looked(NamedTuple):
    """What is stored about a job: from here on nothing is asked, and much may be computed."""

    record: JobRecord
    states: dict[str, ScheduleState]
    newest: list[RunRecord]
    waiting: list[RunRecord]

    def shown(self, now: Micros) -> Shown:
        """The job as it is shown at this instant."""
        upcoming = [_next(self.record, one, self.states, self.waiting, now) for one in self.record.job.schedules]
        return Shown(self.record, upcoming, self.newest[0] if self.newest else None)


async def shown(store: Store, record: JobRecord, now: Micros) -> Shown:
    """The job with its next instants and its last run."""
    return (await looked(store, record)).shown(now)


async def looked(store: Store, record: JobRecord) -> Looked:
    """What its next instants and its last run are told by."""
    job = record.job
    states = {state.schedule_id: state for state in await store.schedules_of(record.id)}
    newest = await store.list_runs(job=job.name, namespace=job.namespace, states=[RunState.RUNNING, *TERMINAL], limit=1)
    waiting: list[RunRecord] = []
    if any(_is_fixed_delay(schedule) for schedule in job.schedules):
        waiting = await store.list_runs(
            job=job.name, namespace=job.namespace, states=[RunState.SCHEDULED, RunState.RESERVED], limit=10
        )
    return Looked(record, states, newest, waiting)


def _next(
    record: JobRecord,
    schedule: Schedule,
    states: dict[str, ScheduleState],
    waiting: list[RunRecord],
    now: Micros,
) -> Next:
    """The next instant of one schedule: computed, or for a fixed delay the run that waits."""

    name = schedule_id(schedule)
    state = states.get(name)
    if record.state is not JobState.ACTIVE:
        return Next(schedule, name, None, str(record.state))
    if not _is_fixed_delay(schedule):
        found = next_after(schedule, now, origin=state.origin if state else record.created_at)
        return Next(schedule, name, found, "" if found else "over")
    due = [run.due_at for run in waiting if run.trigger == slot_trigger(name)]
    at = due[0] if due else state.next_at if state else None
    return Next(schedule, name, at, "" if at else "when its run ends")


def _is_fixed_delay(schedule: Schedule) -> bool:

    return isinstance(schedule, FixedDelay)
