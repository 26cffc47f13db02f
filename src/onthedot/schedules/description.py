"""Describes schedules in English, so that authors can see how a schedule was read.

    at 02:30 every day, Europe/Berlin
    every 5 minutes
    at 00:00 on the 13th of every month or on Fridays

A sentence is made from what the fields mean, not from their text: `0,7` is one Sunday, `0,30` is every 30 minutes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from onthedot.model.duration import format_duration
from onthedot.model.job import At, Cron, Every, FixedDelay, In, Schedule
from onthedot.schedules.calendar import DayOfMonth, DayOfWeek, Days
from onthedot.schedules.cron_slots import WallTimes, wall_times
from onthedot.schedules.instants import format_instant

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_DAYS, _WEEK, _YEAR = frozenset(range(1, 32)), frozenset(range(7)), frozenset(range(1, 13))
_NTH = ("last", "first", "second", "third", "fourth", "fifth")
_NO_END = 1_000  # larger than any value: what has no neighbour behind its end
_MOST_TIMES = 6  # clock times in one list
_GAP = {"run_after": "", "skip": "left out when the clocks skip it"}
_FOLD = {
    "first": "",
    "second": "the second time when the clocks show it twice",
    "both": "both times when the clocks show it twice",
}


def describe(schedule: Schedule) -> str:
    """The reading in words, always with its zone.

    >>> describe(Cron(expression="30 2 * * *", tz="Europe/Berlin"))
    'at 02:30 every day, Europe/Berlin'
    """
    return ", ".join([_rule(schedule), *_options(schedule)])


def _rule(schedule: Schedule) -> str:
    match schedule:
        case Cron():
            return _once(schedule.run_once) + ", ".join(filter(None, _cron_parts(schedule)))
        case Every():
            start = "1970-01-01T00:00Z" if schedule.anchor is None else format_instant(schedule.anchor)
            return f"{_once(schedule.run_once)}every {format_duration(schedule.interval)}, counted from {_utc(start)}"
        case FixedDelay():
            start = "at once" if schedule.start is None else f"at {_utc(format_instant(schedule.start))}"
            return f"{format_duration(schedule.delay)} after the end of the last run, the first {start}"
        case At():
            told = ", ".join(_utc(format_instant(instant)) for instant in schedule.instants)
            return f"{'at' if schedule.more else 'once, at'} {told}"
        case In():
            return f"once, {format_duration(schedule.delay)} after it was created"


def _options(schedule: Schedule) -> list[str]:
    """What the rule's own words leave out."""
    told = []
    if isinstance(schedule, Cron | Every):
        if schedule.start is not None:
            told.append(f"from {_utc(format_instant(schedule.start))} on")
        if schedule.end is not None:
            told.append(f"until {_utc(format_instant(schedule.end))}")
        if schedule.max_count is not None:
            told.append(f"{schedule.max_count} time{'s' if schedule.max_count > 1 else ''} in all")
    if not isinstance(schedule, FixedDelay) and schedule.jitter:
        told.append(f"up to {format_duration(schedule.jitter)} later")
    if schedule.args:
        told.append(f"with {', '.join(f'{name}={json.dumps(value)}' for name, value in schedule.args.items())}")
    return told


def _cron_parts(schedule: Cron) -> list[str]:
    times = wall_times(schedule.expression, schedule.spread)
    text = cron_words(times)
    if not times.fixed:  # the options change nothing for what runs whenever the clocks show it
        return [text, schedule.tz]
    return [text, schedule.tz, _GAP[schedule.gap], _FOLD[schedule.fold]]


def _once(run_once: bool) -> str:
    return "once, at the first match of: " if run_once else ""


def _utc(iso: str) -> str:
    return iso.replace("T", " ").replace("Z", " UTC")


# ── cron expressions ─────────────────────────────────────────────────────────────────────────────────────────


def cron_words(times: WallTimes) -> str:
    """The sentence, without zone and options.

    >>> cron_words(WallTimes("*/20 9-17 * NOV-FEB MON-FRI"))
    'every 20 minutes from 09:00 through 17:40, Monday through Friday, from November through February'
    """
    when, whole_day = _time(times)
    days = _days(times.days, times.months)
    if not days:
        return when if whole_day else f"{when} every day"
    if days.startswith("every day"):
        days = days if not whole_day else days.removeprefix("every day ")
    return f"{when}{'' if days.startswith((',', ' ')) else ' '}{days}"


