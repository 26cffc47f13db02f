"""Reads points in time: an aware datetime, or ISO 8601 text. Without an offset it needs a zone.

`read_when` also reads plain words, as people type them in a search: `yesterday`, `2h ago`, `monday 03:00`.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from onthedot.clock import Micros, to_datetime, to_micros
from onthedot.model.duration import parse_duration
from onthedot.model.errors import DefinitionError, ScheduleError, shown
from onthedot.schedules.zones import stretch_at, zone

_LONGEST = 200  # characters of an instant, with blanks around it


def read_instant(value: datetime | str, *, tz: str | None = None, what: str = "at") -> datetime:
    """The instant in UTC. A local time that a clock change leaves out is refused; of two equal ones, the first.

    >>> read_instant("2026-01-01T12:00", tz="Europe/Berlin").isoformat()
    '2026-01-01T11:00:00+00:00'
    """
    instant = _read_text(value, what) if isinstance(value, str) else value
    if not isinstance(instant, datetime):
        raise ScheduleError(f"{what}: expected a datetime or ISO text, got {type(value).__name__} {shown(value)}")
    if instant.utcoffset() is None:
        if tz is None:
            raise ScheduleError(
                f"{what}: expected a point in time with an offset, got {shown(str(value))}; "
                f"add one ('{_with_offset(instant)}') or give tz"
            )
        instant = instant.replace(tzinfo=zone(tz))
    try:
        in_utc = instant.astimezone(UTC)
        there_again = in_utc.astimezone(instant.tzinfo)
    except OverflowError:
        raise ScheduleError(f"{what}: expected a year from 1 to 9999 in UTC, got {shown(str(value))}") from None
    if there_again.replace(tzinfo=None) != instant.replace(tzinfo=None):
        raise ScheduleError(_does_not_exist(instant, what))
    return in_utc


def _with_offset(naive: datetime) -> str:
    """The same with the offset of this machine's zone, for a hint."""
    try:
        return naive.astimezone().isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{naive.isoformat()}+00:00"


def format_instant(instant: datetime) -> str:
    """The instant in UTC, in the shortest text that `read_instant` reads back.

    >>> format_instant(datetime(2026, 1, 1, tzinfo=UTC))
    '2026-01-01T00:00Z'
    """
    plain = instant.astimezone(UTC).replace(tzinfo=None)
    whole_minute = plain.second == plain.microsecond == 0
    return plain.isoformat(timespec="minutes" if whole_minute else "auto") + "Z"


def _read_text(text: str, what: str) -> datetime:
    try:
        if len(text) > _LONGEST:
            raise ValueError
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise ScheduleError(
            f"{what}: expected a point in time like '2026-01-01T09:00+01:00' or '2026-01-01T08:00Z', got {shown(text)}"
        ) from None


def _does_not_exist(instant: datetime, what: str) -> str:
    wall = instant.replace(tzinfo=None)
    text = f"{what}: expected a time that exists, got {wall.isoformat(' ')}, which the clocks in {instant.tzinfo} skip"
    if isinstance(instant.tzinfo, ZoneInfo) and instant.tzinfo.key:
        # Read with the offset before the gap (fold=0), such a time falls into the stretch right after it.
        stretch = stretch_at(instant.tzinfo.key, to_micros(instant.replace(fold=0)))
        text += f": they go from {_wall(stretch.skipped_from)} to {_wall(stretch.start + stretch.offset)}"
    return f"{text}; choose a time outside that gap"


def _wall(wall: Micros) -> str:
    return to_datetime(wall).replace(tzinfo=None).isoformat(" ", timespec="minutes")


# ── in plain words ───────────────────────────────────────────────────────────────────────────────────────────

WHEN = "'yesterday', '-2h', '2h ago', '2026-11-17', '2026-11-17 03:00' or 'monday 03:00'"
"""What `read_when` reads, for messages and help."""
WHEN_AHEAD = "'tomorrow 03:00', '+2h', 'in 2h', '2026-12-24 03:00' or 'monday 03:00'"
"""The same of a point in time to come."""

_LONGEST_TEXT = 60
_FIRST_YEAR, _LAST_YEAR = 1970, 2199  # what every store can compare exactly
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY_AND_TIME = re.compile(r"(?:([a-z]+)(?: |$))?(?:at )?(?:(\d{1,2}):(\d\d)(?::(\d\d))?)?", re.ASCII)
_OFFSET = re.compile(r" (?=[+-]\d\d:?\d\d$|z$)| ?(?:utc|gmt)$", re.ASCII)


