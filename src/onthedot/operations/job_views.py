"""Collects what people want to see of a job: its next instants and its last run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.job import FixedDelay, JobRecord, JobState, Schedule
from onthedot.model.run import TERMINAL, RunRecord, RunState
from onthedot.operations.next_slots import look_ahead
from onthedot.rules.next_slots import Ahead, Coming, next_of_each
from onthedot.schedules import schedule_id
from onthedot.stores.protocol import Store


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
    """What is read about a job. The rest is computed from it, without the store."""

    record: JobRecord
    ahead: Ahead
    newest: list[RunRecord]

    def shown(self, now: Micros) -> Shown:
        """The job as it is shown at this instant."""
        active = self.record.state is JobState.ACTIVE
        found = next_of_each(self.ahead, now) if active else {}
        upcoming = [_next(self.record, one, self.ahead, found) for one in self.record.job.schedules]
        return Shown(self.record, upcoming, self.newest[0] if self.newest else None)


async def shown(store: Store, record: JobRecord, now: Micros) -> Shown:
    """The job with its next instants and its last run."""
    return (await looked(store, record, now)).shown(now)


async def looked(store: Store, record: JobRecord, now: Micros) -> Looked:
    """Read what its next instants and its last run are computed from."""
    job = record.job
    ahead = await look_ahead(store, record.id, now)
    newest = await store.queries.list_runs(
        job=job.name, namespace=job.namespace, states=[RunState.RUNNING, *TERMINAL], limit=1
    )
    return Looked(record, ahead, newest)


def _next(record: JobRecord, schedule: Schedule, ahead: Ahead, found: dict[str, Coming]) -> Next:
    """When a run of one schedule is due next: by a slot, or because it was moved or is tried again."""
    name = schedule_id(schedule)
    if record.state is not JobState.ACTIVE:
        return Next(schedule, name, None, str(record.state))
    if name in found:
        return Next(schedule, name, found[name].due_at)
    if not isinstance(schedule, FixedDelay):
        return Next(schedule, name, None, "over")
    at = next((state.next_at for state in ahead.states if state.schedule_id == name), None)
    return Next(schedule, name, at, "" if at else "when its run ends")
