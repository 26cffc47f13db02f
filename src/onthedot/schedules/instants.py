"""Points in time as people write them: an aware datetime, or ISO 8601 text; without an offset only with a zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from onthedot.clock import Micros, to_datetime, to_micros
from onthedot.errors import ScheduleError, shown
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
                f"add one ('{instant.isoformat()}+00:00') or give tz"
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


def format_instant(instant: datetime) -> str:
    """The instant in UTC as short as `read_instant` reads it back.

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
