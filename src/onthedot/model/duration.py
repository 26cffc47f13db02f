"""Lengths of time as people write them: `90s`, `1h30m`, `2 days`, `250ms`."""

from __future__ import annotations

import re
from datetime import timedelta

from onthedot.model.errors import DefinitionError, did_you_mean, shown

Duration = str | float | timedelta
"""A length of time as a user may give it: `"1h30m"`, seconds, or a timedelta."""

_MICROS_PER_SECOND = 1_000_000

# Canonical unit first. "m" is minutes: nothing here is long enough for months to be meant.
_UNITS: dict[str, int] = {
    "w": 604_800 * _MICROS_PER_SECOND,
    "d": 86_400 * _MICROS_PER_SECOND,
    "h": 3_600 * _MICROS_PER_SECOND,
    "m": 60 * _MICROS_PER_SECOND,
    "s": _MICROS_PER_SECOND,
    "ms": 1_000,
    "us": 1,
}
_SPELLINGS: dict[str, str] = {
    **{unit: unit for unit in _UNITS},
    **dict.fromkeys(("week", "weeks"), "w"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("µs", "microsecond", "microseconds"), "us"),
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)", re.IGNORECASE)

LONGEST_TEXT = 1_000  # characters: every unit spelled out, with all its digits, takes less
LONGEST = timedelta(days=36_525)  # a century: what is longer is a mistake, and datetime arithmetic would overflow


def parse_duration(value: Duration, *, what: str = "duration") -> timedelta:
    """A positive timedelta from `"1h30m"`, a number of seconds, or a timedelta; `DefinitionError` otherwise.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    >>> parse_duration(0.25)
    datetime.timedelta(microseconds=250000)
    """
    parsed = _read(value, what)
    if parsed <= timedelta(0):
        raise DefinitionError(
            f"{what}: expected a length of time above zero, got {shown(value)}; write it like '90s' or '1h30m'"
        )
    if parsed > LONGEST:
        raise DefinitionError(f"{what}: expected at most {LONGEST.days} days, got {shown(value)}")
    return parsed


def _read(value: Duration, what: str) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DefinitionError(
            f"{what}: expected text like '1h30m', seconds or a timedelta, got {type(value).__name__} {shown(value)}"
        )
    if not isinstance(value, str):
        try:
            return timedelta(seconds=value)
        except (OverflowError, ValueError):
            raise DefinitionError(f"{what}: expected at most {LONGEST.days} days, got {shown(value)}") from None
    return _read_text(value, what)


def _read_text(text: str, what: str) -> timedelta:
    expected = f"{what}: expected a length of time like '90s', '1h30m' or '2 days', got {shown(text)}"
    if len(text) > LONGEST_TEXT:
        raise DefinitionError(expected)
    total = 0.0
    position = 0
    while position < len(text.rstrip()):
        part = _PART.match(text, position)
        if part is None:
            raise DefinitionError(expected)
        number, word = part.groups()
        unit = _SPELLINGS.get(word.lower())
        if unit is None:
            raise DefinitionError(f"{expected}: unknown unit {shown(word)}{did_you_mean(word.lower(), _SPELLINGS)}")
        total += float(number) * _UNITS[unit]
        position = part.end()
    if position == 0:
        raise DefinitionError(expected)
    try:
        return timedelta(microseconds=round(total))
    except OverflowError:
        raise DefinitionError(f"{what}: expected at most {LONGEST.days} days, got {shown(text)}") from None


def micros(length: timedelta) -> int:
    """A timedelta as whole microseconds.

    >>> micros(timedelta(seconds=1.5))
    1500000
    """
    return (length.days * 86_400 + length.seconds) * _MICROS_PER_SECOND + length.microseconds


def format_duration(length: timedelta | int) -> str:
    """The shortest exact spelling that `parse_duration` reads back. An int is microseconds.

    >>> format_duration(timedelta(minutes=90))
    '1h30m'
    >>> format_duration(0)
    '0s'
    """
    rest = micros(length) if isinstance(length, timedelta) else length
    if rest == 0:
        return "0s"
    sign, rest = ("-", -rest) if rest < 0 else ("", rest)
    parts = []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return sign + "".join(parts)
