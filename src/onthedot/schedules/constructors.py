"""Makes schedules: `cron()`, `every()`, `gap()`, `at()` and `in_()`. Arguments are checked at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar

from onthedot.model.duration import parse_duration
from onthedot.model.errors import DefinitionError, ScheduleError, shown
from onthedot.model.job import At, Cron, Every, FixedDelay, In, Json, Schedule
from onthedot.schedules.check import check
from onthedot.schedules.cron_parser import is_four_fields, tidy
from onthedot.schedules.cron_slots import wall_times
from onthedot.schedules.description import cron_words
from onthedot.schedules.instants import read_instant

Length = str | float | timedelta
Instant = datetime | str
_LONGEST_MEANING = 100  # characters in a message
S = TypeVar("S", bound=Schedule)


def cron(
    expression: str,
    *,
    tz: str = "UTC",
    gap: Literal["run_after", "skip"] = "run_after",
    fold: Literal["first", "second", "both"] = "first",
    run_once: bool = False,
    seconds: bool = False,
    start: Instant | None = None,
    end: Instant | None = None,
    max_count: int | None = None,
    jitter: Length | None = None,
    args: Mapping[str, Json] | None = None,
    id: str = "",
) -> Cron:
    """Make a schedule of wall-clock times: 5 fields, 6 with seconds in front, or `@daily` and the like.

    With `seconds=True`, the first field is the second: 6 fields, or 4 for `second minute hour day`. `H` in a field is a
    value that depends on the job's name: with `H H(0-5) * * *`, each job runs once a night, at its own time. No slot is
    before `start` or after `end`. Without an offset, these are local times in `tz`. `max_count` limits the number of
    slots in all. `jitter` delays each run by up to this much. `args` are added to the arguments of the job.

    >>> cron("30 2 * * *", tz="Europe/Berlin").tz
    'Europe/Berlin'
    """
    plain = tidy(expression)
    _check_count(plain, seconds)
    return _checked(
        Cron(
            expression=plain,
            tz=tz,
            gap=gap,
            fold=fold,
            run_once=run_once,
            start=_instant(start, "start", tz),
            end=_instant(end, "end", tz),
            max_count=max_count,
            jitter=_jitter(jitter),
            args=_args(args),
            id=id,
        )
    )


def _check_count(expression: str, seconds: object) -> None:
    """Refuse four fields unless `seconds` is set. Usually the user has forgotten a field."""
    if not isinstance(seconds, bool):
        raise ScheduleError(f"seconds: expected true or false, got {shown(seconds)}")
    if seconds and (expression.startswith("@") or len(expression.split()) == 5):
        raise ScheduleError(
            "seconds: expected 6 fields (second minute hour day month weekday) or 4 (second minute hour day), "
            f"got {shown(expression)}; leave seconds out"
        )
    if not seconds and is_four_fields(expression):
        with_field = next(filter(_reading, (f"{expression} *", f"* {expression}")), None)
        added = "add the missing field" if with_field is None else f"write {shown(with_field)}{_meaning(with_field)}"
        raise ScheduleError(
            f"cron: expected 5 fields (minute hour day month weekday), got 4 in {shown(expression)}; {added}, "
            f"or give seconds=True ('seconds: true' in a file, --seconds on the command line) for "
            f"'second minute hour day'{_meaning(expression)}"
        )


def _meaning(expression: str) -> str:
    told = _reading(expression)
    return f" ({told})" if told and len(told) <= _LONGEST_MEANING else ""


def _reading(expression: str) -> str:
    """Return the expression in words, or empty text if it cannot be read."""
    try:
        return cron_words(wall_times(expression))
    except ScheduleError:
        return ""


def every(
    interval: Length,
    *,
    anchor: Instant | None = None,
    run_once: bool = False,
    start: Instant | None = None,
    end: Instant | None = None,
    max_count: int | None = None,
    jitter: Length | None = None,
    args: Mapping[str, Json] | None = None,
    id: str = "",
) -> Every:
    """Make a schedule of fixed steps of real time, at least 10 ms. They count from `anchor` in both directions.

    The default `anchor` is 1970-01-01 UTC. The other options are those of `cron`.

    >>> every("1h30m").interval
    datetime.timedelta(seconds=5400)
    """
    return _checked(
        Every(
            interval=_length(interval, "interval"),
            anchor=_instant(anchor, "anchor"),
            run_once=run_once,
            start=_instant(start, "start"),
            end=_instant(end, "end"),
            max_count=max_count,
            jitter=_jitter(jitter),
            args=_args(args),
            id=id,
        )
    )


def gap(
    delay: Length, *, start: Instant | None = None, args: Mapping[str, Json] | None = None, id: str = ""
) -> FixedDelay:
    """Make a schedule with a pause of at least 10 ms between the end of one run and the start of the next.

    The first run is at `start`, or at once.

    >>> gap("10m").delay
    datetime.timedelta(seconds=600)
    """
    return _checked(FixedDelay(delay=_length(delay, "delay"), start=_instant(start, "start"), args=_args(args), id=id))


def at(
    *instants: Instant,
    tz: str | None = None,
    jitter: Length | None = None,
    args: Mapping[str, Json] | None = None,
    id: str = "",
) -> At:
    """Make a schedule of one instant or several: aware datetimes, or ISO text with an offset. Without an offset, `tz`
    applies.

    A local time that a clock change leaves out is refused. Of a local time that occurs twice, the first is used. A
    naive datetime with `fold=1` means the second. If the same instant is given twice, it counts once.

    >>> at("2026-07-01T12:00", tz="Europe/Berlin").instant.isoformat()
    '2026-07-01T10:00:00+00:00'
    >>> [f"{one:%d %B}" for one in at("2026-12-24T18:00Z", "2026-04-05T10:00Z").instants]
    ['05 April', '24 December']
    """
    if not instants:
        raise ScheduleError("at: expected at least one point in time, got none")
    first, *more = sorted({read_instant(instant, tz=tz, what="at") for instant in instants})
    return _checked(At(instant=first, more=tuple(more), jitter=_jitter(jitter), args=_args(args), id=id))


def in_(delay: Length, *, jitter: Length | None = None, args: Mapping[str, Json] | None = None, id: str = "") -> In:
    """Make a schedule of one instant, `delay` after the schedule is created.

    >>> in_(90).delay
    datetime.timedelta(seconds=90)
    """
    return _checked(In(delay=_length(delay, "delay"), jitter=_jitter(jitter), args=_args(args), id=id))


def _checked(schedule: S) -> S:
    check(schedule)
    return schedule


def _length(value: Length, what: str) -> timedelta:
    try:
        return parse_duration(value, what=what)
    except DefinitionError as error:
        raise ScheduleError(error.problems) from None


def _jitter(value: Length | None) -> timedelta:
    return timedelta(0) if value is None else _length(value, "jitter")


def _args(value: Mapping[str, Json] | None) -> Mapping[str, Json]:
    """Return a copy. Later changes by the caller do not change the schedule."""
    given: Any = value  # whatever the annotation says, people pass other things; `check` says so
    return dict(given) if isinstance(given, Mapping) else {} if given is None else given


def _instant(value: Instant | None, what: str, tz: str | None = None) -> datetime | None:
    return None if value is None else read_instant(value, tz=tz, what=what)
