"""Parses cron text into six fields: aliases, field counts, names, ranges, and errors that name the field.

    fields   reading
    4        second minute hour day                     month and weekday are *
    5        minute hour day month weekday              second is 0
    6        second minute hour day month weekday

A field is `*`, a value, a range `a-b`, any of these with a step `/n`, or a list with commas. Months and weekdays
have names. A range may wrap around: `22-6`, `FRI-MON` and `NOV-FEB/2` step through the end of the field. When neither
day nor weekday starts with `*`, either one suffices; otherwise both must match. Nothing here knows about time zones.

    day        L          the last day of the month           weekday   5L  FRI#L     the last Friday
               L-3        three days before it                          FRI#2         the second Friday
               15W        the weekday (Monday to Friday)                MON-FRI#1     the first of each of them
                          nearest to the 15th, same month               MON-FRIL      the last of each of them
               LW  L-3W   … nearest to the last, to L-3

A month without that day (`31W` and `L-30` in February) has no match. `W` means what it means in Quartz: it never leaves
the month. A range up to `L` (`29-L`) is one up to 31.

`H` is one value of the field, which the job's name chooses (`spread.py`), so that a thousand jobs at `H * * * *` do not
start in one minute. `H(0-29)` is one of these; `H/15` and `H(0-29)/10` are steps from such a value on. As a day, `H` is
28 at the most: every month has that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from onthedot.model.errors import ScheduleError, did_you_mean, shown
from onthedot.schedules.spread import draw

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
LONGEST_EXPRESSION = 1_000  # characters: all fields as full lists of numbers take about 500

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class _Field:
    """One of the six: its name, its lowest and highest value, and the names of its values."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """The accepted values, in a message."""
        named = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.low}-{self.high}{named}"

    @property
    def count(self) -> int:
        """The number of different values; Sunday is both 0 and 7."""
        return 7 if self.name == "weekday" else self.high - self.low + 1

    @property
    def widest(self) -> int:
        """The highest value that `H` may become: Sunday is 0, and every month has 28 days."""
        return {"weekday": 6, "day": 28}.get(self.name, self.high)


_FIELDS = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("weekday", 0, 7, _WEEKDAYS),
)
_BY_NAME = {field.name: field for field in _FIELDS}
_ALL = {field.name: frozenset(range(field.low, field.low + field.count)) for field in _FIELDS}
_READINGS = {
    4: "second minute hour day",
    5: "minute hour day month weekday",
    6: "second minute hour day month weekday",
}
_MOST_PROBLEMS = 200  # characters of problems in one error
NEAREST = re.compile(r"([0-9]{1,2})W|L(-[0-9]{1,2})?(W?)")  # of the field day
OF_MONTH = re.compile(r"([0-9A-Z-]+?)(?:#?(L)|#([0-9A-Z]*))")  # of the field weekday
_CRON_LIKE = re.compile(r"[0-9*?]|[Hh](?![A-Za-z])")
_NUMBER = re.compile(r"[0-9]{1,9}")
_SPREAD = re.compile(r"H(?:\(([^()]*)\))?(?:/(.*))?")
_WEEKS = {"1-7": 1, "8-14": 2, "15-21": 3, "22-28": 4}


def tidy(expression: str) -> str:
    """Return the expression with single spaces. Raise `ScheduleError` if it is no text, or too long.

    >>> tidy(" 0  12 * * * ")
    '0 12 * * *'
    """
    if not isinstance(expression, str):
        raise ScheduleError(
            f"cron: expected text like '30 2 * * *', got {type(expression).__name__} {shown(expression)}"
        )
    if len(expression) > LONGEST_EXPRESSION:
        raise ScheduleError(f"cron: expected at most {LONGEST_EXPRESSION} characters, got {len(expression)}")
    return " ".join(expression.split())


def read_fields(expression: str, spread: str = "") -> tuple[str, ...]:
    """Check the six fields, and return them in capitals, second first. `ScheduleError` lists every bad field. `H` is
    replaced by its value for the name `spread`.

    >>> read_fields("30 2 * * mon-fri")
    ('0', '30', '2', '*', '*', 'MON-FRI')
    """
    parts = _expand_alias(tidy(expression)).upper().split()
    if len(parts) not in _READINGS:
        raise ScheduleError(_wrong_count(expression, len(parts)))
    problems: list[str] = []
    six = _six(parts)
    fields = tuple(_read_field(field, text, spread, problems) for field, text in zip(_FIELDS, six, strict=True))
    if problems:
        raise ScheduleError(_told(problems, six, f"{shown(expression)} was read as {_READINGS[len(parts)]!r}"))
    return fields


def cron_fields(expression: str, spread: str = "") -> dict[str, str]:
    """Return the text of each field, so that the author can see how the expression was read.

    >>> cron_fields("30 15 2 1")
    {'second': '30', 'minute': '15', 'hour': '2', 'day': '1', 'month': '*', 'weekday': '*'}
    """
    return {field.name: text for field, text in zip(_FIELDS, read_fields(expression, spread), strict=True)}


def values_of(name: str, text: str) -> frozenset[int]:
    """Return the values of a field's text, without `L`, `W` and `#`. Sunday is 0.

    >>> sorted(values_of("hour", "22-6/2")), sorted(values_of("weekday", "SAT-7"))
    ([0, 2, 4, 6, 22], [0, 6])
    """
    if text == "*":
        return _ALL[name]
    field = _BY_NAME[name]
    found: set[int] = set()
    for term in text.split(","):
        base, _, step = term.partition("/")
        first, dash, last = base.partition("-")
        low = field.low if base == "*" else _read_value(field, first)
        high = _read_value(field, last) if dash else field.high if base == "*" or step else low
        if high < low:
            high += field.count
        found.update((value - field.low) % field.count + field.low for value in range(low, high + 1, int(step or 1)))
    return frozenset(found)


def is_four_fields(text: str) -> bool:
    """Return whether the text is a cron expression of four fields, the first of which is the second.

    >>> is_four_fields("30 0 2 *"), is_four_fields("30 2 * * *"), is_four_fields("every 1h from 2026-01-01T00:00Z")
    (True, False, False)
    """
    return len(text) <= LONGEST_EXPRESSION and len(text.split()) == 4 and begins_like_cron(text.lstrip())


def begins_like_cron(text: str) -> bool:
    """Return whether the text begins like the first field of an expression; an alias does not."""
    return _CRON_LIKE.match(text) is not None


def _expand_alias(expression: str) -> str:
    word = expression.lower()
    if not word.startswith("@"):
        return expression
    if word in ALIASES:
        return ALIASES[word]
    if word == "@reboot":
        raise ScheduleError("cron: '@reboot' names no time; run the job from the program's start instead")
    if word.startswith("@every"):
        raise ScheduleError(f"cron: {shown(expression)} is an interval; write it without '@', like 'every 5m'")
    raise ScheduleError(f"cron: unknown alias {shown(expression)}{did_you_mean(word, ALIASES, cutoff=0.75)}")


def _six(parts: list[str]) -> list[str]:
    if len(parts) == 4:
        return [*parts, "*", "*"]
    return ["0", *parts] if len(parts) == 5 else parts


def _wrong_count(expression: str, count: int) -> str:
    hint = "; a year field is not supported" if count == 7 else ""
    return (
        f"cron: expected 5 fields ({_READINGS[5]}), or 6 with the second in front, "
        f"got {count} in {shown(expression)}{hint}"
    )


def _told(problems: list[str], six: list[str], reading: str) -> list[str]:
    """Return the problems as text for an error: as many as fit, then how the fields were read."""
    week = _week_of_month(six[3], six[5])
    told: list[str] = []
    for problem in problems:
        if told and sum(map(len, told)) + len(problem) > _MOST_PROBLEMS:
            break
        told.append(problem)
    if week:
        told = [f"{one.partition(': steps')[0]}; {week}" if one.startswith("day: ") else one for one in told]
    more = len(problems) - len(told)
    told[-1] += f", and {more} more field{'s' if more > 1 else ''}" if more else ""
    told[-1] += f" ({reading})"
    return told


def _week_of_month(day: str, weekday: str) -> str:
    """Return what to write for `*/100,1-7 * MON`, which Debian users write for the first Monday of a month."""
    found = re.fullmatch(r"\*/[0-9]{2,},([0-9]{1,2}-[0-9]{1,2})", day)
    if found is None or found[1] not in _WEEKS or not re.fullmatch(r"[A-Z]{3}|[0-7]", weekday):
        return ""
    nth = f"{weekday}#{_WEEKS[found[1]]}"
    return f"to run on days {found[1]} if it is {weekday}, write '*' as the day and {nth!r} as the weekday"


def _read_field(field: _Field, text: str, spread: str, problems: list[str]) -> str:
    """Return the field as `values_of` and `calendar.py` read it. Add its first problem to `problems`."""
    if text == "*":
        return text
    try:
        return ",".join(_read_term(field, _spread(field, term, spread)) for term in text.split(","))
    except ValueError as problem:
        problems.append(f"{field.name}: {problem}")
        return ""


def _spread(field: _Field, term: str, name: str) -> str:
    """Return the plain term that an `H` stands for, or any other term unchanged."""
    found = _SPREAD.fullmatch(term) if term.startswith("H") else None
    if found is None:
        return term
    low, high = field.low, field.widest
    if found[1] is not None:
        first, dash, last = found[1].partition("-")
        low, high = _read_value(field, first), _read_value(field, last) if dash else -1
        if not low <= high <= field.widest:
            raise ValueError(f"expected a range that goes up, from {field.low} to {field.widest}, in {shown(term)}")
    if found[2] is None:
        return str(low + draw(high - low + 1, name, field.name))
    _read_step(field, found[2])
    first_value = low + draw(min(int(found[2]), high - low + 1), name, field.name)
    return f"{first_value}-{high}/{found[2]}"


def _read_term(field: _Field, term: str) -> str:
    """Return the term in the form that is evaluated: `5-5/2` means 5 alone, `FRI#L` is `5L`, `29-L` is `29-31`."""
    if term == "?":
        raise ValueError("'?' is not supported; write '*', and weekdays by name (Quartz counts them from 1)")
    if field.name == "day" and (special := _read_nearest(term)):
        return special
    if field.name == "weekday" and (nth := OF_MONTH.fullmatch(term)):
        return _read_weekday_of_month(field, *nth.groups())
    base, slash, step = term.partition("/")
    if slash:
        _read_step(field, step)
    if base == "*":
        return term
    first, dash, last = base.partition("-")
    low = _read_value(field, first)
    if not dash:
        return term
    if field.name == "day" and last == "L":
        last = str(field.high)
    high = _read_value(field, last)
    return first if high == low else f"{first}-{last}{slash}{step}"


def _read_nearest(term: str) -> str | None:
    """Read a day with `L` or `W`. Return None if it has neither."""
    found = NEAREST.fullmatch(term)
    if found is None:
        if re.fullmatch(r"[0-9,-]+W", term):
            raise ValueError(f"expected one day before 'W', like '15W' or 'LW', got {shown(term)}")
        return None
    day, before, _ = found.groups()
    if day is not None:
        return f"{_read_value(_BY_NAME['day'], day)}W"
    if before is not None and not 1 <= int(before[1:]) <= 30:
        raise ValueError(f"expected 1 to 30 days before the last, like 'L-3', got {shown(term)}")
    return term


def _read_weekday_of_month(field: _Field, days: str, last: str | None, nth: str | None) -> str:
    first, dash, end = days.partition("-")
    span = str(_read_value(field, first)) + (f"-{_read_value(field, end)}" if dash else "")
    if last:
        return f"{span}L"
    if nth not in ("1", "2", "3", "4", "5"):
        raise ValueError(f"expected #1 to #5 or #L after the weekday, got {shown(f'#{nth}')}")
    return f"{span}#{nth}"


def _read_value(field: _Field, text: str) -> int:
    if text in field.names:
        return field.names.index(text) + field.low
    if _NUMBER.fullmatch(text):
        value = int(text)
        if field.low <= value <= field.high:
            return value
        raise ValueError(f"expected {field.expected}, got {text!r}")
    if field.name == "weekday" and text == "L":
        raise ValueError("'L' needs a weekday before it: '6L' or 'SATL' is the last Saturday of the month")
    near = did_you_mean(text, field.names) if field.names and text.isalpha() and len(text) < 20 else ""
    got = shown(text, most=20)
    raise ValueError(f"expected {field.expected}, a range 'a-b', a step '*/n' or a list of these, got {got}{near}")


def _read_step(field: _Field, text: str) -> None:
    if not _NUMBER.fullmatch(text) or int(text) == 0:
        raise ValueError(f"expected a step from 1 to {field.count} after '/', got {shown(text, most=20)}")
    if int(text) > field.count:
        units = {"second": "s", "minute": "m", "hour": "h", "day": "d"}
        steady = f"; for a steady rhythm use 'every {int(text)}{units[field.name]}'" if field.name in units else ""
        raise ValueError(
            f"expected a step from 1 to {field.count} after '/', got {text!r}: steps start again with each "
            f"{_OUTER[field.name]}{steady}"
        )


_OUTER = {
    "second": "minute", "minute": "hour", "hour": "day", "day": "month", "month": "year", "weekday": "week",
}  # fmt: skip
