"""Patterns of the texts in a job, for its JSON Schema: lengths of time, instants, schedules, sizes.

A pattern lets pass what the reader takes, in the usual spellings. It cannot know everything (whether a date exists,
whether four fields are wanted): what passes here may still be refused when it is read, with a better reason.
"""

from __future__ import annotations

from typing import Any

from onthedot.model.duration import LONGEST
from onthedot.schedules.fields import ALIASES

Schema = dict[str, Any]

# How many of a unit are no more than a century. Sums of them may be; that is told when they are read.
_MOST = {
    "w|week|weeks": "[1-5]?[0-9]{1,3}",
    "d|day|days": "[1-3]?[0-9]{1,4}",
    "h|hr|hrs|hour|hours": "[1-8]?[0-9]{1,5}",
    "m|min|mins|minute|minutes": "[1-5]?[0-9]{1,7}",
    "s|sec|secs|second|seconds": "[1-3]?[0-9]{1,9}",
    "ms|msec|millisecond|milliseconds": "[0-9]{1,12}",
    "us|µs|microsecond|microseconds": "[0-9]{1,15}",
}
_DATE = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
_OFFSET = "(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])"
LOCAL = f"{_DATE}([T ]{_TIME}{_OFFSET}?)?"
INSTANT = f"{_DATE}[T ]{_TIME}{_OFFSET}"

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def any_case(word: str) -> str:
    """
    >>> any_case("Mo/1")
    '[mM][oO]/1'
    """
    return "".join(
        f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() and letter.isascii() else letter for letter in word
    )


def _duration() -> str:
    parts = []
    for words, most in _MOST.items():
        spelled = "|".join(any_case(word) for word in words.split("|"))
        parts.append(rf"({most}(\.[0-9]{{1,6}})? ?({spelled}))")
    one = f"({'|'.join(parts)})"
    return f"{one}( ?{one})*"


DURATION = _duration()


def whole(pattern: str) -> Schema:
    """A text that is this and nothing more."""
    return {"type": "string", "pattern": f"^({pattern})$"}


def _cron() -> str:
    aliases = "|".join(any_case(alias) for alias in ALIASES)
    ranges = {
        "second": "0?[0-9]|[1-5][0-9]",
        "minute": "0?[0-9]|[1-5][0-9]",
        "hour": "0?[0-9]|1[0-9]|2[0-3]",
        "day": "0?[1-9]|[12][0-9]|3[01]",
        "month": "|".join(("0?[1-9]|1[0-2]", *map(any_case, _MONTHS))),
        "weekday": "|".join(("0?[0-7]", *map(any_case, _WEEKDAYS))),
    }
    weekday = ranges["weekday"]
    special = {
        "day": f"|[lL](-(0?[1-9]|[12][0-9]|30))?[wW]?|({ranges['day']})[wW]|({ranges['day']})-[lL](/0*[1-9][0-9]?)?",
        "weekday": f"|({weekday})(-({weekday}))?(#?[lL]|#[1-5])",
    }
    fields = {}
    for name, value in ranges.items():
        base = rf"(\*|({value})(-({value}))?|[hH](\(({value})-({value})\))?)(/0*[1-9][0-9]?)?"
        term = f"({base}{special.get(name, '')})"
        fields[name] = f"{term}(,{term})*"
    orders = (
        ("second", "minute", "hour", "day"),
        ("minute", "hour", "day", "month", "weekday"),
        ("second", "minute", "hour", "day", "month", "weekday"),
    )
    lines = (" +".join(f"({fields[name]})" for name in order) for order in orders)
    return f"{aliases}|{'|'.join(f'({line})' for line in lines)}"


CRON = _cron()
_RHYTHM = f"({DURATION})( from {INSTANT})?"
_INSTANTS = f"{LOCAL}(, {LOCAL})*"
FORMS: dict[str, str] = {"cron": CRON, "every": _RHYTHM, "gap": _RHYTHM, "at": _INSTANTS, "in": DURATION}
"""By form: what stands after its name."""

_LINES = "|".join(f"({any_case(form)} +{pattern})" for form, pattern in FORMS.items() if form != "cron")
SCHEDULE_LINE = whole(f"{CRON}|{_LINES}|{DURATION}")

LENGTH: Schema = {
    "description": "A length of time above zero: '90s', '1h30m', '2 days', or a number of seconds.",
    "anyOf": [whole(DURATION), {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST.total_seconds()}],
}
DELAY: Schema = {
    "description": "A length of time, or none: '0s'.",
    "anyOf": [whole(DURATION), {"type": "number", "minimum": 0, "maximum": LONGEST.total_seconds()}],
}
SIZE: Schema = {
    "description": "An amount of bytes: 65536, '512M', '2GiB'.",
    "anyOf": [whole(r"[1-9][0-9]{0,11}(\.[0-9]{1,6})? ?[KMGTkmgt]?i?[bB]?"), {"type": "integer", "minimum": 1}],
}
