"""Cron text as six fields: aliases, field counts, names, ranges, and errors that name the field.

    fields   reading
    4        second minute hour day                     month and weekday are *
    5        minute hour day month weekday              second is 0
    6        second minute hour day month weekday

A field is `*`, a value, a range `a-b`, any of these with a step `/n`, or a list with commas. Months and weekdays
have names. The day may be `L` (the last) or `LW` (the last from Monday to Friday); a weekday may be `5L` (the last
Friday) or `5#2` (the second Friday). When neither day nor weekday starts with `*`, either one suffices; otherwise
both must match. Nothing here knows about time zones or loads cronsim.

`H` is one value of the field, which the job's name chooses (`spread.py`), so that a thousand jobs at `H * * * *` do not
start in one minute. `H(0-29)` is one of these; `H/15` and `H(0-29)/10` are steps from such a value on. As a day, `H` is
28 at the most: every month has that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from onthedot.errors import ScheduleError, did_you_mean
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
LONGEST_EXPRESSION = 1_000  # characters: all fields as full lists of numbers take some 500

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        named = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.low}-{self.high}{named}"

    @property
    def count(self) -> int:
        """How many different values there are; Sunday is both 0 and 7."""
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
_READINGS = {
    4: "second minute hour day",
    5: "minute hour day month weekday",
    6: "second minute hour day month weekday",
}


def tidy(expression: str) -> str:
    """The expression with single spaces, if it is text of a bearable length.

    >>> tidy(" 0  12 * * * ")
    '0 12 * * *'
    """
    if not isinstance(expression, str):
        raise ScheduleError(f"cron: expected text like '30 2 * * *', got {type(expression).__name__} {expression!r}")
    if len(expression) > LONGEST_EXPRESSION:
        raise ScheduleError(f"cron: expected at most {LONGEST_EXPRESSION} characters, got {len(expression)}")
    return " ".join(expression.split())


def read_fields(expression: str, spread: str = "") -> tuple[str, ...]:
    """The six fields in capitals, second first, checked one by one; `ScheduleError` lists every bad field. Where they
    say `H`, they have what it stands for under the name `spread`.

    >>> read_fields("30 2 * * mon-fri")
    ('0', '30', '2', '*', '*', 'MON-FRI')
    """
    parts = _expand_alias(tidy(expression)).upper().split()
    if len(parts) not in _READINGS:
        raise ScheduleError(_wrong_count(expression, len(parts)))
    problems: list[str] = []
    pairs = zip(_FIELDS, _six(parts), strict=True)
    fields = tuple(_read_field(field, text, spread, problems) for field, text in pairs)
    if problems:
        reading = f"{expression!r} was read as {_READINGS[len(parts)]!r}"
        raise ScheduleError([f"{problem} ({reading})" for problem in problems])
    return fields


def cron_fields(expression: str, spread: str = "") -> dict[str, str]:
    """Which text was read as which field, so that a reading can be shown back before anyone relies on it.

    >>> cron_fields("30 15 2 1")
    {'second': '30', 'minute': '15', 'hour': '2', 'day': '1', 'month': '*', 'weekday': '*'}
    """
    return {field.name: text for field, text in zip(_FIELDS, read_fields(expression, spread), strict=True)}


def _expand_alias(expression: str) -> str:
    word = expression.lower()
    if not word.startswith("@"):
        return expression
    if word in ALIASES:
        return ALIASES[word]
    if word == "@reboot":
        raise ScheduleError("cron: '@reboot' names no time; run the job from the program's start instead")
    if word.startswith("@every"):
        raise ScheduleError(f"cron: {expression!r} is an interval; write it without '@', like 'every 5m'")
    raise ScheduleError(f"cron: unknown alias {expression!r}{did_you_mean(word, ALIASES)}")


def _six(parts: list[str]) -> list[str]:
    if len(parts) == 4:
        return [*parts, "*", "*"]
    return ["0", *parts] if len(parts) == 5 else parts


def _wrong_count(expression: str, count: int) -> str:
    known = "; ".join(f"{number}: {reading}" for number, reading in sorted(_READINGS.items()))
    hint = "; a year field is not supported" if count == 7 else ""
    return f"cron: expected 4, 5 or 6 fields ({known}), got {count} in {expression!r}{hint}"


def _read_field(field: _Field, text: str, spread: str, problems: list[str]) -> str:
    terms = []
    for term in text.split(","):
        try:
            terms.append(_read_term(field, _spread(field, term, spread)))
        except ValueError as problem:
            problems.append(f"{field.name}: {problem}")
    return ",".join(terms)


def _spread(field: _Field, term: str, name: str) -> str:
    """The plain term that an `H` stands for; any other term as it is."""
    found = re.fullmatch(r"H(?:\(([^()]*)\))?(?:/(.*))?", term)
    if found is None:
        return term
    low, high = field.low, field.widest
    if found[1] is not None:
        first, dash, last = found[1].partition("-")
        low, high = _read_value(field, first), _read_value(field, last) if dash else -1
        if not low <= high <= field.widest:
            raise ValueError(f"expected a range that goes up, from {field.low} to {field.widest}, in {term!r}")
    if found[2] is None:
        return str(low + draw(high - low + 1, name, field.name))
    _read_step(field, found[2])
    first_value = low + draw(min(int(found[2]), high - low + 1), name, field.name)
    return f"{first_value}-{high}/{found[2]}"


def _read_term(field: _Field, term: str) -> str:
    """The term as cronsim must get it: `5-5/2` means 5 alone, and a range up to `SUN` ends at 7."""
    if term == "?":
        raise ValueError("'?' is not supported; write '*'")
    if field.name == "day" and term in ("L", "LW"):
        return term
    if field.name == "weekday" and (special := re.fullmatch(r"(\w+?)(?:(L)|#([0-9]+))", term)):
        return _read_weekday_of_month(field, *special.groups())
    base, slash, step = term.partition("/")
    if slash:
        _read_step(field, step)
    if base == "*":
        return term
    first, dash, last = base.partition("-")
    low = _read_value(field, first)
    if not dash:
        return term
    high = _read_value(field, last)
    if last == "SUN" and low > 0:
        high, last = 7, "7"
    if high < low:
        raise ValueError(
            f"expected a range that goes up, got {base!r}; write {first}-{field.high},{field.low}-{last} to wrap around"
        )
    return first if high == low else f"{first}-{last}{slash}{step}"


def _read_weekday_of_month(field: _Field, day: str, last: str | None, nth: str | None) -> str:
    value = _read_value(field, day)
    if last:
        return f"{value}L"
    if nth is None or nth not in ("1", "2", "3", "4", "5"):
        raise ValueError(f"expected #1 to #5 after the weekday, got {'#' + str(nth)!r}")
    return f"{value}#{nth}"


def _read_value(field: _Field, text: str) -> int:
    if text in field.names:
        return field.names.index(text) + field.low
    if re.fullmatch(r"[0-9]{1,9}", text):
        value = int(text)
        if field.low <= value <= field.high:
            return value
        raise ValueError(f"expected {field.expected}, got {text!r}")
    near = did_you_mean(text, field.names) if field.names and text.isalpha() else ""
    raise ValueError(f"expected {field.expected}, a range 'a-b', a step '*/n' or a list of these, got {text!r}{near}")


def _read_step(field: _Field, text: str) -> None:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise ValueError(f"expected a step from 1 to {field.count} after '/', got {text!r}")
    if int(text) > field.count:
        raise ValueError(
            f"expected a step from 1 to {field.count} after '/', got {text!r}: steps start anew with each field's "
            "range; for a steady rhythm use 'every', like 'every 90m'"
        )
