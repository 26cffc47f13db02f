"""Patterns of the texts in a job, for its JSON Schema: lengths of time, points in time, schedules, sizes.

A pattern accepts everything that the reader accepts, and refuses what is plainly wrong. It is short, because editors
show it; so the reader refuses some texts that pass here, with a better message. Editors that know `patternErrorMessage`
(VS Code does) show that instead.
"""

from __future__ import annotations

from typing import Any

from onthedot.model.duration import LONGEST
from onthedot.schedules.cron_parser import ALIASES

Schema = dict[str, Any]

# Units are recognised by their first letter. The reader knows them exactly, and names the one that was meant.
_NUMBER = r"[0-9]+(\.[0-9]+)?"
DURATION = f"({_NUMBER} ?[WDHMSUwdhmsuµ][A-Za-z]* ?)+"
_DATE = "[0-9]{4}-[01][0-9]-[0-3][0-9]"
_TIME = r"[0-2][0-9]:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
_OFFSET = "(Z|[+-][01][0-9]:[0-5][0-9])"
LOCAL = f"{_DATE}([T ]{_TIME}{_OFFSET}?)?"
INSTANT = f"{_DATE}[T ]{_TIME}{_OFFSET}"


def any_case(word: str) -> str:
    """
    >>> any_case("Mo/1")
    '[mM][oO]/1'
    """
    return "".join(
        f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() and letter.isascii() else letter for letter in word
    )


def whole(pattern: str, expected: str = "") -> Schema:
    """A text that matches as a whole. `expected` is what an editor shows for another one."""
    schema: Schema = {"type": "string", "pattern": f"^({pattern})$"}
    return {**schema, "patternErrorMessage": f"Expected {expected}."} if expected else schema


def _field(value: str, *, joins: str = "-,(", ends: str = "") -> str:
    """A cron field: values between joining signs, with steps. The reader says more about what it does not take."""
    one = f"([*Hh{ends}]|{value})"
    return rf"{one}([{joins}]{one}|[){ends}]|/[0-9]+)*"


def _cron() -> str:
    aliases = "|".join(map(any_case, ALIASES))
    sixty, hour = _field("[0-5]?[0-9]"), _field("[01]?[0-9]|2[0-3]")
    day = _field("0?[1-9]|[12][0-9]|3[01]", ends="LlWw")
    month, weekday = _field("0?[1-9]|1[0-2]|[A-Za-z]{3}"), _field("0?[0-7]|[A-Za-z]{3}", joins="-,(#", ends="Ll")
    four = f"{sixty} +{sixty} +{hour} +{day}"
    return f"{aliases}|({sixty} +)?{sixty} +{hour} +{day} +{month} +{weekday}|{four}"


CRON = _cron()
_RHYTHM = f"({DURATION})( from {INSTANT})?"
_INSTANTS = f"{LOCAL}(, {LOCAL})*"
FORMS: dict[str, str] = {"cron": CRON, "every": _RHYTHM, "gap": _RHYTHM, "at": _INSTANTS, "in": DURATION}
"""By form: what stands after its name."""

_LINES = "|".join(f"({any_case(form)} +{pattern})" for form, pattern in FORMS.items() if form != "cron")
_CRON_TEXT = "'30 2 * * *' (minute hour day month weekday) or '@daily'"
EXPECTED: dict[str, str] = {
    "cron": f"a cron expression such as {_CRON_TEXT}",
    "every": "an interval such as '10m' or '1h30m from 2026-01-01T00:00Z'",
    "gap": "a length of time such as '10m'",
    "at": "a point in time such as '2026-12-24T18:00+01:00'",
    "in": "a length of time such as '10m'",
}
"""By form: what an editor expects after its name."""
SCHEDULE_LINE: Schema = {
    **whole(f"{CRON}|{_LINES}|{DURATION}", f"a schedule: {_CRON_TEXT}, 'every 10m', 'gap 10m', 'in 10m' or 'at …'"),
    "description": "A schedule on one line: a cron expression, 'every', 'gap', 'at' or 'in'.",
}
_DURATION_TEXT = whole(DURATION, "a length of time such as '90s', '1h30m' or '2 days'")

LENGTH: Schema = {
    "description": "A length of time above zero: '90s', '1h30m', '2 days', or a number of seconds.",
    "anyOf": [_DURATION_TEXT, {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST.total_seconds()}],
}
DELAY: Schema = {
    "description": "A length of time, or none: '0s'.",
    "anyOf": [_DURATION_TEXT, {"type": "number", "minimum": 0, "maximum": LONGEST.total_seconds()}],
}
_SIZE = r"[1-9][0-9]{0,11}(\.[0-9]{1,6})? ?[KMGTkmgt]?i?[bB]?"
SIZE: Schema = {
    "description": "An amount of bytes: 65536, '512M', '2GiB'.",
    "anyOf": [whole(_SIZE, "an amount of bytes such as '512M' or '2GiB'"), {"type": "integer", "minimum": 1}],
}
