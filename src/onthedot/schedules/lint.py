"""Warns of schedules that can be read, but may not mean what their author meant. Pure: `now` is an argument.

A warning is data: a `kind` for programs, a text for people, and what to write instead. Nothing is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice, takewhile
from typing import Literal, NamedTuple

from onthedot.clock import SECOND, Micros, to_datetime, to_micros
from onthedot.model.duration import format_duration, micros
from onthedot.model.job import At, Cron, Every, FixedDelay, Schedule
from onthedot.schedules.cron_parser import ALIASES, cron_fields
from onthedot.schedules.cron_slots import WallTimes, wall_times
from onthedot.schedules.evaluation import next_after, slots
from onthedot.schedules.zones import Stretch, stretch_at

Kind = Literal[
    "both_days", "clocks_repeat", "clocks_skip", "four_fields", "jitter", "months", "never", "once", "past", "rare",
    "seconds", "uneven", "wrapped",
]  # fmt: skip

_DAY: Micros = 86_400 * SECOND
_YEAR: Micros = 366 * _DAY
_UNITS = (("second", 60, "minute"), ("minute", 60, "hour"), ("hour", 24, "day"))


class ScheduleWarning(NamedTuple):
    """A warning about a schedule, and what to do about it."""

    kind: Kind
    text: str
    advice: str


def lint(schedule: Schedule, now: Micros) -> list[ScheduleWarning]:
    """Return all warnings about a schedule that was checked already.

    >>> [found.kind for found in lint(Cron(expression="*/7 * * * *"), now=0)]
    ['uneven']
    """
    found = [*_over(schedule, now), *_jitter(schedule, now)]
    if isinstance(schedule, Cron):
        found += _cron(schedule, now)
    elif isinstance(schedule, Every):
        found += _every(schedule)
    return found


# ── every kind ───────────────────────────────────────────────────────────────────────────────────────────────


def _over(schedule: Schedule, now: Micros) -> Iterator[ScheduleWarning]:
    if isinstance(schedule, At):
        past = [instant for instant in schedule.instants if to_micros(instant) <= now]
        if past:
            some = "it lies" if len(schedule.instants) == 1 else f"{len(past)} of {len(schedule.instants)} instants lie"
            yield ScheduleWarning(
                "past", f"{some} in the past", "a past instant runs at once if catch_up allows it, or never"
            )
        return
    if not isinstance(schedule, FixedDelay) and next_after(schedule, now, origin=now) is None:
        yield ScheduleWarning("never", "it never comes any more", "look at its end, and at day and month")
    elif isinstance(schedule, Cron | Every) and schedule.run_once:
        yield ScheduleWarning(
            "once", "it runs once, at its first match, and never again", "leave run_once out if it is to come again"
        )


def _jitter(schedule: Schedule, now: Micros) -> Iterator[ScheduleWarning]:
    if isinstance(schedule, FixedDelay) or not schedule.jitter:
        return
    first, *more = [*islice(slots(schedule, now, origin=now), 2)] or [now]
    if more and micros(schedule.jitter) >= more[0] - first:
        distance = format_duration(more[0] - first)
        yield ScheduleWarning(
            "jitter",
            f"jitter ({format_duration(schedule.jitter)}) is not less than the distance of slots ({distance}), so that "
            "starts may come in another order",
            f"choose less than {distance}",
        )


def _every(schedule: Every) -> Iterator[ScheduleWarning]:
    day = timedelta(days=1)
    if schedule.anchor is None and schedule.interval >= day:
        yield ScheduleWarning(
            "uneven",
            f"every {format_duration(schedule.interval)} is counted from 1970-01-01 00:00 UTC, in real time: the local "
            "time of day moves when clocks change",
            "say where it begins ('every … from …'), or use cron for a time of day",
        )
    elif schedule.interval < day and day % schedule.interval and schedule.interval >= timedelta(minutes=1):
        yield ScheduleWarning(
            "uneven",
            f"every {format_duration(schedule.interval)} does not divide a day: it comes at other times each day",
            "that is a steady rhythm; for the same times each day use cron",
        )


# ── cron ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _cron(schedule: Cron, now: Micros) -> Iterator[ScheduleWarning]:
    fields = cron_fields(schedule.expression, schedule.spread)
    written = schedule.expression.split()
    if len(written) == 4:
        yield ScheduleWarning(
            "four_fields",
            f"four fields are read as 'second minute hour day': {_read(fields)}",
            "write five fields (minute hour day month weekday) if you mean cron as it is usual",
        )
    elif len(written) == 6 and fields["second"].startswith("*"):
        yield ScheduleWarning(
            "seconds", "of six fields the first is the second: it comes more than once a minute",
            "leave the first field out if you mean minutes",
        )  # fmt: skip
    yield from _days(fields)
    yield from _steps(fields)
    yield from _wrapped(fields)
    yield from _rare(schedule, now)
    if schedule.expression.lower() not in ALIASES or schedule.tz != "UTC":
        yield from _clocks(schedule, now)


def _read(fields: dict[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in fields.items() if name in ("second", "minute", "hour", "day"))


def _days(fields: dict[str, str]) -> Iterator[ScheduleWarning]:
    day, weekday = fields["day"], fields["weekday"]
    if day == "*" or weekday == "*":
        return
    if day.startswith("*") or weekday.startswith("*"):
        yield ScheduleWarning(
            "both_days",
            f"day {day} and weekday {weekday} are both said, and one begins with '*': both must match",
            "write '*' in one of them",
        )
        return
    yield ScheduleWarning(
        "both_days",
        f"day {day} and weekday {weekday} are both said: either one suffices, not both together",
        "write '*' in one of them; for 'the second Friday' write 'FRI#2' as the weekday",
    )


def _steps(fields: dict[str, str]) -> Iterator[ScheduleWarning]:
    """Warns of steps that do not divide their unit: they start again at its beginning."""
    for name, size, outer in _UNITS:
        base, slash, step = fields[name].partition("/")
        if not slash or base != "*" or not step.isdigit() or not size % int(step):
            continue
        last = (size - 1) // int(step) * int(step)
        yield ScheduleWarning(
            "uneven",
            f"every {int(step)} {name}s does not divide {_article(outer)}: after {name} {last} comes {name} 0, "
            f"{size - last} {name}{'s' if size - last > 1 else ''} later",
            f"use 'every {int(step)}{name[0]}' for a steady rhythm",
        )
    base, slash, step = fields["day"].partition("/")
    if slash and base == "*" and step.isdigit() and int(step) > 1:
        yield ScheduleWarning(
            "uneven", f"every {int(step)} days begins anew on the first of each month",
            f"use 'every {int(step)}d from …' for a steady rhythm",
        )  # fmt: skip


def _wrapped(fields: dict[str, str]) -> Iterator[ScheduleWarning]:
    """Warn of ranges that wrap around and cover nearly all values, such as `10-5`. `22-4` is a night, and is fine."""
    for name, size, _ in _UNITS:
        for term in fields[name].split(","):
            first, _, last = term.partition("/")[0].partition("-")
            if not (first.isdigit() and last.isdigit()) or int(first) <= int(last):
                continue
            values = size - int(first) + int(last) + 1
            if values * 4 > size * 3:
                yield ScheduleWarning(
                    "wrapped",
                    f"{name} {term}: from {first} past {size - 1} to {last}, {values} of {size} {name}s",
                    f"write '{last}-{first}' if you mean those between, or '*'",
                )


def _article(word: str) -> str:
    return f"an {word}" if word == "hour" else f"a {word}"


def _rare(schedule: Cron, now: Micros) -> Iterator[ScheduleWarning]:
    """Warn of years between two slots, or of months that are left out."""
    plain = Cron(expression=schedule.expression, tz=schedule.tz, spread=schedule.spread)
    coming = list(islice(slots(plain, now, origin=now), 2))
    if len(coming) == 2 and coming[0] - now > _YEAR and coming[1] - coming[0] > _YEAR:
        years = round((coming[1] - coming[0]) / (365.25 * _DAY))
        yield ScheduleWarning(
            "rare", f"it comes once in {years} years; next on {to_datetime(coming[0]):%Y-%m-%d}",
            "check day, month and weekday",
        )  # fmt: skip
        return
    fields = cron_fields(schedule.expression, schedule.spread)
    written = [part.removesuffix("W") for part in fields["day"].split(",")]
    days = {int(part) for part in written if part.isdigit()}
    if days and len(days) == len(written) and min(days) > 28 and fields["month"].startswith("*"):
        yield ScheduleWarning(
            "months", f"not every month has a day {min(days)}: those that have none are left out",
            "write 'L' as the day for the last of each month",
        )  # fmt: skip


def _clocks(schedule: Cron, now: Micros) -> Iterator[ScheduleWarning]:
    """Warn of next year's clock changes that remove starts, or in which a fixed time comes twice."""
    times = wall_times(schedule.expression, schedule.spread)
    told: set[str] = set()
    stretches = list(_stretches(schedule.tz, now))
    moved = next((text for one in stretches if (text := _moved(schedule, times, one))), "")
    for stretch in stretches:
        first = stretch.start + stretch.offset
        if stretch.skipped_from < first and "clocks_skip" not in told:
            for odd in _skipped(schedule, times, stretch):
                told.add("clocks_skip")
                yield odd
        if (
            times.fixed
            and stretch.repeated_until > first
            and "clocks_repeat" not in told
            and times.within(first, stretch.repeated_until)
        ):
            told.add("clocks_repeat")
            yield ScheduleWarning(
                "clocks_repeat",
                f"on {to_datetime(first):%Y-%m-%d} the clocks in {schedule.tz} show {to_datetime(first):%H:%M} to "
                f"{to_datetime(stretch.repeated_until):%H:%M} twice: it runs "
                f"{'both times' if schedule.fold == 'both' else f'the {schedule.fold} time'}{moved}",
                "choose a time that every day has once, or say what you want with fold (first, second or both) and gap "
                "(run_after or skip)",
            )


