"""Reads and writes schedules as one line of text: in a file, on the command line or in a form."""

from __future__ import annotations

import re
from typing import Any, Literal

from onthedot.model.duration import format_duration, parse_duration
from onthedot.model.errors import DefinitionError, ScheduleError, did_you_mean, shown
from onthedot.model.job import At, Cron, Every, FixedDelay, In, Schedule
from onthedot.schedules.check import MOST_INSTANTS
from onthedot.schedules.constructors import at, cron, every, gap, in_
from onthedot.schedules.cron_parser import LONGEST_EXPRESSION, begins_like_cron
from onthedot.schedules.instants import format_instant

FORMS = (
    "'30 2 * * *' (cron: minute hour day month weekday, or 6 fields with the second in front)",
    "'@daily' (or @hourly, @weekly, @monthly, @yearly)",
    "'every 1h30m', 'every 1h30m from 2026-01-01T00:00Z'",
    "'gap 10m' (after the end of the last run)",
    "'at 2026-01-01T09:00+01:00' (several: with commas)",
    "'in 10m'",
)
_BELONGS = {
    "start": ("cron", "every"),
    "end": ("cron", "every"),
    "max_count": ("cron", "every"),
    "jitter": ("cron", "every", "at", "in"),
    "args": ("cron", "every", "gap", "at", "in"),
}
_LONGEST_AT = 64 * MOST_INSTANTS
_VERB = re.compile(r"(every|gap|at|in)(?:\s+(.*))?", re.IGNORECASE | re.DOTALL)
_FROM = re.compile(r"(.*\S)\s+from\s+(\S.*)", re.IGNORECASE | re.DOTALL)
_NEXT_INSTANT = re.compile(r"\s|[0-9]{4}-[0-9]{2}")  # behind a comma; one within an instant begins its fraction


def parse(
    text: str,
    *,
    tz: str | None = None,
    gap: Literal["run_after", "skip"] | None = None,
    fold: Literal["first", "second", "both"] | None = None,
    run_once: bool = False,
    seconds: bool = False,
    id: str = "",
    **options: Any,
) -> Schedule:
    """Return the schedule of a line of text. If the line is not a schedule, raise `ScheduleError` with the accepted
    forms.

    `tz` is the zone of a cron expression (default: UTC) and of an `at` without an offset (default: refused). `gap`,
    `fold` and `seconds` (the first field is the second: see `cron`) belong to cron, `run_once` to cron and `every`;
    other kinds refuse them. `options` are those of the kind's constructor: `start`, `end`, `max_count`, `jitter`,
    `args`. A length of time alone such as `1h30m` means `every 1h30m`.

    >>> parse("every 1h30m").interval
    datetime.timedelta(seconds=5400)
    >>> parse("@daily", tz="Europe/Berlin").expression
    '@daily'
    """
    if not isinstance(text, str):
        raise ScheduleError(_unreadable(text))
    plain = text.strip() if len(text) <= _LONGEST_AT else text
    if len(plain) > (_LONGEST_AT if plain[:2].lower() == "at" else LONGEST_EXPRESSION):
        raise ScheduleError(f"expected a schedule of at most {LONGEST_EXPRESSION} characters, got {shown(text)}")
    given = (("gap", gap), ("fold", fold), ("seconds", seconds or None))
    of_cron: dict[str, Any] = {key: value for key, value in given if value is not None}
    verb = _VERB.fullmatch(plain)
    if verb is None and not _is_length(plain):
        if not (plain.startswith("@") or begins_like_cron(plain)):
            raise ScheduleError(_unreadable(text))
        zone: dict[str, Any] = {} if tz is None else {"tz": tz}
        return cron(plain, run_once=run_once, id=id, **zone, **of_cron, **_known("cron", options))
    kind, rest = (verb[1].lower(), (verb[2] or "").strip()) if verb else ("every", plain)
    if not rest:
        raise ScheduleError(_unreadable(text))
    _refuse(of_cron, f"to cron, not to {kind!r}")
    if kind != "every":
        _refuse({"run_once": run_once} if run_once else {}, f"to cron and 'every', not to {kind!r}")
    return _read(kind, rest, tz, run_once, {"id": id, **_known(kind, options)})


def to_text(schedule: Schedule) -> str:
    """Return the line that `parse` reads back with the same zone, options and id.

    >>> to_text(every(5400, anchor="2026-01-01T00:00Z"))
    'every 1h30m from 2026-01-01T00:00Z'
    """
    match schedule:
        case Cron():
            return schedule.expression
        case Every():
            start = f" from {format_instant(schedule.anchor)}" if schedule.anchor else ""
            return f"every {format_duration(schedule.interval)}{start}"
        case FixedDelay():
            start = f" from {format_instant(schedule.start)}" if schedule.start else ""
            return f"gap {format_duration(schedule.delay)}{start}"
        case At():
            return f"at {', '.join(format_instant(instant) for instant in schedule.instants)}"
        case In():
            return f"in {format_duration(schedule.delay)}"


def _read(kind: str, rest: str, tz: str | None, run_once: bool, options: dict[str, Any]) -> Schedule:
    if kind == "at":
        return at(*_instants(rest), tz=tz, **options)
    if kind == "in":
        return in_(rest, **options)
    with_start = _FROM.fullmatch(rest)
    length, start = with_start.groups() if with_start else (rest, None)
    if kind == "every":
        return every(length, anchor=start, run_once=run_once, **options)
    return _fixed_delay(length, start=start, **options)


def _instants(text: str) -> list[str]:
    found: list[list[str]] = []
    for piece in text.split(","):
        if found and not _NEXT_INSTANT.match(piece):
            found[-1].append(piece)
        else:
            found.append([piece])
    return [",".join(pieces) for pieces in found]


_fixed_delay = gap  # `parse` has an argument of that name


def _is_length(text: str) -> bool:
    try:
        parse_duration(text)
    except DefinitionError:
        return False
    return True


def _known(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; `ScheduleError` if one does not belong to this kind."""
    given = {key: value for key, value in options.items() if value is not None}
    problems = [
        f"{key}: it belongs to {' and '.join(map(repr, _BELONGS[key]))}, not to {kind!r}; leave it out"
        if key in _BELONGS
        else f"{key[:60]}: unknown option{did_you_mean(key, _BELONGS)}"
        for key in given
        if kind not in _BELONGS.get(key, ())
    ]
    if problems:
        raise ScheduleError(problems)
    return given


def _refuse(given: dict[str, Any], belongs: str) -> None:
    if given:
        raise ScheduleError([f"{key}: it belongs {belongs}; leave it out" for key in given])


def _unreadable(text: object) -> str:
    got = shown(text) if isinstance(text, str) else f"{type(text).__name__} {shown(text)}"
    return f"expected a schedule, got {got}; accepted forms:" + "".join(f"\n      {form}" for form in FORMS)
