"""Limits a recurring schedule: `start`, `end`, `max_count` and `run_once`.

Everything follows from the definition and the schedule's origin: no runs are counted. A skipped or moved slot counts
for `max_count` like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, takewhile
from typing import Literal, NamedTuple

from onthedot.clock import Micros, to_datetime, to_micros
from onthedot.model.duration import micros
from onthedot.model.job import Cron, Every
from onthedot.schedules.cron import cron_count, cron_slots
from onthedot.schedules.interval import every_count, every_slots
from onthedot.schedules.zones import LAST_YEAR

MOST = 10_000
"""How large `max_count` may be: the slots of a cron have to be walked to be counted."""


class Bounds(NamedTuple):
    """Slots lie after `floor` and not after `ceiling`; None: wherever they like. A cron has at most `most` of them."""

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
    """Those after `after` of the first `count` slots after `floor`. Counted a year at a time and only as far as it is
    asked for: the last of a thousand months is of no use to anybody now."""
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
