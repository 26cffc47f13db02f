"""A schedule in words, so that whoever wrote it can see what was understood."""

from __future__ import annotations

import json

from onthedot.model.duration import format_duration
from onthedot.model.job import At, Cron, Every, FixedDelay, In, Schedule
from onthedot.schedules.cron import wall_times
from onthedot.schedules.cron_words import cron_words
from onthedot.schedules.instants import format_instant

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