def _moved(schedule: Cron, times: WallTimes, stretch: Stretch) -> str:
    """Return a text if the one start in the gap before this stretch runs right after the gap; otherwise ""."""
    begin, end = to_datetime(stretch.skipped_from), to_datetime(stretch.start + stretch.offset)
    if begin >= end or not times.fixed or schedule.gap != "run_after" or any(_skipped(schedule, times, stretch)):
        return ""
    if not times.count(stretch.skipped_from, stretch.start + stretch.offset):
        return ""
    return f"; on {begin:%Y-%m-%d} they skip from {begin:%H:%M} to {end:%H:%M}: it runs right after, at {end:%H:%M}"


def _skipped(schedule: Cron, times: WallTimes, stretch: Stretch) -> Iterator[ScheduleWarning]:
    """Return the starts that a gap before this stretch removes; nothing if they run after it."""
    first = stretch.start + stretch.offset
    in_gap = times.count(stretch.skipped_from, first)
    moves = times.fixed and schedule.gap == "run_after"
    lost = in_gap - (moves and not times.within(first, first + 1))
    if lost <= 0 or (not times.fixed and _keeps_rhythm(times, stretch)):
        return
    if moves:
        what = f"{lost + 1} starts become one, right after"
        advice = "choose times that every day has, or an interval ('every …')"
    else:
        what = _left_out(times, stretch, lost)
        other = "say gap: run_after" if times.fixed else "write minutes and hours without '*': then it runs right after"
        advice = f"choose times that every day has, or {other}"
    begin, end = to_datetime(stretch.skipped_from), to_datetime(first)
    yield ScheduleWarning(
        "clocks_skip",
        f"on {begin:%Y-%m-%d} the clocks in {schedule.tz} skip from {begin:%H:%M} to {end:%H:%M}: {what}",
        advice,
    )


def _left_out(times: WallTimes, stretch: Stretch, lost: int) -> str:
    midnight = stretch.skipped_from - stretch.skipped_from % _DAY
    of_day = times.count(midnight, max(midnight + _DAY, stretch.start + stretch.offset))
    if of_day == 1:
        return "its start on that day is left out"
    return f"{'all' if lost == of_day else f'{lost} of'} {of_day} starts on that day are left out"


def _keeps_rhythm(times: WallTimes, stretch: Stretch) -> bool:
    """Return whether a rhythm through the whole day continues in real time as if there had been no gap: `*/5
    * * * *`.
    """
    if len(times.hours) < 24:
        return False
    first = stretch.start + stretch.offset
    before = [*takewhile(stretch.skipped_from.__gt__, times.since(stretch.skipped_from - _DAY))]
    wanted, coming = next(times.since(stretch.skipped_from)), next(times.since(first))
    return not before or coming - first + stretch.skipped_from - before[-1] <= wanted - before[-1]


def _stretches(tz: str, now: Micros) -> Iterator[Stretch]:
    """Return the stretches that begin within the next year."""
    stretch = stretch_at(tz, now)
    while stretch.end <= now + _YEAR:
        stretch = stretch_at(tz, stretch.end)
        yield stretch
