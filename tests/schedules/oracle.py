"""An oracle for cron: an independent evaluator that shares no code with `onthedot.schedules`.

It parses the fields itself, converts every minute between real time and wall time one by one, and applies the rules
of Debian's cron literally. It is slow, and hard to get wrong.
"""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import strategies as st

MINUTE = timedelta(minutes=1)
NAMES = {
    name: str(number)
    for names in ("SUN MON TUE WED THU FRI SAT", "_ JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")
    for number, name in enumerate(names.split())
}
NOTABLE = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour
    "Africa/Casablanca",  # back and forth around Ramadan
    "America/Sao_Paulo",  # the gap was at midnight
    "America/St_Johns",  # changed at 00:01: the repeated hour began on the day before
    "America/Havana",  # midnight does not exist
    "Asia/Kathmandu",
    "Asia/Gaza",
    "Asia/Pyongyang",  # half an hour, but no summer time
    "Pacific/Apia",  # skipped a whole day
    "Antarctica/Casey",  # three hours
    "Antarctica/Troll",  # two hours
    "Africa/Cairo",
    "UTC",
]
NEAR = ["15W", "1W", "31W,2", "L-3", "L-2W", "L-30", "28-3", "29-L", "30-10/4", "LW,1W"]
AROUND_THE_WEEK = ["FRI-MON", "5-1/2", "7-2", "MON-0", "MON-FRI#1", "SAT-SUN#L", "FRIL", "6-1#2,WED", "TUE-THUL"]
# These names mean different zones on different machines. They are refused, which other tests check.
ALL_ZONES = sorted(available_timezones() - {"localtime", "posixrules", "Factory"})
# We keep all zones loaded, so that drawn examples do not depend on whether a zone file can be read at that moment.
_KEPT = [ZoneInfo(name) for name in ALL_ZONES]


def numbers(text: str, low: int, high: int) -> set[int]:
    """The values of a field without L, W and #."""
    found: set[int] = set()
    for term in text.split(","):
        base, _, step = term.partition("/")
        if base == "*":
            first, last = low, high
        elif "-" in base:
            begin, end = base.split("-")
            first, last = int(NAMES.get(begin, begin)), high if end == "L" else int(NAMES.get(end, end))
            if last < first:  # through the end of the field, step by step
                if first == high == 7:  # Sunday, with which the week begins
                    ring = [*range(last + 1)]
                else:
                    ring = [*range(first, 7 if high == 7 else high + 1), *range(low, last + 1)]
                found |= set(ring[:: int(step or 1)])
                continue
        else:
            first = int(NAMES.get(base, base))
            last = high if step else first
        found |= set(range(first, last + 1, int(step or 1)))
    return found


