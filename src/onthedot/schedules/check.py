"""What a schedule must be before it is stored. Evaluation relies on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import get_args, get_type_hints

from onthedot.duration import LONGEST, format_duration
from onthedot.errors import DefinitionError, ScheduleError, did_you_mean
from onthedot.job import At, Cron, Every, FixedDelay, In, Schedule
from onthedot.schedules.cron import never, wall_times
from onthedot.schedules.fields import tidy
from onthedot.schedules.instants import read_instant
from onthedot.schedules.interval import SHORTEST
from onthedot.schedules.zones import zone

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_GAPS: tuple[str, ...] = get_args(get_type_hints(Cron)["gap"])
_FOLDS: tuple[str, ...] = get_args(get_type_hints(Cron)["fold"])


def check(schedule: Schedule) -> None:
    """Return when the schedule is readable and yields at least one slot; else `ScheduleError` with every reason.

    >>> check(Cron(expression="0 0 31 2 *"))
    Traceback (most recent call last):
    onthedot.errors.ScheduleError: cron: expected a date that exists, got '0 0 31 2 *', which never comes; \
check day, month and weekday
    """
    if not isinstance(schedule, Cron | Every | FixedDelay | At | In):
        raise ScheduleError(
            f"expected a schedule (Cron, Every, FixedDelay, At or In), got {type(schedule).__name__} {schedule!r}; "
            "make one with cron(), every(), gap(), at(), in_() or parse()"
        )
    problems = [*_problems(schedule), *_id_problems(schedule.id)]
    if problems:
        raise ScheduleError(problems)


def _problems(schedule: Schedule) -> Iterator[str]:
    match schedule:
        case Cron():
            yield from _cron_problems(schedule)
        case Every():
            yield from _length_problems("interval", schedule.interval, SHORTEST)
            yield from _instant_problems("anchor", schedule.anchor)
        case FixedDelay():
            yield from _length_problems("delay", schedule.delay, SHORTEST)
            yield from _instant_problems("start", schedule.start)
        case At():
            yield from _instant_problems("instant", schedule.instant, required=True)
        case In():
            yield from _length_problems("delay", schedule.delay, timedelta(microseconds=1))
    if isinstance(schedule, Cron | Every):
        yield from _flag_problems("run_once", schedule.run_once)


def _cron_problems(schedule: Cron) -> Iterator[str]:
    try:
        if next(wall_times(tidy(schedule.expression)).since(0), None) is None:
            yield never(schedule.expression)
    except DefinitionError as error:
        yield from error.problems
    try:
        zone(schedule.tz)
    except DefinitionError as error:
        yield from error.problems
    yield from _word_problems("gap", schedule.gap, _GAPS)
    yield from _word_problems("fold", schedule.fold, _FOLDS)


def _word_problems(what: str, word: object, known: tuple[str, ...]) -> Iterator[str]:
    if word not in known:
        near = did_you_mean(word, known) if isinstance(word, str) else ""
        yield f"{what}: expected {' or '.join(map(repr, known))}, got {word!r}{near}"


def _flag_problems(what: str, flag: object) -> Iterator[str]:
    if not isinstance(flag, bool):
        yield f"{what}: expected true or false, got {flag!r}"


def _length_problems(what: str, length: object, shortest: timedelta) -> Iterator[str]:
    if not isinstance(length, timedelta):
        yield f"{what}: expected a timedelta, got {type(length).__name__} {length!r}; every() also reads '1h30m'"
    elif length <= timedelta(0):
        yield f"{what}: expected a length of time above zero, got {length!r}"
    elif length < shortest:
        yield f"{what}: expected at least {format_duration(shortest)}, got {format_duration(length)}"
    elif length > LONGEST:
        yield f"{what}: expected at most {LONGEST.days} days, got {length.days} days"


def _instant_problems(what: str, instant: object, *, required: bool = False) -> Iterator[str]:
    if instant is None and not required:
        return
    if not isinstance(instant, datetime):
        yield f"{what}: expected a datetime with a time zone, got {type(instant).__name__} {instant!r}"
        return
    try:
        read_instant(instant, what=what)
    except DefinitionError as error:
        yield from error.problems


def _id_problems(given: object) -> Iterator[str]:
    if given != "" and not (isinstance(given, str) and _ID.fullmatch(given)):
        yield f"id: expected a letter or digit, then up to 63 letters, digits, '_', '-' or '.', got {given!r}"
