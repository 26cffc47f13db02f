"""The schedules as people make them: short names, forgiving arguments, checked at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, TypeVar

from onthedot.duration import parse_duration
from onthedot.errors import DefinitionError, ScheduleError
from onthedot.job import At, Cron, Every, FixedDelay, In, Schedule
from onthedot.schedules.check import check
from onthedot.schedules.fields import tidy
from onthedot.schedules.instants import read_instant

Length = str | float | timedelta
Instant = datetime | str
S = TypeVar("S", bound=Schedule)


def cron(
    expression: str,
    *,
    tz: str = "UTC",
    gap: Literal["run_after", "skip"] = "run_after",
    fold: Literal["first", "second", "both"] = "first",
    run_once: bool = False,
    id: str = "",
) -> Cron:
    """Wall-clock times: 5 fields, 6 with seconds in front, 4 as `second minute hour day`, or `@daily` and the like.

    >>> cron("30 2 * * *", tz="Europe/Berlin").tz
    'Europe/Berlin'
    """
    return _checked(Cron(expression=tidy(expression), tz=tz, gap=gap, fold=fold, run_once=run_once, id=id))


def every(interval: Length, *, anchor: Instant | None = None, run_once: bool = False, id: str = "") -> Every:
    """Steps of real time, at least 10 ms, counted from `anchor` (default: 1970-01-01 UTC) in both directions.

    >>> every("1h30m").interval
    datetime.timedelta(seconds=5400)
    """
    length = _length(interval, "interval")
    return _checked(Every(interval=length, anchor=_instant(anchor, "anchor"), run_once=run_once, id=id))


def gap(delay: Length, *, start: Instant | None = None, id: str = "") -> FixedDelay:
    """A pause of at least 10 ms between the end of one run and the next; the first run at `start`, or at once.

    >>> gap("10m").delay
    datetime.timedelta(seconds=600)
    """
    return _checked(FixedDelay(delay=_length(delay, "delay"), start=_instant(start, "start"), id=id))


def at(instant: Instant, *, tz: str | None = None, id: str = "") -> At:
    """One instant: an aware datetime or ISO text with an offset; without one it is local time in `tz`.

    A local time that the clocks skip is refused; of one that they show twice, the first is meant (a naive
    datetime with `fold=1` means the second).

    >>> at("2026-07-01T12:00", tz="Europe/Berlin").instant.isoformat()
    '2026-07-01T10:00:00+00:00'
    """
    return _checked(At(instant=read_instant(instant, tz=tz, what="at"), id=id))


def in_(delay: Length, *, id: str = "") -> In:
    """One instant, `delay` after the schedule is created.

    >>> in_(90).delay
    datetime.timedelta(seconds=90)
    """
    return _checked(In(delay=_length(delay, "delay"), id=id))


def _checked(schedule: S) -> S:
    check(schedule)
    return schedule


def _length(value: Length, what: str) -> timedelta:
    try:
        return parse_duration(value, what=what)
    except DefinitionError as error:
        raise ScheduleError(error.problems) from None


def _instant(value: Instant | None, what: str) -> datetime | None:
    return None if value is None else read_instant(value, what=what)