class Reading:
    """A cron expression of 4, 5 or 6 fields, in capitals."""

    def __init__(self, expression: str) -> None:
        parts = expression.split()
        parts = {4: [*parts, "*", "*"], 5: ["0", *parts], 6: parts}[len(parts)]
        self.seconds, self.minutes = numbers(parts[0], 0, 59), numbers(parts[1], 0, 59)
        self.hours, self.months = numbers(parts[2], 0, 23), numbers(parts[4], 1, 12)
        self.days, self.weekdays = parts[3], parts[5]
        self.fixed = parts[1][0] != "*" and parts[2][0] != "*"

    def on(self, day: date) -> bool:
        by_day, by_weekday = self._by_day(day), self._by_weekday(day)
        both = self.days.startswith("*") or self.weekdays.startswith("*")
        return day.month in self.months and (by_day and by_weekday if both else by_day or by_weekday)

    def in_minute(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self.on(wall.date())

    def _by_day(self, day: date) -> bool:
        length = calendar.monthrange(day.year, day.month)[1]
        for term in self.days.split(","):
            near = term.endswith("W")
            plain = term.removesuffix("W")
            if plain == "L" or plain.startswith("L-"):
                wanted = {length - int(plain[2:] or 0)}
            else:
                wanted = numbers(plain, 1, 31)
            if near:
                weekdays = [d for d in range(1, length + 1) if day.replace(day=d).isoweekday() < 6]
                wanted = {min(weekdays, key=lambda d: abs(d - n)) for n in wanted if 1 <= n <= length}
            if day.day in wanted:
                return True
        return False

    def _by_weekday(self, day: date) -> bool:
        length = calendar.monthrange(day.year, day.month)[1]
        for term in self.weekdays.split(","):
            if term.endswith("L"):
                wanted, in_place = numbers(term.removesuffix("L").removesuffix("#"), 0, 7), day.day > length - 7
            elif "#" in term:
                weekday, nth = term.split("#")
                wanted, in_place = numbers(weekday, 0, 7), (day.day - 1) // 7 + 1 == int(nth)
            else:
                wanted, in_place = numbers(term, 0, 7), True
            if in_place and day.isoweekday() % 7 in {weekday % 7 for weekday in wanted}:
                return True
        return False


def slots_between(expression: str, tz: str, gap: str, fold: str, start: datetime, end: datetime) -> list[datetime]:
    """Return every slot from `start` to before `end` (UTC, whole minutes, at most one clock change between them)."""
    reading, zone = Reading(expression), ZoneInfo(tz)
    real = [start + MINUTE * step for step in range((end - start) // MINUTE)]
    shown = [(minute, minute.astimezone(zone).replace(tzinfo=None, fold=0)) for minute in real]
    if reading.fixed:
        found = _fixed(reading, zone, gap, fold, shown)
    else:
        found = {
            minute + timedelta(seconds=second)
            for minute, wall in shown
            if reading.in_minute(wall)
            for second in reading.seconds
        }
    return sorted(slot for slot in found if start <= slot < end)


def _fixed(
    reading: Reading, zone: ZoneInfo, gap: str, fold: str, shown: list[tuple[datetime, datetime]]
) -> set[datetime]:
    found: set[datetime] = set()
    wall, last = min(wall for _, wall in shown), max(wall for _, wall in shown)
    while wall <= last:
        if reading.in_minute(wall):
            instants = sorted(_instants(wall, zone))
            if instants:
                chosen = {"first": instants[:1], "second": instants[-1:], "both": instants}[fold]
                found |= {instant + timedelta(seconds=second) for instant in chosen for second in reading.seconds}
            elif gap == "run_after":
                found.add(next(minute for minute, seen in shown if seen > wall))
        wall += MINUTE
    return found


def _instants(wall: datetime, zone: ZoneInfo) -> set[datetime]:
    """Return the instants at which the clocks show this wall time: none, one or two."""
    candidates = {wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return {instant for instant in candidates if instant.astimezone(zone).replace(tzinfo=None, fold=0) == wall}


@lru_cache(maxsize=512)
def changes(tz: str, year: int) -> tuple[datetime, ...]:
    """Return the instants of a year at which the zone's offset changes, exact to the minute.

    Two changes within twelve hours are not found.
    """
    zone, probe = ZoneInfo(tz), timedelta(hours=12)
    found = []
    at = datetime(year, 1, 1, tzinfo=UTC)
    while at.year == year:
        if at.astimezone(zone).utcoffset() != (at + probe).astimezone(zone).utcoffset():
            left, right = at, at + probe
            while right - left > MINUTE:
                middle = left + (right - left) // (2 * MINUTE) * MINUTE
                same = middle.astimezone(zone).utcoffset() == at.astimezone(zone).utcoffset()
                left, right = (middle, right) if same else (left, middle)
            found.append(right)
        at += probe
    return tuple(found)


def zones() -> st.SearchStrategy[str]:
    return st.sampled_from(NOTABLE) | st.sampled_from(ALL_ZONES)


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, datetime]:
    """Draw a zone and one of its clock changes from 2000 to 2037, or a New Year if that year has none."""
    tz, year = draw(zones()), draw(st.integers(2000, 2037))
    return tz, draw(st.sampled_from(changes(tz, year) or (datetime(year, 1, 1, tzinfo=UTC),)))


def _field(low: int, high: int, likely: list[int]) -> st.SearchStrategy[str]:
    value = st.sampled_from(likely) | st.integers(low, high)
    ranges = st.tuples(value, value).map(lambda pair: f"{pair[0]}-{pair[1]}")
    step = st.integers(1, high - low + 1)
    term = (
        value.map(str)
        | ranges
        | st.tuples(ranges, step).map(lambda pair: f"{pair[0]}/{pair[1]}")
        | st.tuples(value, step).map(lambda pair: f"{pair[0]}/{pair[1]}")
    )
    star = st.just("*") | step.map("*/{}".format)
    return star | term | st.lists(term, min_size=2, max_size=3).map(",".join)


@st.composite
def expressions(draw: st.DrawFn, near: datetime | None = None) -> str:
    """Draw a valid expression of 4, 5 or 6 fields that probably matches around the local time `near`."""
    hours = [near.hour, (near.hour + 1) % 24, (near.hour - 1) % 24] if near else [0, 2]
    day = near.day if near else 15
    month = near.month if near else 1
    minute = draw(_field(0, 59, [0, 1, 15, 30, 59]))
    hour = draw(_field(0, 23, hours))
    second = draw(st.sampled_from(["0", "0", "30", "59", "*/20", "15,45"]))
    days = draw(st.sampled_from(["*", "*", "*", f"{day}", "*/2", "1-31/2", "L", "LW", "L,15", f"{day},28", *NEAR]))
    months = draw(st.sampled_from(["*", "*", "*", f"{month}", f"1,{month}", "*/1", "JAN-DEC", "NOV-FEB", "10-3/2"]))
    weekdays = draw(
        st.sampled_from(
            [
                "*",
                "*",
                "*",
                "MON-FRI",
                "SUN",
                "7",
                "5L",
                "0#1",
                "6,0",
                "*/2",
                "1-5/2",
                "7#5",
                "SAT-SUN",
                *AROUND_THE_WEEK,
            ]
        )
    )
    count = draw(st.sampled_from([4, 5, 5, 6]))
    return {
        4: f"{second} {minute} {hour} {days}",
        5: f"{minute} {hour} {days} {months} {weekdays}",
        6: f"{second} {minute} {hour} {days} {months} {weekdays}",
    }[count]
