"""Which slots a schedule has: `next_after`, `slots` and the like, for every kind.

Pure: no clock, no randomness, no files but the time zones'. The same arguments give the same answer in every process
with the same zone data. `origin` is the instant at which the schedule was created; it is stored with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import takewhile

from onthedot.clock import Micros, to_micros
from onthedot.model.duration import micros
from onthedot.model.job import At, Cron, Every, FixedDelay, In, Schedule
from onthedot.schedules.bounds import bounded_count, bounded_slots, bounds_of
from onthedot.schedules.interval import fixed_delay_after

_END_OF_TIME = to_micros(datetime.max.replace(tzinfo=UTC))  # what has no datetime is no slot


def next_after(schedule: Schedule, after: Micros, *, origin: Micros, last_end: Micros | None = None) -> Micros | None:
    """The first slot strictly after `after`, or None when there is none. `last_end` matters to `FixedDelay` only.

    >>> from datetime import timedelta
    >>> next_after(Every(interval=timedelta(minutes=1)), 90_000_000, origin=0)
    120000000
    """
    return next(slots(schedule, after, origin=origin, last_end=last_end), None)


def slots(schedule: Schedule, after: Micros, *, origin: Micros, last_end: Micros | None = None) -> Iterator[Micros]:
    """The slots strictly after `after`, strictly ascending, computed as they are asked for.

    A `FixedDelay` has at most one: those behind it depend on a run that has not ended.

    >>> from itertools import islice
    >>> list(islice(slots(Cron(expression="* * * * *"), 0, origin=0), 3))
    [60000000, 120000000, 180000000]
    """
    return takewhile(_END_OF_TIME.__ge__, _unbounded(schedule, after, origin, last_end))


def last_before(schedule: Schedule, before: Micros, *, after: Micros, origin: Micros) -> Micros | None:
    """The last slot after `after` and before `before`, or None. Found by halving, not by walking.

    >>> last_before(Cron(expression="@daily"), 86_400_000_000 * 1000, after=0, origin=0) == 86_400_000_000 * 999
    True
    """
    found, low, high = None, after, before - 1
    while low < high:
        middle = (low + high) // 2
        slot = next_after(schedule, middle, origin=origin)
        if slot is None or slot >= before:
            high = middle
        else:
            found = low = slot
    return found


def count_between(
    schedule: Schedule, after: Micros, until: Micros, *, origin: Micros, last_end: Micros | None = None
) -> int:
    """How many slots lie after `after` and not after `until`: by arithmetic where there can be many.

    >>> count_between(Cron(expression="@daily"), 0, 86_400_000_000, origin=0)
    1
    """
    if isinstance(schedule, Cron | Every):
        return bounded_count(schedule, after, min(until, _END_OF_TIME), bounds_of(schedule, origin))
    found = slots(schedule, after, origin=origin, last_end=last_end)
    return sum(1 for _ in takewhile(until.__ge__, found))


def is_grid(schedule: Schedule) -> bool:
    """Whether the schedule has the same slots after an instant, whenever before it the schedule was created.

    Not so if slots are counted from its creation. Instants that were given (`At`) are no grid.

    >>> from datetime import timedelta
    >>> hour = timedelta(hours=1)
    >>> is_grid(Every(interval=hour)), is_grid(Every(interval=hour, max_count=3)), is_grid(In(delay=hour))
    (True, False, False)
    """
    if not isinstance(schedule, Cron | Every):
        return False
    return schedule.start is not None or not (schedule.run_once or schedule.max_count is not None)


def _unbounded(schedule: Schedule, after: Micros, origin: Micros, last_end: Micros | None) -> Iterator[Micros]:
    match schedule:
        case Cron() | Every():
            return bounded_slots(schedule, after, bounds_of(schedule, origin))
        case FixedDelay():
            return iter((fixed_delay_after(schedule, after, last_end),))
        case At() | In():
            return (slot for slot in _instants(schedule, origin) if slot > after)


def _instants(schedule: At | In, origin: Micros) -> tuple[Micros, ...]:
    """All slots, ascending. Those of an `At` may lie before its origin: the planner decides what becomes of them."""
    if isinstance(schedule, In):
        return (origin + micros(schedule.delay),)
    return tuple(map(to_micros, schedule.instants))
