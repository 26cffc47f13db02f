"""Computes the slots of a cron expression: wall-clock times become instants.

`cron_parser.py` reads the expression, `calendar.py` which days match. The rules for clock changes are here. They are
those of Debian's cron:

    a **fixed** time (neither minute nor hour starts with `*`)
        left out by a clock change: runs once, right after the gap       `gap="skip"`: not at all
        shown twice:                runs the first time                  `fold="second"`, or `"both"`
    a **wildcard** time
        runs whenever the clocks show it: the rhythm in real time stays, in gaps and folds too

Real time is walked in stretches of constant offset (`zones.py`), so that within each the two clocks differ by a
constant and nothing special can happen; all that is special happens where stretches meet.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from onthedot.clock import SECOND, Micros, to_micros
from onthedot.model.errors import shown
from onthedot.model.job import Cron
from onthedot.schedules.calendar import Days
from onthedot.schedules.cron_parser import read_fields, values_of
from onthedot.schedules.zones import FIRST_YEAR, LARGEST_OFFSET, LAST_YEAR, Stretch, stretch_at, zone

_WALL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  wall times carry no zone
_EPOCH_ORDINAL = _WALL_EPOCH.toordinal()
_DAY = 86_400
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # of each month, from 1 on
# In years. No expression that ever matches can wait longer than 40: for a 29 February on a given weekday, over a
# year like 2100, which has none.
_LONGEST_WAIT = 50
_FIRST = to_micros(datetime.fromisoformat(f"{FIRST_YEAR:04}-01-02T00:00Z"))
_LAST = to_micros(datetime.fromisoformat(f"{LAST_YEAR:04}-12-30T00:00Z"))


class WallTimes:
    """The wall times that a cron expression matches, on a calendar without clock changes.

    Months are walked one by one, and the times of a matching day are the products of three short lists.
    """

    def __init__(self, expression: str, spread: str = "") -> None:
        second, minute, hour, day, month, weekday = read_fields(expression, spread)
        self.fixed = not (minute.startswith("*") or hour.startswith("*"))
        self.days = Days(day, weekday)
        self.months = values_of("month", month)
        self.seconds, self.minutes, self.hours = (
            tuple(sorted(values_of(name, text)))
            for name, text in (("second", second), ("minute", minute), ("hour", hour))
        )

    def since(self, wall: Micros) -> Iterator[Micros]:
        """Ascending wall times, the first at or after `wall`; the end of the calendar is their end."""
        first, start = divmod(-(-wall // SECOND), _DAY)
        for day in self._days(first):
            for second in self._times(start if day == first else 0):
                yield (day * _DAY + second) * SECOND

    def count(self, start: Micros, end: Micros) -> int:
        """Return how many wall times from `start` up to but without `end` match. Days are walked, their
        times are not.
        """
        first, begin = divmod(-(-start // SECOND), _DAY)
        last, stop = divmod(-(-end // SECOND), _DAY)
        found = 0
        for day in self._days(first):
            if day > last:
                break
            found += self._before(stop if day == last else _DAY) - self._before(begin if day == first else 0)
        return max(found, 0)

    def within(self, start: Micros, end: Micros) -> bool:
        """Return whether any wall time from `start` up to but without `end` matches."""
        return next(self.since(start), end) < end

    def _days(self, first: int) -> Iterator[int]:
        """The matching days, counted from 1970-01-01, from `first` on; none when none comes for 50 years."""
        start = _WALL_EPOCH.date() + timedelta(days=first)
        year, month, least = start.year, start.month, start.day
        give_up = year + _LONGEST_WAIT
        while year <= min(give_up, LAST_YEAR + 1):
            if month in self.months:
                ordinal = date(year, month, 1).toordinal()
                length = 29 if month == 2 and isleap(year) else _LENGTHS[month]
                days = self.days.of_month((ordinal - 1) % 7, length)
                begin = ordinal - _EPOCH_ORDINAL - 1
                for day in days[bisect_left(days, least) :] if least > 1 else days:
                    yield begin + day
                    give_up = year + _LONGEST_WAIT
            year, month, least = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)

    def _times(self, start: int) -> Iterator[int]:
        """The matching times of a day, in seconds from midnight, from `start` on."""
        first_hour, first_minute = start // 3600, start // 60 % 60
        for hour in self.hours[bisect_left(self.hours, first_hour) :]:
            begin = bisect_left(self.minutes, first_minute) if hour == first_hour else 0
            for minute in self.minutes[begin:]:
                base = hour * 3600 + minute * 60
                for second in self.seconds:
                    if base + second >= start:
                        yield base + second

    def _before(self, stop: int) -> int:
        """How many of the matching times of a day come before `stop`, in seconds from midnight."""
        hour, minute, second = stop // 3600, stop // 60 % 60, stop % 60
        found = bisect_left(self.hours, hour) * len(self.minutes) * len(self.seconds)
        if hour in self.hours:
            found += bisect_left(self.minutes, minute) * len(self.seconds)
            if minute in self.minutes:
                found += bisect_left(self.seconds, second)
        return found


@lru_cache(maxsize=1024)
def wall_times(expression: str, spread: str = "") -> WallTimes:
    """The parsed expression, from a bounded cache. `spread` is the name that chooses what `H` stands for."""
    return WallTimes(expression, spread)


def never(expression: str) -> str:
    """Return the message for an expression that matches no date."""
    return (
        f"cron: expected a date that exists, got {shown(expression)}, which never comes; check day, month and weekday"
    )


def cron_slots(schedule: Cron, after: Micros) -> Iterator[Micros]:
    """Yield every slot after `after`, strictly ascending, without regard to the schedule's bounds.

    >>> from itertools import islice
    >>> noon = Cron(expression="0 12 * * *", tz="Europe/Berlin")
    >>> [slot // 3_600_000_000 for slot in islice(cron_slots(noon, 0), 2)]
    [11, 35]
    """
    times = wall_times(schedule.expression, schedule.spread)
    last = max(after, _FIRST)
    for stretch in _stretches(schedule, times, last):
        shown = _shown(stretch, times, schedule, last)
        if shown.moved:
            yield stretch.start
            last = stretch.start
        for wall in takewhile(shown.stop.__gt__, times.since(shown.begin)):
            slot = wall - stretch.offset
            if slot > last:  # a time right after a gap may come twice: moved, and by itself
                yield slot
                last = slot


def cron_count(schedule: Cron, after: Micros, until: Micros) -> int:
    """Return how many slots lie after `after` and not after `until`, without regard to the bounds. Days are walked, not
    slots.

    >>> cron_count(Cron(expression="* * * * * *"), 0, 30 * 86_400_000_000)
    2592000
    """
    times = wall_times(schedule.expression, schedule.spread)
    after, found = max(after, _FIRST), 0
    for stretch in takewhile(lambda one: one.start <= until, _stretches(schedule, times, after)):
        shown = _shown(stretch, times, schedule, after)
        stop = min(shown.stop, until + stretch.offset + 1)
        found += times.count(shown.begin, stop)
        if shown.moved:
            first = stretch.start + stretch.offset
            found += not (shown.begin <= first < stop and times.within(first, first + 1))  # it comes by itself
    return found


def _stretches(schedule: Cron, times: WallTimes, after: Micros) -> Iterator[Stretch]:
    """Yield the stretches that can have slots after `after`, ascending."""
    zone(schedule.tz)
    at: Micros | None = after
    while at is not None and at <= _LAST:
        stretch = stretch_at(schedule.tz, at)
        yield stretch
        at = _resume(stretch, times)


class _Shown(NamedTuple):
    """The wall times of a stretch from `begin` up to but without `stop`, each an offset away from its slot; before
    them the stretch's first instant if a time that a clock change left out has `moved` there."""

    begin: Micros
    stop: Micros
    moved: bool


def _shown(stretch: Stretch, times: WallTimes, schedule: Cron, after: Micros) -> _Shown:
    first, stop = stretch.start + stretch.offset, stretch.end + stretch.offset
    begin, moved = max(first, after + 1 + stretch.offset), False
    if times.fixed:
        in_gap = stretch.skipped_from < first and stretch.start > after
        moved = in_gap and schedule.gap == "run_after" and times.within(stretch.skipped_from, first)
        if schedule.fold == "first":
            begin = max(begin, stretch.repeated_until)
        elif schedule.fold == "second":
            stop = min(stop, stretch.repeats_from)
    return _Shown(begin, stop, moved)


def _resume(stretch: Stretch, times: WallTimes) -> Micros | None:
    """Return where to continue after a stretch: at its end, or much later when no match is near (29 February).

    After the stretch the clocks can go back, but never below `lowest`; and a match can come no earlier than
    `LARGEST_OFFSET` before its wall time is read as UTC. So nothing lies between the end and the result.
    """
    lowest = stretch.end - LARGEST_OFFSET
    wall = next(times.since(lowest), None)
    return None if wall is None else max(stretch.end, wall - LARGEST_OFFSET)
