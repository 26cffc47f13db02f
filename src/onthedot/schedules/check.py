"""Checks a schedule before it is stored. Evaluation relies on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import get_args, get_type_hints

from onthedot.clock import to_micros
from onthedot.model.duration import LONGEST, format_duration
from onthedot.model.errors import DefinitionError, ScheduleError, did_you_mean, shown
from onthedot.model.job import At, Cron, Every, FixedDelay, In, Schedule, canonical
from onthedot.schedules.cron_parser import tidy
from onthedot.schedules.cron_slots import never, wall_times
from onthedot.schedules.evaluation import MOST, SHORTEST, next_after
from onthedot.schedules.instants import read_instant
from onthedot.schedules.zones import zone

MOST_INSTANTS = 1_000
LONGEST_JITTER = timedelta(days=1)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_GAPS: tuple[str, ...] = get_args(get_type_hints(Cron)["gap"])
_FOLDS: tuple[str, ...] = get_args(get_type_hints(Cron)["fold"])


def check(schedule: Schedule) -> None:
    """Check that the schedule is readable and yields at least one slot; otherwise raise `ScheduleError` with every
    reason.

    >>> check(Cron(expression="0 0 31 2 *"))
    Traceback (most recent call last):
    onthedot.model.errors.ScheduleError: cron: expected a date that exists, got '0 0 31 2 *', which never comes; \
check day, month and weekday
    """
    if not isinstance(schedule, Cron | Every | FixedDelay | At | In):
        raise ScheduleError(
            f"expected a schedule (Cron, Every, FixedDelay, At or In), got {type(schedule).__name__} "
            f"{shown(schedule)}; make one with cron(), every(), gap(), at(), in_() or parse()"
        )
    problems = [*_problems(schedule), *_option_problems(schedule), *_id_problems(schedule.id)]
    if not problems and isinstance(schedule, Cron | Every):
        problems = [*_empty_problems(schedule)]
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
            yield from _at_problems(schedule)
        case In():
            yield from _length_problems("delay", schedule.delay, timedelta(microseconds=1))
    if isinstance(schedule, Cron | Every):
        yield from _flag_problems("run_once", schedule.run_once)


def _option_problems(schedule: Schedule) -> Iterator[str]:
    """Yield problems of the options that several kinds share."""
    if isinstance(schedule, Cron | Every):
        yield from _instant_problems("start", schedule.start)
        yield from _instant_problems("end", schedule.end)
        yield from _count_problems(schedule.max_count, schedule.run_once)
    if not isinstance(schedule, FixedDelay) and schedule.jitter != timedelta(0):
        yield from _length_problems("jitter", schedule.jitter, timedelta(microseconds=1), LONGEST_JITTER)
    args: object = schedule.args  # whatever the annotation says, people pass other things
    if not isinstance(args, Mapping):
        yield f"args: expected a mapping of names to values, got {type(args).__name__} {shown(args)}"
        return
    try:
        canonical(args)
    except (TypeError, ValueError, RecursionError) as error:
        yield f"args: expected JSON (numbers, text, true, false, null, lists, mappings), but {error}"


def _count_problems(count: object, run_once: bool) -> Iterator[str]:
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        yield f"max_count: expected a whole number from 1 to {MOST}, got {shown(count)}"
    if run_once:
        yield "run_once: it means max_count=1; give one of them"


def _empty_problems(schedule: Cron | Every) -> Iterator[str]:
    """Yield problems of bounds that leave no slot, as far as they are known before the schedule is created."""
    if schedule.start is None or schedule.end is None:
        return
    if schedule.end < schedule.start:
        yield f"end: expected an instant after start, {schedule.start.isoformat()}, got {schedule.end.isoformat()}"
    elif next_after(schedule, to_micros(schedule.start) - 1, origin=0) is None:
        yield f"end: expected a slot from {schedule.start.isoformat()} to {schedule.end.isoformat()}, got none"


def _at_problems(schedule: At) -> Iterator[str]:
    yield from _instant_problems("instant", schedule.instant, required=True)
    more: object = schedule.more
    if not isinstance(more, tuple) or len(more) >= MOST_INSTANTS:
        got = len(more) if isinstance(more, tuple) else type(more).__name__
        yield f"more: expected a tuple of fewer than {MOST_INSTANTS} instants, got {got}"
        return
    problems = [problem for one in more for problem in _instant_problems("more", one, required=True)]
    yield from [*problems]
    problems += _instant_problems("instant", schedule.instant, required=True)
    if not problems and any(later <= one for one, later in pairwise(schedule.instants)):
        yield "more: expected instants in ascending order, each once; at() sorts them"


def _cron_problems(schedule: Cron) -> Iterator[str]:
    try:
        if next(wall_times(tidy(schedule.expression), schedule.spread).since(0), None) is None:
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
        yield f"{what}: expected {' or '.join(map(repr, known))}, got {shown(word)}{near}"


def _flag_problems(what: str, flag: object) -> Iterator[str]:
    if not isinstance(flag, bool):
        yield f"{what}: expected true or false, got {shown(flag)}"


def _length_problems(what: str, length: object, shortest: timedelta, longest: timedelta = LONGEST) -> Iterator[str]:
    if not isinstance(length, timedelta):
        yield f"{what}: expected a timedelta, got {type(length).__name__} {shown(length)}; every() also reads '1h30m'"
    elif length <= timedelta(0):
        yield f"{what}: expected a length of time above zero, got {shown(length)}"
    elif length < shortest:
        yield f"{what}: expected at least {format_duration(shortest)}, got {format_duration(length)}"
    elif length > longest:
        yield f"{what}: expected at most {longest.days} days, got {length.days} days"


def _instant_problems(what: str, instant: object, *, required: bool = False) -> Iterator[str]:
    if instant is None and not required:
        return
    if not isinstance(instant, datetime):
        yield f"{what}: expected a datetime with a time zone, got {type(instant).__name__} {shown(instant)}"
        return
    try:
        read_instant(instant, what=what)
    except DefinitionError as error:
        yield from error.problems


def _id_problems(given: object) -> Iterator[str]:
    if given != "" and not (isinstance(given, str) and _ID.fullmatch(given)):
        yield f"id: expected a letter or digit, then up to 63 letters, digits, '_', '-' or '.', got {shown(given)}"
