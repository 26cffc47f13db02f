"""Translates cron expressions of other tools, with the same meaning. What cannot keep its meaning gets a note.

Ours has the rules of Debian's cron. Others differ in three places:

    random values   `30~`, `~20`, `10~40/5` (cronie, BSD)     H(30-59), H(0-20), H(10-40)/5
    day fields      `*/2 * 1` is "either" in Kubernetes       1-31/2 * 1: a field that starts with `*` is "both" in ours
    clock changes   fixed times in Kubernetes and systemd     `gap` and `fold`
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from onthedot.model.errors import ScheduleError
from onthedot.schedules import cron_fields

_RANDOM = re.compile(r"([0-9A-Za-z]*)~([0-9A-Za-z]*)(/[0-9]+)?")
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_WIDEST = {"day": 28, "weekday": 6}  # the highest values that H takes
_STAR = re.compile(r"[*?](?:/0*1)?")
_DAY, _WEEKDAY = 2, 4


class Translated(NamedTuple):
    """An expression in our dialect, with notes about it."""

    expression: str
    notes: tuple[str, ...] = ()


def from_crontab(expression: str) -> Translated:
    """A crontab's five fields. A random value there becomes one that the job's name chooses.

    >>> from_crontab("30~ 3 * * *").expression, from_crontab("~20,45 ~/6 * * *").expression
    ('H(30-59) 3 * * *', 'H(0-20),45 H/6 * * *')
    """
    fields = expression.split()
    if "~" not in expression or len(fields) != 5:
        return Translated(expression)
    notes: list[str] = []
    made = [
        ",".join(_spread(term, *field, notes) for term in text.split(","))
        for text, field in zip(fields, _FIELDS, strict=True)
    ]
    return Translated(" ".join(made), tuple(notes))


def _spread(term: str, name: str, low: int, high: int, notes: list[str]) -> str:
    found = _RANDOM.fullmatch(term)
    if found is None:
        return term
    step, most = found[3] or "", _WIDEST.get(name, high)
    if not found[1] and not found[2]:
        made = f"H{step}"
        if most != high and name == "day":
            notes.append(f"'{term}': a random {name} there, up to {high}; here '{made}', {most} at the most")
            return made
    else:
        first, last = found[1] or str(low), found[2] or str(high)
        if last.isdigit() and most < int(last) <= high:
            if first.isdigit() and int(first) > most:
                notes.append(f"'{term}': a random {name} there; here always {first}: 'H' goes up to {most}")
                return first
            if name == "day":
                notes.append(f"'{term}': a random {name} there; here {most} at the most, which every month has")
            last = str(most)
        made = f"H({first}-{last}){step}"
    notes.append(f"'{term}': a random {name} there; here '{made}', which the job's name chooses and which stays")
    return made


def from_kubernetes(expression: str) -> Translated:
    """The five fields of a CronJob. There, days and weekdays both count if one of them is `*` (or `?`, or has one of
    these in its list); a step such as `*/2` is no `*`, and either one suffices.

    >>> from_kubernetes("0 0 */2 * 1").expression, from_kubernetes("0 0 1,* * 1").expression
    ('0 0 1-31/2 * 1', '0 0 * * 1')
    """
    fields = expression.split()
    if len(fields) != 5:
        return Translated(expression)
    days = (fields[_DAY], fields[_WEEKDAY])
    any_day, any_weekday = map(_is_star, days)
    fields = [text.replace("?", "*") for text in fields]
    if any_day:
        fields[_DAY] = "*"
    if any_weekday:
        fields[_WEEKDAY] = "*"
    if not any_day and not any_weekday:
        fields[_DAY] = _without_star(fields[_DAY], "1-31")
        fields[_WEEKDAY] = _without_star(fields[_WEEKDAY], "0-6")
    made = " ".join(fields)
    changed = (fields[_DAY], fields[_WEEKDAY]) != tuple(text.replace("?", "*") for text in days)
    note = f"'{expression}': written as '{made}', which means the same here"
    return Translated(made, (note,) if changed else ())


def _is_star(field: str) -> bool:
    return any(_STAR.fullmatch(term) for term in field.split(","))


def _without_star(field: str, whole: str) -> str:
    """The same values; a field that starts with `*` would want the other day field to match, too."""
    return ",".join(f"{whole}{term[1:]}" if term.startswith("*") else term for term in field.split(","))


def has_fixed_time(expression: str) -> bool:
    """Whether clock changes leave out or repeat single times of it: neither minute nor hour starts with `*`.

    >>> has_fixed_time("30 2 * * *"), has_fixed_time("*/5 2 * * *"), has_fixed_time("nonsense")
    (True, False, False)
    """
    try:
        fields = cron_fields(expression)
    except ScheduleError:
        return False  # it is refused later, with its reason
    return not (fields["minute"].startswith("*") or fields["hour"].startswith("*"))


def with_clock_rules(schedule: dict[str, Any], **rules: str) -> dict[str, Any]:
    """A schedule of our files with what becomes of its times when clocks change, if that can happen to it.

    >>> with_clock_rules({"cron": "30 2 * * *", "tz": "Europe/Berlin"}, gap="skip")
    {'cron': '30 2 * * *', 'tz': 'Europe/Berlin', 'gap': 'skip'}
    >>> with_clock_rules({"cron": "30 2 * * *"}, gap="skip")
    {'cron': '30 2 * * *'}
    """
    if schedule.get("tz", "UTC") == "UTC" or not has_fixed_time(str(schedule.get("cron", ""))):
        return schedule
    return {**schedule, **rules}
