"""Reads time zones as stretches of real time during which wall clocks keep one distance from UTC.

`zoneinfo` answers "which offset at this instant", not "when does it change next". So a year of a zone is probed
once, the changes are bisected, and the result is cached: about 1 ms per zone and year, then a tuple lookup.

A **wall time** here is an int like an instant: the microseconds since 1970-01-01 00:00 that the local calendar
and clock show. Within a stretch `wall = instant + offset`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from onthedot.clock import SECOND, Micros, to_datetime, to_micros
from onthedot.model.duration import micros
from onthedot.model.errors import ScheduleError, shown

FIRST_YEAR, LAST_YEAR = 2, 9997  # datetime ends at 1 and 9999; the rest is room for offsets and for looking around
LARGEST_OFFSET = 16 * 3600 * SECOND  # known extremes: from 15:13:42 behind (Metlakatla) to 15:13:42 ahead, before 1870

_DAY = 86_400
_AROUND = 3 * _DAY  # longer than any clock change, so that a year's edge never hides one
_PROBE = _DAY  # the two changes of any zone that lie nearest are four days apart (Freetown, 1939)
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
_LONGEST_KEY = 64
_DISTANCE = re.compile(r"(?:GMT|UTC|Z)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?", re.IGNORECASE)
_PLACES = {
    "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "PT": "America/Los_Angeles",
    "MDT": "America/Denver", "MT": "America/Denver", "CST": "America/Chicago", "CDT": "America/Chicago",
    "CT": "America/Chicago", "EDT": "America/New_York", "ET": "America/New_York", "AST": "America/Halifax",
    "ADT": "America/Halifax", "NST": "America/St_Johns", "AKST": "America/Anchorage", "AKDT": "America/Anchorage",
    "BRT": "America/Sao_Paulo", "ART": "America/Argentina/Buenos_Aires", "BST": "Europe/London",
    "WEST": "Europe/Lisbon", "CEST": "Europe/Berlin", "MEZ": "Europe/Berlin", "MESZ": "Europe/Berlin",
    "EEST": "Europe/Athens", "MSK": "Europe/Moscow", "TRT": "Europe/Istanbul", "GST": "Asia/Dubai",
    "PKT": "Asia/Karachi", "IST": "Asia/Kolkata", "ICT": "Asia/Bangkok",
    "WIB": "Asia/Jakarta",
    "SGT": "Asia/Singapore", "HKT": "Asia/Hong_Kong", "PHT": "Asia/Manila", "KST": "Asia/Seoul",
    "JST": "Asia/Tokyo", "AWST": "Australia/Perth",
    "ACST": "Australia/Adelaide", "ACDT": "Australia/Adelaide", "AEST": "Australia/Sydney", "AEDT": "Australia/Sydney",
    "NZST": "Pacific/Auckland", "NZDT": "Pacific/Auckland", "SAST": "Africa/Johannesburg", "WAT": "Africa/Lagos",
    "CAT": "Africa/Maputo", "EAT": "Africa/Nairobi",
}  # fmt: skip
"""The best known place of each abbreviation that is not the name of a zone. Some abbreviations are used in several
places.
"""
_VERSION = re.compile(r"(\d{4})([a-z]+)")
_NO_ZONE_FILE = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
_NOT_PORTABLE = re.compile(r"(posix|right)/.*|localtime|posixrules|Factory")


class Stretch(NamedTuple):
    """The instants from `start` up to but without `end`, all at `offset` from UTC.

    The other three are wall times, and say what the clock changes around it do:
    `skipped_from`     from here to the stretch's first wall time, the clocks showed nothing (a gap)
    `repeated_until`   wall times before this were shown once already (a fold)
    `repeats_from`     wall times from this one on will be shown once more
    """

    start: Micros
    end: Micros
    offset: Micros
    skipped_from: Micros
    repeated_until: Micros
    repeats_from: Micros


class _Change(NamedTuple):
    instant: Micros
    before: Micros
    after: Micros


def zone(key: str) -> ZoneInfo:
    """The zone of that IANA name; `ScheduleError` with the nearest name otherwise.

    Anything that is not shaped like a name is refused before a file is looked for.

    >>> zone("Europe/Berlin")
    zoneinfo.ZoneInfo(key='Europe/Berlin')
    """
    if not isinstance(key, str):
        raise ScheduleError(f"tz: expected the name of a time zone like 'Europe/Berlin', got {shown(key)}")
    if len(key) > _LONGEST_KEY or not _KEY.fullmatch(key):
        hint = _offset_hint(key) if len(key) <= _LONGEST_KEY else ""
        told = f"tz: expected the name of a time zone like 'Europe/Berlin' or 'UTC', got {shown(key)}"
        raise ScheduleError(f"{told}{hint}")
    if _NOT_PORTABLE.fullmatch(key):
        raise ScheduleError(f"tz: {key!r} differs from machine to machine; name the zone itself, like 'Europe/Berlin'")
    try:
        return ZoneInfo(key)
    except (KeyError, ValueError, *_NO_ZONE_FILE):  # unknown; not a zone file; a directory such as 'Europe'
        raise ScheduleError(f"tz: unknown time zone {key!r}{_nearest(key)}") from None
    except OSError as error:  # such as too many open files
        told = f"tz: expected zone data that can be read, got {error.strerror!r} for {key!r}; ask again"
        raise ScheduleError(told) from error


def is_newer(version: str, other: str) -> bool:
    """Return whether zone data of this version is newer than the other. A text that is not a version counts as oldest.

    >>> is_newer("2025b", "2025a"), is_newer("2024a", "2025a"), is_newer("2026a", "unknown")
    (True, False, True)
    """
    return _release(version) > _release(other)


def _release(version: str) -> tuple[str, int, str]:
    """2025z is followed by 2025za."""
    found = _VERSION.fullmatch(version)
    return ("", 0, "") if found is None else (found[1], len(found[2]), found[2])


def stretch_at(key: str, instant: Micros) -> Stretch:
    """The stretch that contains the instant. Stretches also end with each year (UTC)."""
    year = min(max(to_datetime(instant).year, FIRST_YEAR), LAST_YEAR)
    stretches = stretches_of_year(key, year)
    for stretch in stretches:
        if instant < stretch.end:
            return stretch
    return stretches[-1]


@lru_cache(maxsize=4096)
def stretches_of_year(key: str, year: int) -> tuple[Stretch, ...]:
    """The stretches that make up one year (UTC), without a hole between them.

    >>> [stretch.offset // SECOND for stretch in stretches_of_year("Europe/Berlin", 2026)]
    [3600, 7200, 3600]
    """
    start, end = _second(datetime(year, 1, 1, tzinfo=UTC)), _second(datetime(year + 1, 1, 1, tzinfo=UTC))
    where = zone(key)
    changes = _changes(where, start - _AROUND, end + _AROUND)
    bounds = [start * SECOND]
    bounds += [change.instant for change in changes if start * SECOND < change.instant < end * SECOND]
    bounds.append(end * SECOND)
    return tuple(_stretch(where, changes, *pair) for pair in pairwise(bounds))


def _stretch(where: ZoneInfo, changes: list[_Change], start: Micros, end: Micros) -> Stretch:
    offset = micros(_offset(where, start // SECOND))
    first, last = start + offset, end + offset
    begins = [change.instant + change.before for change in changes if change.instant <= start]
    returns = [change.instant + change.after for change in changes if change.instant >= end]
    skipped = [change.instant + change.before for change in changes if change.instant == start]
    return Stretch(start, end, offset, min([first, *skipped]), max([first, *begins]), min([last, *returns]))


def _changes(where: ZoneInfo, start: int, end: int) -> list[_Change]:
    """Return every change of the offset in (start, end]. The arguments are in seconds, the results in microseconds."""
    changes = []
    left, left_offset = start, _offset(where, start)
    while left < end:
        right = min(left + _PROBE, end)
        right_offset = _offset(where, right)
        if right_offset == left_offset:
            left = right
            continue
        while right - left > 1:
            middle = (left + right) // 2
            if _offset(where, middle) == left_offset:
                left = middle
            else:
                right = middle
        after = _offset(where, right)
        changes.append(_Change(right * SECOND, micros(left_offset), micros(after)))
        left, left_offset = right, after
    return changes


def _offset(where: ZoneInfo, second: int) -> timedelta:
    return datetime.fromtimestamp(second, where).utcoffset() or timedelta(0)


def _second(instant: datetime) -> int:
    return to_micros(instant) // SECOND


def _nearest(key: str) -> str:
    """What to write instead: for a distance from UTC, an abbreviation, a city ('berlin'), or the nearest spelling."""
    if hint := _offset_hint(key):
        return hint
    if place := _PLACES.get(key.upper()):
        return f": an abbreviation has no rules for clock changes; name a place, like {place!r}"
    known = _known()
    word = key.casefold()
    by_city = [name for folded, name in known.items() if folded.rpartition("/")[2] == word.rpartition("/")[2]]
    import difflib  # imported only for an error

    near = by_city or [known[folded] for folded in difflib.get_close_matches(word, known, n=1, cutoff=0.6)]
    if near:
        return f", did you mean {near[0]!r}?"
    return "; use an IANA name like 'Europe/Berlin', 'America/New_York' or 'UTC'"


def _offset_hint(key: str) -> str:
    """For `GMT+2` and the like: `Etc/GMT-2`, whose sign is the other way round."""
    found = _DISTANCE.fullmatch(key)
    if found is None:
        return ""
    sign, hours, minutes = found[1], int(found[2]), int(found[3] or 0)
    place = "; a place, like 'Europe/Berlin', also has its clock changes"
    if hours == minutes == 0:
        return ", did you mean 'UTC'?"
    if minutes or hours > (14 if sign == "+" else 12):
        return f": distances from UTC are no zones{place}"
    name, side = f"Etc/GMT{'-' if sign == '+' else '+'}{hours}", "ahead of" if sign == "+" else "behind"
    some = f"{hours} hour{'s' if hours > 1 else ''}"
    return f", did you mean {name!r}? It is {some} {side} UTC: the sign in these names is reversed{place}"


@lru_cache(maxsize=1)
def _known() -> dict[str, str]:
    """Return the names of zones, by their lower-case form. `Etc/GMT+2` is the opposite of `GMT+2`: never proposed by
    spelling.
    """
    return {name.casefold(): name for name in sorted(available_timezones()) if not name.startswith("Etc/GMT")}