def read_when(text: str, *, now: Micros, tz: tzinfo | None = None, what: str = "when", ahead: bool = False) -> datetime:
    """Read a point in time as users write it, and return it in UTC. `ScheduleError` lists the accepted forms.

    Local times are in `tz` (None: this machine's zone). A day of the week or a time of day alone is the latest one
    in the past; with `ahead`, the next one.

    >>> noon = to_micros(datetime(2026, 11, 18, 12, tzinfo=UTC))  # a Wednesday
    >>> for text in ("yesterday", "-2h", "monday 03:00", "2026-11-17 03:00", "14:00"):
    ...     print(format_instant(read_when(text, now=noon, tz=UTC)))
    2026-11-17T00:00Z
    2026-11-18T10:00Z
    2026-11-16T03:00Z
    2026-11-17T03:00Z
    2026-11-17T14:00Z
    """
    shown = repr(text) if len(text) <= _LONGEST_TEXT else f"{text[:40]!r}… ({len(text)} characters)"
    wrong = f"{what}: expected a point in time like {WHEN_AHEAD if ahead else WHEN}, got {shown}"
    if len(text) > _LONGEST_TEXT:
        raise ScheduleError(wrong)
    said = " ".join(text.lower().split())
    try:
        found = _distance(said, now) or _day_and_time(said, now, tz, ahead) or _date(said, tz)
    except (OverflowError, ValueError, OSError) as error:  # 25:00, or a year that no datetime has
        raise ScheduleError(wrong) from error
    if found is None:
        raise ScheduleError(f"{wrong}{_hint(said, ahead)}")
    if not _FIRST_YEAR <= found.year <= _LAST_YEAR:
        raise ScheduleError(f"{what}: expected a year from {_FIRST_YEAR} to {_LAST_YEAR}, got {shown}")
    return found


def _distance(said: str, now: Micros) -> datetime | None:
    """`now`, `-2h`, `2h ago`, `+2h`, `in 2h`."""
    if said == "now":
        return to_datetime(now)
    if said.startswith(("+", "in ")):
        length = _length(said.removeprefix("+").removeprefix("in "))
        return None if length is None else to_datetime(now) + length
    if said.startswith("-") or said.endswith(" ago"):
        length = _length(said.removeprefix("-").removesuffix(" ago"))
        return None if length is None else to_datetime(now) - length
    return None


def _length(said: str) -> timedelta | None:
    try:
        return parse_duration(said)
    except DefinitionError:
        return None


def _day_and_time(said: str, now: Micros, tz: tzinfo | None, ahead: bool) -> datetime | None:
    """`yesterday`, `today 03:00`, `monday 03:00`, `mon`, `03:00`."""
    parts = _DAY_AND_TIME.fullmatch(said)
    if parts is None or not said:
        return None
    word, *clock = parts.groups()
    hour, minute, second = (int(number or 0) for number in clock)
    at, today = time(hour, minute, second), to_datetime(now).astimezone(tz).date()
    if word in _DAYS:
        return _local(today + timedelta(days=_DAYS[word]), at, tz)
    every = 1
    if word is not None:
        places = [place for place, day in enumerate(_WEEKDAYS) if word in (day, day[:3])]
        if not places:
            return None
        every = 7
        today += timedelta(days=(places[0] - today.weekday()) % 7)
    # The days around today: a day back or ahead is not always 24 hours.
    candidates = [_local(today + timedelta(days=turn * every), at, tz) for turn in (-1, 0, 1)]
    if ahead:
        return next(one for one in candidates if to_micros(one) > now)
    return next(one for one in reversed(candidates) if to_micros(one) <= now)


def _date(said: str, tz: tzinfo | None) -> datetime | None:
    """`2026-11-17`, `2026-11-17 03:00`, with or without an offset."""
    text = _OFFSET.sub(lambda found: "" if found[0] == " " else "+00:00", said)
    try:
        local = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return local.astimezone(UTC) if local.tzinfo is not None else _local(local.date(), local.time(), tz)


def _local(day: date, at: time, tz: tzinfo | None) -> datetime:
    """A local time that a clock change leaves out counts as if the clock had not changed yet."""
    local = datetime.combine(day, at)
    return (local if tz is None else local.replace(tzinfo=tz)).astimezone(UTC)


def _hint(said: str, ahead: bool) -> str:
    if said[:1] in ("+", "-"):
        try:
            parse_duration(said[1:], what="length of time")
        except DefinitionError as error:
            what = str(error).partition("': ")[2].partition(";")[0]  # without the list of all units
            return f"; {what}" if what else ""
    if _length(said) is None:
        return ""
    return f"; did you mean '+{said}'?" if ahead else f"; did you mean '{said} ago'?"
