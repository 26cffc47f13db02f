"""Computes the days of a month that a cron expression matches.

A day rule depends only on the length of a month and on the weekday of its first day. So there are 28 kinds of
months, and each is computed once per expression.
"""

from __future__ import annotations

from dataclasses import dataclass

from onthedot.schedules.cron_parser import NEAREST, OF_MONTH, values_of

_LAST = 0  # as a number of weeks: the last one of the month


@dataclass(frozen=True, slots=True)
class DayOfMonth:
    """Days of the month: plain numbers, or one day that is computed for each month."""

    plain: frozenset[int]
    before_last: int | None = None
    nearest: bool = False

    def within(self, first: int, length: int) -> frozenset[int]:
        """The days of a month that begins on `first` (0: Monday) and has `length` days."""
        found = self.plain if self.before_last is None else frozenset({length - self.before_last})
        existing = frozenset(day for day in found if 1 <= day <= length)
        return frozenset(_nearest_weekday(day, first, length) for day in existing) if self.nearest else existing


@dataclass(frozen=True, slots=True)
class DayOfWeek:
    """Weekdays (0: Sunday), all of a month or those of one week: 1 to 5, or the last (0)."""

    weekdays: frozenset[int]
    week: int | None = None

    def within(self, first: int, length: int) -> frozenset[int]:
        """The days of a month that begins on `first` (0: Monday) and has `length` days."""
        if self.week is None:
            days = range(1, length + 1)
        elif self.week == _LAST:
            days = range(length - 6, length + 1)
        else:
            days = range(self.week * 7 - 6, min(self.week * 7, length) + 1)
        return frozenset(day for day in days if (first + day) % 7 in self.weekdays)


class Days:
    """Which days of which month match the fields `day` and `weekday` (of `read_fields`)."""

    def __init__(self, day: str, weekday: str) -> None:
        self.by_day = tuple(_day_of_month(term) for term in day.split(","))
        self.by_weekday = tuple(_day_of_week(term) for term in weekday.split(","))
        self.both = day.startswith("*") or weekday.startswith("*")
        self._known: dict[tuple[int, int], tuple[int, ...]] = {}

    def of_month(self, first: int, length: int) -> tuple[int, ...]:
        """The matching days, ascending, of a month that begins on `first` (0: Monday) and has `length` days.

        >>> Days("15W", "*").of_month(first=5, length=30)  # the 15th is a Saturday
        (14,)
        """
        found = self._known.get((first, length))
        if found is None:
            by_day = frozenset().union(*(term.within(first, length) for term in self.by_day))
            by_weekday = frozenset().union(*(term.within(first, length) for term in self.by_weekday))
            found = tuple(sorted(by_day & by_weekday if self.both else by_day | by_weekday))
            self._known[first, length] = found
        return found


def _day_of_month(term: str) -> DayOfMonth:
    special = NEAREST.fullmatch(term)
    if special is None:
        return DayOfMonth(values_of("day", term))
    if special[1] is not None:
        return DayOfMonth(frozenset({int(special[1])}), nearest=True)
    return DayOfMonth(frozenset(), -int(special[2] or 0), nearest=bool(special[3]))


def _day_of_week(term: str) -> DayOfWeek:
    special = OF_MONTH.fullmatch(term)
    if special is None:
        return DayOfWeek(values_of("weekday", term))
    return DayOfWeek(values_of("weekday", special[1]), _LAST if special[2] else int(special[3]))


def _nearest_weekday(day: int, first: int, length: int) -> int:
    """The day from Monday to Friday that is nearest, in the same month."""
    weekday = (first + day - 1) % 7
    if weekday == 5:
        return day - 1 if day > 1 else day + 2
    if weekday == 6:
        return day + 1 if day < length else day - 2
    return day