# ── the time of day ──────────────────────────────────────────────────────────────────────────────────────────


class _Run(NamedTuple):
    """Values at one distance, from `first` to `last`, perhaps through the end of the field. `even`: and around it."""

    first: int
    last: int
    step: int
    even: bool


def _run(values: Sequence[int], size: int) -> _Run | None:
    """The values (ascending) as one run of three or more, or of two that are evenly spaced; None if they are none."""
    if len(values) == size:
        return _Run(0, size - 1, 1, even=True)
    distances = [(after - before) % size for before, after in zip(values, (*values[1:], values[0]), strict=True)]
    if len(set(distances)) == 1 and len(values) > 1:
        return _Run(values[0], values[-1], distances[0], even=True)
    [step, *once] = sorted(set(distances), key=distances.count, reverse=True)
    if len(values) < 3 or len(once) != 1 or distances.count(once[0]) > 1:
        return None
    begin = (distances.index(once[0]) + 1) % len(values)
    return _Run(values[begin], values[begin - 1], step, even=False)


def _time(times: WallTimes) -> tuple[str, bool]:
    """When in the day; and whether that is the whole day, so that 'every day' says nothing more."""
    seconds, minutes, hours = times.seconds, times.minutes, times.hours
    if len(seconds) * len(minutes) * len(hours) <= _MOST_TIMES and not _is_rhythm(times):
        clock = [_clock(hour, minute, second) for hour in hours for minute in minutes for second in seconds]
        return f"at {_and(clock)}", False
    if seconds == (0,):
        return _minutes_and_hours(minutes, hours)
    beat = _beat(seconds, "second", 60)
    if len(minutes) == 60 and len(hours) == 24:
        whole = "" if _run(seconds, 60) == (0, seconds[-1], 60 // len(seconds), True) else " of every minute"
        return beat + whole, True
    if len(minutes) * len(hours) <= _MOST_TIMES:
        return f"{beat} of {_and(_clock(hour, minute, 0) for hour in hours for minute in minutes)}", False
    if len(minutes) == 60:
        return f"{beat}{' of every minute' if not beat.startswith('every') else ''} {_hours(hours, (0, 59))}", False
    of_hour = "of every hour" if len(hours) == 24 else _hours(hours, (minutes[0], minutes[-1]))
    return f"{beat} of {_each(minutes, 'minute', 60)} {of_hour}", len(hours) == 24


def _is_rhythm(times: WallTimes) -> bool:
    """Whether few starts are better told as a rhythm: `*/30 2 * * *`."""
    return any(len(one) > 1 and _is_steady(one, size) for one, size in ((times.seconds, 60), (times.minutes, 60))) or (
        len(times.hours) > 2 and _run(times.hours, 24) is not None
    )


def _is_steady(values: Sequence[int], size: int) -> bool:
    run = _run(values, size)
    return run is not None and run.even


def _minutes_and_hours(minutes: Sequence[int], hours: Sequence[int]) -> tuple[str, bool]:
    span = (minutes[0], minutes[-1])
    if len(hours) == 24:
        if minutes == (0,):
            return "at the start of every hour", True
        run = _run(minutes, 60)
        whole = run is not None and run.even and run.first == 0
        return _beat(minutes, "minute", 60) + ("" if whole else " of every hour"), True
    run = _run(hours, 24)
    if len(minutes) == 1 and run is not None:
        beat = "every hour" if run.step == 1 else f"every {run.step} hours"
        return f"{beat} {_hours_between(run, span)}", False
    if len(minutes) == 1:
        return f"at {_and(_clock(hour, minutes[0], 0) for hour in hours)}", False
    beat = _beat(minutes, "minute", 60)
    if beat.startswith("at ") or " from " in beat:
        beat += " of"
        if run is None:
            return f"{beat} {_each(hours, 'hour', 24)}", False
        return f"{beat} {_every(run.step, 'hour')} {_hours_between(run, span)}", False
    return f"{beat} {_hours(hours, span)}", False


def _hours(hours: Sequence[int], span: tuple[int, int]) -> str:
    """The hours of a beat that goes through them; `span` is its first and its last minute."""
    if len(hours) == 1:
        return f"from {_clock(hours[0], span[0], 0)} through {_clock(hours[0], span[1], 0)}"
    run = _run(hours, 24)
    if run is None:
        return f"during {_each(hours, 'hour', 24)}"
    between = _hours_between(run, span)
    return between if run.step == 1 else f"during {_every(run.step, 'hour')} {between}"


def _hours_between(run: _Run, span: tuple[int, int]) -> str:
    return f"from {_clock(run.first, span[0], 0)} through {_clock(run.last, span[1], 0)}"


def _beat(values: Sequence[int], unit: str, size: int) -> str:
    """`every 5 minutes`, `every minute from minute 10 through 20`, `at minutes 3 and 17`."""
    run = _run(values, size)
    if run is None or (run.even and run.first and len(values) <= 4):
        return f"at {_numbered(values, unit)}"
    beat = f"every {unit}" if run.step == 1 else f"every {run.step} {unit}s"
    return beat if run.even and not run.first else f"{beat} from {unit} {run.first} through {run.last}"


def _each(values: Sequence[int], unit: str, size: int) -> str:
    """`every other minute`, `minutes 3 and 17`."""
    run = _run(values, size)
    if run is None or not run.even or len(values) <= 4:
        return _numbered(values, unit)
    return _every(run.step, unit) + (f" from {unit} {run.first}" if run.first else "")


def _every(step: int, unit: str) -> str:
    return f"every {unit}" if step == 1 else f"every other {unit}" if step == 2 else f"every {_ordinal(step)} {unit}"


def _numbered(values: Sequence[int], unit: str) -> str:
    return f"{unit}{'s' if len(values) > 1 else ''} {_ranges(values)}"


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


# ── the days ─────────────────────────────────────────────────────────────────────────────────────────────────


def _days(days: Days, months: frozenset[int]) -> str:
    """On which days; nothing for every day of the year."""
    any_day = any(term.plain >= _DAYS for term in days.by_day)
    any_weekday = any(term.week is None and term.weekdays >= _WEEK for term in days.by_weekday)
    if (any_day and any_weekday) if days.both else (any_day or any_weekday):
        return "" if months == _YEAR else f"every day {_within(months)}"
    if any_weekday:
        return _by_day(days.by_day, months)
    if any_day:
        return _by_weekday(days.by_weekday, months)
    if days.both:
        return f"{_by_day(days.by_day, months)}, if it is {_is_weekday(days.by_weekday)}"
    return f"{_by_day(days.by_day, months)} or {_by_weekday(days.by_weekday, months).removeprefix(', ')}"


def _by_day(terms: Iterable[DayOfMonth], months: frozenset[int]) -> str:
    plain = sorted({day for term in terms if not _is_special(term) for day in term.plain})
    told = [_plain_days(plain)] if plain else []
    told += dict.fromkeys(_special_day(term) for term in terms if _is_special(term) and not _is_nearest(term))
    nearest = [*dict.fromkeys(_special_day(term) for term in terms if _is_nearest(term))]
    if nearest:
        told.append(f"the weekday{'s' if len(nearest) > 1 else ''} (Monday to Friday) nearest to {_and(nearest)}")
    return f"on {_and(told)} {_of(months)}"


def _is_nearest(term: DayOfMonth) -> bool:
    """`15W` or `L-3W`, not `LW`."""
    return term.nearest and term.before_last != 0


def _is_special(term: DayOfMonth) -> bool:
    return term.nearest or term.before_last is not None


def _plain_days(days: Sequence[int]) -> str:
    steps = {after - before for before, after in pairwise(days)}
    if len(days) > 4 and len(steps) == 1 and steps != {1}:
        [step] = steps
        return f"{_every(step, 'day')} from the {_ordinal(days[0])} through the {_ordinal(days[-1])}"
    return f"the {_and(_joined([_ordinal(day) for day in days], days, _NO_END))}"


def _special_day(term: DayOfMonth) -> str:
    if term.before_last is None:
        return f"the {_ordinal(min(term.plain))}"
    if term.before_last == 0:
        return "the last weekday (Monday to Friday)" if term.nearest else "the last day"
    return f"the {'' if term.before_last == 1 else f'{_ordinal(term.before_last)} '}day before the last day"


def _by_weekday(terms: Iterable[DayOfWeek], months: frozenset[int]) -> str:
    plain = _monday_first(day for term in terms if term.week is None for day in term.weekdays)
    told = []
    if plain:
        order = [(day - 1) % 7 for day in plain]
        single = _joined(_names(plain), order, 7)
        if len(single) == 1 and len(plain) > 2:
            told.append(f", {single[0]}" + ("" if months == _YEAR else f", {_within(months)}"))
        else:
            several = _joined([f"{name}s" for name in _names(plain)], order, 7)
            told.append(f"on {_and(several)}" + ("" if months == _YEAR else f" {_within(months)}"))
    weeks = _weeks(terms)
    if weeks:
        nth = [f"the {_and(_NTH[week] for week in which)} {_and(_names(days))}" for days, which in weeks.items()]
        told.append(f"on {_and(nth)} {_of(months)}")
    return " and ".join(told)


def _weeks(terms: Iterable[DayOfWeek]) -> dict[tuple[int, ...], list[int]]:
    """The weeks of the month that are named, by their weekdays."""
    found: dict[tuple[int, ...], list[int]] = {}
    for week in (1, 2, 3, 4, 5, 0):
        days = tuple(_monday_first(day for term in terms if term.week == week for day in term.weekdays))
        if days:
            found.setdefault(days, []).append(week)
    return found


def _is_weekday(terms: Iterable[DayOfWeek]) -> str:
    plain = _monday_first(day for term in terms if term.week is None for day in term.weekdays)
    told = [f"a {_or(_names(plain))}"] if plain else []
    for days, which in _weeks(terms).items():
        told.append(f"the {_or(_NTH[week] for week in which)} {_or(_names(days))} of the month")
    return _or(told)


def _monday_first(weekdays: Iterable[int]) -> list[int]:
    return sorted(set(weekdays), key=lambda day: (day - 1) % 7)


def _names(weekdays: Iterable[int]) -> list[str]:
    return [_WEEKDAYS[day] for day in weekdays]


def _of(months: frozenset[int]) -> str:
    if months == _YEAR:
        return "of every month"
    names = _month_names(months)
    return f"of every month from {names[0]}" if len(names) == 1 and " through " in names[0] else f"of {_and(names)}"


def _within(months: frozenset[int]) -> str:
    names = _month_names(months)
    return f"from {names[0]}" if len(names) == 1 and " through " in names[0] else f"in {_and(names)}"


def _month_names(months: frozenset[int]) -> list[str]:
    ordered = sorted(months)
    return _joined([_MONTHS[month - 1] for month in ordered], [month - 1 for month in ordered], 12)


# ── lists ────────────────────────────────────────────────────────────────────────────────────────────────────


def _joined(names: Sequence[str], values: Sequence[int], size: int) -> list[str]:
    """The names, with three or more neighbours as `a through b`. Weeks and years (`size`) have no end: Saturday is
    followed by Sunday."""
    groups: list[list[int]] = []
    for index, value in enumerate(values):
        if groups and values[groups[-1][-1]] == value - 1:
            groups[-1].append(index)
        else:
            groups.append([index])
    if len(groups) > 1 and values[-1] + 1 - size == values[0]:
        groups[-1] += groups.pop(0)
    told: list[str] = []
    for group in groups:
        first, last = names[group[0]], names[group[-1]]
        told += [f"{first} through {last}"] if len(group) > 2 else [names[index] for index in group]
    return told


def _ranges(values: Sequence[int]) -> str:
    return _and(_joined([str(value) for value in values], values, _NO_END))


def _and(words: Iterable[str]) -> str:
    return _list(words, "and")


def _or(words: Iterable[str]) -> str:
    return _list(words, "or")


def _list(words: Iterable[str], link: str) -> str:
    *most, last = words
    return f"{', '.join(most)} {link} {last}" if most else last


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number // 10 != 1 else "th"
    return f"{number}{ending}"
