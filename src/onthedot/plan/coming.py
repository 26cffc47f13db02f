"""When a stored job runs next: the slots ahead of all its schedules whose fate is open. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice, takewhile
from typing import NamedTuple

from onthedot.clock import SECOND, Micros
from onthedot.job import FixedDelay
from onthedot.plan.windows import find_schedule
from onthedot.schedules import due_of, slots
from onthedot.stores.base import ScheduleState

HORIZON: Micros = 100 * 366 * 86_400 * SECOND
"""How far anybody looks ahead: what comes once in a lifetime is searched day by day."""


class Coming(NamedTuple):
    """A slot ahead, and when its run is due."""

    slot_at: Micros
    schedule_id: str
    due_at: Micros


def coming(states: Sequence[ScheduleState], now: Micros, count: int) -> list[Coming]:
    """The first so many of a job's slots after now, within a hundred years."""
    return list(islice(merge(*(_of(state, now) for state in states)), count))


def _of(state: ScheduleState, now: Micros) -> Iterator[Coming]:
    job = state.record.job
    schedule = find_schedule(job, state.schedule_id)
    if schedule is None:
        return
    given = {one.slot_at for one in state.exceptions}
    if isinstance(schedule, FixedDelay):  # while its run is open, nobody knows
        if state.next_at is not None and state.next_at > now and state.next_at not in given:
            yield Coming(state.next_at, state.schedule_id, state.next_at)
        return
    due = due_of(job, schedule)
    for slot in takewhile((now + HORIZON).__ge__, slots(schedule, now, origin=state.origin)):
        if slot not in given:
            yield Coming(slot, state.schedule_id, due(slot))
