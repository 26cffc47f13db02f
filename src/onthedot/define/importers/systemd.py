"""Imports timers of systemd, each with the service that it starts.

A timer never starts a service that is running, so slots overlap as `skip`. Without `Persistent=true` nothing is caught
up. `OnUnitInactiveSec` counts from the end of the last run, and becomes `gap`. As in systemd, a time that a clock
change leaves out does not run, and one that it repeats runs once.

Calendar events (`Mon..Fri *-*-* 02:30:00 Europe/Berlin`) become our schedules:

    [weekdays] [[year-]month-day] [hour:minute[:second]] [zone]

A value is a number, a range `a..b`, a step `a/n`, a list of these, or `*`; `~` in a date counts from the month's end.
If an event has a date and weekdays, systemd wants both and cron either: what cron cannot express is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from onthedot.define.importers.cron_dialects import has_fixed_time, with_clock_rules
from onthedot.define.importers.import_result import ImportResult, as_it_is, runs_as
from onthedot.model.duration import format_duration, parse_duration
from onthedot.model.errors import DefinitionError

_SPAN = re.compile(r"([0-9.]+)\s*([a-zA-Zµ]*)\s*")
_UNITS = {"": "s", "M": "month", "months": "month", "y": "year", "years": "year", "usec": "us", "msec": "ms"}
_LONG = {"month": 30.44 * 86_400, "year": 365.25 * 86_400}
_QUIET = frozenset({
    "Description", "Documentation", "After", "Requires", "Wants", "WantedBy", "Also", "Type", "Unit", "OnCalendar",
    "OnUnitActiveSec", "OnUnitInactiveSec", "RandomizedDelaySec", "Persistent", "ExecStart", "ExecStartPre",
    "ExecStartPost", "WorkingDirectory", "Environment", "MemoryMax", "MemoryLimit", "TasksMax", "RuntimeMaxSec",
    "TimeoutStartSec", "TimeoutSec", "User", "FixedRandomDelay", "SyslogIdentifier", "StandardOutput", "StandardError",
})  # fmt: skip
_APART = re.compile(
    r"(?:Private|Protect|Restrict|SystemCall|Capability|Ambient|Inaccessible|ReadOnly|ReadWrite)[A-Za-z]+"
    r"|LockPersonality|NoNewPrivileges|MemoryDenyWriteExecute|RemoveIPC|DynamicUser|UMask|KeyringMode|ProcSubset"
)
_STARTS = ("OnBootSec", "OnStartupSec", "OnActiveSec", "OnClockChange", "OnTimezoneChange")
_WHY = {
    "OnBootSec": "it counts from the start of the machine",
    "OnStartupSec": "it counts from the start of systemd",
    "OnActiveSec": "it counts from when the timer was activated",
    "EnvironmentFile": "put what is in it into env, or its secrets into 'onthedot secret set NAME'",
    "AccuracySec": "runs start on the dot",
    "Restart": "say 'retry: 3' if a run is to be tried again",
}


_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|\$)")
_VARIABLE_WORD = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


class Entry(NamedTuple):
    """One assignment of a unit file."""

    section: str
    key: str
    value: str
    line: int


def read_timers(units: Mapping[str, str], *, tz: str = "UTC") -> list[ImportResult]:
    """The jobs of unit files, by file name: of each `.timer`, with the `.service` that it names, or of its own name.

    >>> timer = "[Timer]\\nOnCalendar=daily\\nPersistent=true"
    >>> service = "[Service]\\nExecStart=/usr/bin/backup --all"
    >>> [found] = read_timers({"backup.timer": timer, "backup.service": service})
    >>> found.jobs[0].task.argv, found.jobs[0].catch_up.mode
    (('/usr/bin/backup', '--all'), 'last')
    """
    by_name = {name.rsplit("/", 1)[-1]: name for name in units}
    return [_read_timer(name, units, by_name, tz) for name in units if name.endswith(".timer")]


def entries(text: str) -> Iterator[Entry]:
    """The assignments of a unit file. Continued lines are joined."""
    section, kept, began = "", "", 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not kept and (not bare or bare[0] in "#;"):
            continue
        if kept and bare[:1] in ("#", ";"):
            continue
        began = began or number
        if line.rstrip().endswith("\\"):
            kept += line.rstrip()[:-1] + " "
            continue
        whole, kept = (kept + line).strip(), ""
        if whole.startswith("[") and whole.endswith("]"):
            section = whole[1:-1]
        elif "=" in whole:
            key, _, value = whole.partition("=")
            yield Entry(section, key.strip(), value.strip(), began)
        began = 0


def _read_timer(file: str, units: Mapping[str, str], by_name: Mapping[str, str], tz: str) -> ImportResult:
    found = ImportResult(file)
    timer = _settings(list(entries(units[file])))
    stem = file.rsplit("/", 1)[-1].removesuffix(".timer")
    named = timer["Unit"][-1].value if "Unit" in timer else f"{stem}.service"
    if named not in by_name:
        found.lose(None, f"expected the service {named} beside it, found none; give both files")
        return found
    service_file = by_name[named]
    service = _settings(list(entries(units[service_file])))
    apart = ImportResult(service_file)
    job: dict[str, Any] = {
        "name": stem,
        "overlap": "skip",
        "catch_up": _catch_up(timer),
        "schedule": _schedules(found, timer, tz),
    }
    job |= _service(apart, service)
    for unit, remarks in ((timer, found), (service, apart)):
        _rest(remarks, unit, has_time=bool(job["schedule"]))
    if job["schedule"] and ("argv" in job or "steps" in job):
        found.add(1, job)
    elif not job["schedule"]:
        found.lose(None, "no time of it can be kept here")
    found.remarks += apart.remarks
    found.lost += apart.lost
    found.incomplete += apart.incomplete
    return found


def _rest(found: ImportResult, unit: Mapping[str, list[Entry]], *, has_time: bool) -> None:
    """Add remarks for settings that nobody reads. Isolation settings share one remark, because hardened units have
    dozens.
    """
    apart = [values[-1] for key, values in unit.items() if _APART.fullmatch(key)]
    if apart:
        named = ", ".join(entry.key for entry in apart)
        found.remark(apart[0].line, f"{named}: see 'isolation' and 'bounds' for how a program is kept apart; not kept")
    for key, values in unit.items():
        if key in _QUIET or _APART.fullmatch(key):
            continue
        text = f"{key}={values[-1].value[:80]}: {_WHY.get(key, 'there is no such thing here')}"
        if key in _STARTS and not has_time:
            found.lose(values[-1].line, text)
        else:
            found.remark(values[-1].line, f"{text}; not kept")


def _settings(given: list[Entry]) -> dict[str, list[Entry]]:
    """Return the values by key. An empty value removes the earlier ones."""
    found: dict[str, list[Entry]] = {}
    for entry in given:
        if entry.value:
            found.setdefault(entry.key, []).append(entry)
        else:
            found.pop(entry.key, None)
    return found


# ── when ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _catch_up(timer: Mapping[str, list[Entry]]) -> str:
    on = timer["Persistent"][-1].value.lower() if "Persistent" in timer else "no"
    return "last" if on in ("true", "yes", "on", "1", "t", "y") else "none"


def _schedules(found: ImportResult, timer: Mapping[str, list[Entry]], tz: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for entry in timer.get("OnCalendar", []):
        try:
            made.append(_calendar(found, entry, tz))
        except CannotSay as error:
            found.lose(entry.line, f"OnCalendar={entry.value}: {error}")
    for key, form in (("OnUnitActiveSec", "every"), ("OnUnitInactiveSec", "gap")):
        for entry in timer.get(key, []):
            length = _span(found, entry)
            if length:
                made.append({form: length})
                if form == "every":
                    found.remark(entry.line, f"{key}: every {length}, counted from 1970, not from the last start")
    jitter = _span(found, timer["RandomizedDelaySec"][-1]) if "RandomizedDelaySec" in timer else ""
    for one in made:
        if jitter and ("cron" in one or "gap" not in one):  # cron has a rule of that name
            one["jitter"] = jitter
    return made


def _calendar(found: ImportResult, entry: Entry, tz: str) -> dict[str, Any]:
    schedule = read_calendar(entry.value, tz)
    found.zone_assumed |= not names_zone(entry.value)
    where = schedule.get("tz", "UTC")
    if "cron" in schedule and where != "UTC" and not has_fixed_time(schedule["cron"]):
        found.remark(entry.line, f"OnCalendar={entry.value}: systemd leaves out the hour that a clock change repeats; "
                                 "here it runs on")  # fmt: skip
    return with_clock_rules(schedule, gap="skip")


def _span(found: ImportResult, entry: Entry) -> str:
    """A length of time as systemd writes it: `5min 20s`, `1h`, `90`, `1month`."""
    seconds, rest = 0.0, entry.value
    while part := _SPAN.match(rest):
        word = _UNITS.get(part[2], part[2])
        try:
            number = float(part[1])
            seconds += (
                number * _LONG[word]
                if word in _LONG
                else parse_duration(f"{part[1]}{word}").total_seconds()
                if number
                else 0
            )
        except (ValueError, DefinitionError):
            break
        rest = rest[part.end() :]
    if rest or not seconds:
        if rest:
            found.remark(
                entry.line, f"{entry.key}: expected a length of time such as '5min', got {entry.value!r}; not kept"
            )
        return ""
    return format_duration(round(seconds * 1_000_000))


# ── what ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _service(found: ImportResult, service: Mapping[str, list[Entry]]) -> dict[str, Any]:
    commands = [entry for key in ("ExecStartPre", "ExecStart", "ExecStartPost") for entry in service.get(key, [])]
    env = _environment(found, service)
    programs = [(entry, _argv(found, entry, env)) for entry in commands]
    job: dict[str, Any] = {"env": {name: as_it_is(value) for name, value in env.items()}}
    directory = service["WorkingDirectory"][-1].value.lstrip("-") if "WorkingDirectory" in service else ""
    if directory.startswith("/"):
        job["directory"] = directory
    elif directory:
        found.remark(service["WorkingDirectory"][-1].line, f"WorkingDirectory={directory}: expected a path; not kept")
    if "ExecStart" not in service:
        found.lose(None, "expected ExecStart, found none: there is nothing to be done")
    elif len(programs) == 1:
        job["argv"] = programs[0][1]
    else:
        job |= {"steps": [_step(number, argv, directory) for number, (_, argv) in enumerate(programs, 1)]}
        job.pop("directory", None)
    for key in ("RuntimeMaxSec", "TimeoutStartSec", "TimeoutSec"):
        if key in service and service[key][-1].value != "infinity" and "timeout" not in job:
            job["timeout"] = _span(found, service[key][-1])
    if "User" in service:
        user = service["User"][-1]
        job["owner"] = user.value
        found.remark(user.line, runs_as(user.value))
    return {**job, "bounds": _bounds(found, service)}


def _step(number: int, argv: list[str], directory: str) -> dict[str, Any]:
    name = f"{number} {argv[0].rsplit('/', 1)[-1]}" if argv else str(number)
    return {"name": name[:100], "argv": argv, **({"directory": directory} if directory.startswith("/") else {})}


def _argv(found: ImportResult, entry: Entry, env: Mapping[str, str]) -> list[str]:
    text = entry.value
    prefix = re.match(r"[-@:+!|]*", text)
    if prefix is not None and prefix[0]:
        text = text[prefix.end() :]
        if "-" in prefix[0]:
            found.remark(entry.line, f"{entry.key}=-…: a failure of it is passed over there, but not here")
        if set(prefix[0]) & set("+!@|"):
            found.remark(entry.line, f"{entry.key}={prefix[0]}…: its mark says how it is started; not kept")
    try:
        words = shlex.split(text)
    except ValueError as error:
        found.remark(entry.line, f"{entry.key}: expected words with quotes that end, but {error}")
        words = text.split()
    if prefix is None or ":" not in prefix[0]:  # ':' turns variables off
        words = [one for word in words for one in _filled(found, entry, word, env)]
    if re.search(r"(?<!%)%(?!%)[A-Za-z]", text):
        found.remark(entry.line, f"{entry.key}: specifiers such as %i mean nothing here: write what they stand for")
    return [as_it_is(word.replace("%%", "%")) for word in words]


def _filled(found: ImportResult, entry: Entry, word: str, env: Mapping[str, str]) -> Iterator[str]:
    """A word with its variables, as systemd fills them in: `${NAME}` anywhere, and `$NAME` as a word of its own, which
    becomes as many words as its value has."""
    alone = _VARIABLE_WORD.fullmatch(word)
    if alone is not None and alone[1] in env:
        yield from env[alone[1]].split()
        return
    names = [alone[1]] if alone is not None else [match[1] for match in _VARIABLE.finditer(word) if match[1]]
    for name in sorted({name for name in names if name not in env}):
        found.complete(entry.line, f"{entry.key}: ${name} is not set in this unit: write its value in its place")
    yield _VARIABLE.sub(lambda match: env.get(match[1], match[0]) if match[1] else "$", word)


def _environment(found: ImportResult, service: Mapping[str, list[Entry]]) -> dict[str, str]:
    env: dict[str, str] = {}
    for entry in service.get("Environment", []):
        try:
            words = shlex.split(entry.value)
        except ValueError:
            words = []
            found.remark(entry.line, f"Environment: expected NAME=value, got {entry.value!r}; not kept")
        env |= {name: value for name, _, value in (word.partition("=") for word in words)}
    return env


def _bounds(found: ImportResult, service: Mapping[str, list[Entry]]) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for key in ("MemoryMax", "MemoryLimit"):
        if key in service:
            value = service[key][-1].value
            if re.fullmatch(r"[0-9]+[KMGT]?", value):
                bounds["memory"] = value
            else:
                found.remark(service[key][-1].line, f"{key}={value}: expected bytes such as 512M; not kept")
    if "TasksMax" in service and service["TasksMax"][-1].value.isdigit():
        bounds["processes"] = int(service["TasksMax"][-1].value)
    return bounds


# ── calendar events ────────────────────────────────────────────────────────────────────────────────────────────

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
    """Return the instant of an event that means exactly one."""
    numbers = (date["year"], date["month"], date["day"], time["hour"], time["minute"], time["second"] or "0")
    if weekdays or date["mark"] == "~" or not all(number.isdigit() for number in numbers):
        raise CannotSay(f"a year is said, and it is more than one instant: got {text!r}")
    year, month, day, hour, minute, second = map(int, numbers)
    at = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
    return {"at": at, "tz": tz}
