"""Computes the slots of a schedule: `next_after`, `slots` and the like, for every kind.

Pure: no clock, no randomness, no files but the time zones'. The same arguments give the same answer in every process
with the same zone data. `origin` is the instant at which the schedule was created. It is stored with the schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count, islice, takewhile
from typing import Literal, NamedTuple

from onthedot.clock import Micros, to_datetime, to_micros
from onthedot.model.duration import micros
from onthedot.model.errors import ScheduleError
from onthedot.model.job import At, Cron, Every, FixedDelay, In, Schedule
from onthedot.schedules.cron_slots import cron_count, cron_slots
from onthedot.schedules.zones import LAST_YEAR

SHORTEST = timedelta(milliseconds=10)  # below this the planner's own work would exceed the interval
MOST = 10_000
"""How large `max_count` may be: the slots of a cron have to be walked to be counted."""
_END_OF_TIME = to_micros(datetime.max.replace(tzinfo=UTC))  # an instant without a datetime is not a slot


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


# ── bounds of a recurring schedule ────────────────────────────────────────────────────────────────────────────────────

# `start`, `end`, `max_count` and `run_once`. All bounds follow from the definition and the origin: no runs are
# counted. A skipped or moved slot counts for `max_count` like any other.


class Bounds(NamedTuple):
    """Slots lie after `floor` and not after `ceiling`; None means no bound. A cron has at most `most` slots."""

    floor: Micros | None
    ceiling: Micros | None
    most: int | None = None


def bounds_of(schedule: Cron | Every, origin: Micros) -> Bounds:
    """Where the slots of a schedule lie that was created at `origin`.

    >>> from datetime import timedelta
    >>> bounds_of(Every(interval=timedelta(seconds=1), max_count=3), origin=0)
    Bounds(floor=0, ceiling=3000000, most=None)
    """
    floor = None if schedule.start is None else to_micros(schedule.start) - 1
    ceiling = None if schedule.end is None else to_micros(schedule.end)
    count = 1 if schedule.run_once else schedule.max_count
    if count is None:
        return Bounds(floor, ceiling)
    floor = origin if floor is None else floor
    if isinstance(schedule, Cron):
        return Bounds(floor, ceiling, count)
    last = next(every_slots(schedule, floor)) + (count - 1) * micros(schedule.interval)
    return Bounds(floor, last if ceiling is None else min(last, ceiling))


def bounded_slots(schedule: Cron | Every, after: Micros, bounds: Bounds) -> Iterator[Micros]:
    """The slots after `after` that lie within the bounds, ascending.

    >>> from datetime import timedelta
    >>> seconds = Every(interval=timedelta(seconds=1), max_count=3)
    >>> list(bounded_slots(seconds, 1_500_000, bounds_of(seconds, origin=0)))
    [2000000, 3000000]
    """
    if bounds.floor is not None:
        after = max(after, bounds.floor)
    if isinstance(schedule, Every):
        found: Iterator[Micros] = every_slots(schedule, after)
    elif bounds.floor is not None and bounds.most is not None:
        found = _first_slots(schedule, after, bounds.floor, bounds.most)
    else:
        found = cron_slots(schedule, after)
    return found if bounds.ceiling is None else takewhile(bounds.ceiling.__ge__, found)


def bounded_count(schedule: Cron | Every, after: Micros, until: Micros, bounds: Bounds) -> int:
    """How many slots after `after` and not after `until` lie within the bounds.

    >>> from datetime import timedelta
    >>> seconds = Every(interval=timedelta(seconds=1), max_count=3)
    >>> bounded_count(seconds, 1_500_000, 10_000_000, bounds_of(seconds, origin=0))
    2
    """
    if bounds.floor is not None:
        after = max(after, bounds.floor)
    if bounds.ceiling is not None:
        until = min(until, bounds.ceiling)
    if isinstance(schedule, Every):
        return every_count(schedule, after, until)
    if bounds.floor is not None and bounds.most is not None:
        last = _last(schedule, bounds.floor, bounds.most, _end_of_year(until))
        until = until if last is None else min(until, last)
    return cron_count(schedule, after, until)


def _first_slots(schedule: Cron, after: Micros, floor: Micros, count: int) -> Iterator[Micros]:
    """Those after `after` of the first `count` slots after `floor`. They are counted a year at a time, and only as far
    as the caller reads: nobody needs the last of a thousand months now.
    """
    while True:
        by = _end_of_year(after)
        last = _last(schedule, floor, count, by)
        for slot in cron_slots(schedule, after):
            if last is not None and slot > last:
                return
            if slot > by:
                after = slot - 1
                break
            yield slot
        else:
            return


def _last(schedule: Cron, floor: Micros, count: int, by: Micros) -> Micros | None:
    """The last of the first `count` slots after `floor`; None if it does not come up to `by`."""
    return _numbered(schedule.expression, schedule.spread, schedule.tz, schedule.gap, schedule.fold, floor, count, by)


@lru_cache(maxsize=1024)
def _numbered(
    expression: str,
    spread: str,
    tz: str,
    gap: Literal["run_after", "skip"],
    fold: Literal["first", "second", "both"],
    after: Micros,
    number: int,
    by: Micros,
) -> Micros | None:
    """The slot with this number after `after`, counted from 1; None if it does not come up to `by`."""
    rule = Cron(expression=expression, spread=spread, tz=tz, gap=gap, fold=fold)
    return next(islice(takewhile(by.__ge__, cron_slots(rule, after)), number - 1, None), None)


def _end_of_year(instant: Micros) -> Micros:
    year = min(to_datetime(instant).year, LAST_YEAR)
    return max(instant + 1, to_micros(datetime(year + 1, 1, 1, tzinfo=UTC)))


# ── intervals of real time ────────────────────────────────────────────────────────────────────────────────────────────

# `Every` counts from an anchor, `FixedDelay` from the end of the last run. Real time has no clock changes: an hour is
# an hour also in the night when the clocks go back.


def every_slots(schedule: Every, after: Micros) -> Iterator[Micros]:
    """Yield the slots after `after`, without regard to the bounds. The first costs the same, however far the anchor is.

    >>> next(every_slots(Every(interval=timedelta(hours=1)), 0)) // 1_000_000
    3600
    """
    anchor, interval = _grid(schedule)
    return count(after + interval - (after - anchor) % interval, interval)


def every_count(schedule: Every, after: Micros, until: Micros) -> int:
    """How many slots lie after `after` and not after `until`.

    >>> every_count(Every(interval=timedelta(seconds=1)), 0, 3_600_000_000)
    3600
    """
    anchor, interval = _grid(schedule)
    return max(0, (until - anchor) // interval - (after - anchor) // interval)


def fixed_delay_after(schedule: FixedDelay, after: Micros, last_end: Micros | None) -> Micros:
    """The one slot that is known: after the last end, or for the first time. A slot already past is due at once.

    >>> fixed_delay_after(FixedDelay(delay=timedelta(seconds=1)), 5, last_end=3)
    1000003
    """
    if last_end is not None:
        slot = last_end + micros(schedule.delay)
    else:
        slot = after if schedule.start is None else to_micros(schedule.start)
    return max(slot, after + 1)


def _grid(schedule: Every) -> tuple[Micros, Micros]:
    anchor = 0 if schedule.anchor is None else to_micros(schedule.anchor)
    interval = micros(schedule.interval)
    if interval <= 0:  # `check` refuses it; a division by zero would have a worse message
        raise ScheduleError(f"interval: expected a length of time above zero, got {schedule.interval!r}")
    return anchor, interval
