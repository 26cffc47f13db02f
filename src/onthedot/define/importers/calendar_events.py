"""systemd's calendar events (`Mon..Fri *-*-* 02:30:00 Europe/Berlin`) as our schedules.

    [weekdays] [[year-]month-day] [hour:minute[:second]] [zone]

A value is a number, a range `a..b`, a step `a/n`, a list of these, or `*`; `~` in a date counts from the month's end.
Where a date and weekdays are both said systemd wants both, and cron either: what cron cannot say is refused.
"""

from __future__ import annotations

import re
from typing import Any

NAMES: dict[str, str] = {
    "minutely": "* * * * *",
    "hourly": "0 * * * *",
    "daily": "0 0 * * *",
    "weekly": "0 0 * * MON",
    "monthly": "0 0 1 * *",
    "quarterly": "0 0 1 1,4,7,10 *",
    "semiannually": "0 0 1 1,7 *",
    "biannually": "0 0 1 1,7 *",
    "bi-annually": "0 0 1 1,7 *",
    "semi-annually": "0 0 1 1,7 *",
    "yearly": "0 0 1 1 *",
    "annually": "0 0 1 1 *",
    "anually": "0 0 1 1 *",
}
_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_DATE = re.compile(r"(?:(?P<year>[0-9*/.,]+)-)?(?P<month>[0-9*/.,]+)(?P<mark>[-~])(?P<day>[0-9*/.,]+)")
_TIME = re.compile(r"(?P<hour>[0-9*/.,]+):(?P<minute>[0-9*/.,]+)(?::(?P<second>[0-9*/.,]+))?")
_ZONE = re.compile(r"UTC|GMT|[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+")
_PART = re.compile(r"(?P<first>\*|[0-9]+)(?:\.\.(?P<last>[0-9]+))?(?:/(?P<step>[0-9]+))?")
_WEEKS = {(1, 7): 1, (8, 14): 2, (15, 21): 3, (22, 28): 4}


class CannotSay(ValueError):
    """A calendar event that none of our schedules can express."""


def names_zone(text: str) -> bool:
    """Whether a calendar event names its zone, which is its last word.

    >>> names_zone("daily Europe/Berlin"), names_zone("daily")
    (True, False)
    """
    words = text.split()
    return len(words) > 1 and _ZONE.fullmatch(words[-1]) is not None


def read_calendar(text: str, tz: str = "UTC") -> dict[str, Any]:
    """A schedule as our files have it, as a mapping.

    >>> read_calendar("Mon..Fri *-*-* 02:30 Europe/Berlin")
    {'cron': '30 2 * * MON,TUE,WED,THU,FRI', 'tz': 'Europe/Berlin'}
    >>> read_calendar("*:0/15")
    {'cron': '0-59/15 * * * *'}
    """
    words = text.split()
    if names_zone(text):
        tz = "UTC" if words[-1] == "GMT" else words[-1]
        words.pop()
    zone = {} if tz == "UTC" else {"tz": tz}
    if len(words) == 1 and words[0].lower() in NAMES:
        return {"cron": NAMES[words[0].lower()], **zone}
    weekdays = _weekdays(words.pop(0)) if words and words[0][0].isalpha() else []
    date = _take(words, _DATE) or {"year": "*", "month": "*", "mark": "-", "day": "*"}
    time = _take(words, _TIME) or {"hour": "0", "minute": "0", "second": "0"}
    if words or not text.strip():
        raise CannotSay(f"expected a calendar event such as 'Mon..Fri *-*-* 02:30', got {text!r}")
    if date["year"] not in (None, "*"):
        return _instant(text, weekdays, date, time, tz)
    day, weekday = _day_fields(weekdays, date)
    minute, hour = _field(time["minute"], 59), _field(time["hour"], 23)
    second, month = _field(time["second"] or "0", 59), _field(date["month"], 12)
    line = f"{minute} {hour} {day} {month} {weekday}"
    return {"cron": line if second == "0" else f"{second} {line}", **zone}


def _take(words: list[str], form: re.Pattern[str]) -> dict[str, Any] | None:
    found = form.fullmatch(words[0]) if words else None
    if found is None:
        return None
    words.pop(0)
    return found.groupdict()


def _weekdays(text: str) -> list[str]:
    """All weekdays of a list, by name; a range may wrap around the end of the week."""
    named: list[str] = []
    for part in text.strip(",").split(","):
        first, dots, last = (part if ".." in part else part.replace("-", "..")).partition("..")
        low, high = _weekday(first), _weekday(last or first)
        while True:
            named.append(_DAYS[low])
            if low == high or not dots:
                break
            low = (low + 1) % 7
    return [day for day in _DAYS if day in named]


def _weekday(word: str) -> int:
    name = word[:3].upper()
    full = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    if name not in _DAYS or not full[_DAYS.index(name)].startswith(word.lower()):
        raise CannotSay(f"expected weekdays such as 'Mon..Fri', got {word!r}")
    return _DAYS.index(name)


def _day_fields(weekdays: list[str], date: dict[str, Any]) -> tuple[str, str]:
    if date["mark"] == "~":
        back = date["day"].lstrip("0")
        if not back.isdigit() or not 1 <= int(back) <= 31 or weekdays:
            raise CannotSay(f"of days from a month's end, cron has only single ones: got '~{date['day']}'")
        return "L" if back == "1" else f"L-{int(back) - 1}", "*"
    day = _field(date["day"], 31)
    if not weekdays or len(weekdays) == 7:
        return day, "*"
    if day == "*":
        return "*", ",".join(weekdays)
    ends = re.fullmatch(r"([0-9]+)-([0-9]+)", day)
    week = _WEEKS.get((int(ends[1]), int(ends[2]))) if ends else None
    if week is None:
        raise CannotSay("a date and weekdays together: systemd wants both, cron would take either")
    return "*", ",".join(f"{weekday}#{week}" for weekday in weekdays)


def _field(text: str, most: int) -> str:
    """`*`, `a..b`, `a/n` and lists of them, as cron has them."""
    return ",".join(_part(part, most) for part in text.split(","))


def _part(text: str, most: int) -> str:
    found = _PART.fullmatch(text)
    if found is None:
        raise CannotSay(f"expected a number, a range 'a..b' or a step 'a/n', got {text!r}")
    first, last, step = found["first"], found["last"], found["step"]
    low = first if first == "*" else str(int(first))
    if last:
        return f"{low}-{int(last)}{_slash(step)}"
    if not step:
        return low
    return f"*{_slash(step)}" if low == "*" else f"{low}-{most}{_slash(step)}"


def _slash(step: str | None) -> str:
    return f"/{int(step)}" if step else ""


def _instant(text: str, weekdays: list[str], date: dict[str, Any], time: dict[str, Any], tz: str) -> dict[str, Any]:
    """One instant, if the event means exactly one."""
    numbers = (date["year"], date["month"], date["day"], time["hour"], time["minute"], time["second"] or "0")
    if weekdays or date["mark"] == "~" or not all(number.isdigit() for number in numbers):
        raise CannotSay(f"a year is said, and it is more than one instant: got {text!r}")
    year, month, day, hour, minute, second = map(int, numbers)
    at = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
    return {"at": at, "tz": tz}
