"""A crontab, of a user or of the system, as jobs.

Kept as cron has it: nothing is caught up after an outage, and runs may overlap. `%` in a command begins its standard
input, as there. A random minute (`0~59`) becomes `H(0-59)`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Any

from onthedot.define.importing.imported import Imported, as_it_is

_VARIABLE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|\"[^\"]*\"|'[^']*')\s*=\s*(.*?)\s*")
_JOB = re.compile(r"\s*(@\S+|(?:\S+\s+){4}\S+)\s+(.*)", re.DOTALL)
_USER = re.compile(r"(-?[a-z_][a-z0-9_-]*)\s+(\S.*)", re.DOTALL)
_HEADER = re.compile(r"#.*\bm\b.*\bh\b.*\buser\b", re.IGNORECASE)
_RANDOM = re.compile(r"([0-9]*)~([0-9]*)")
_STDIN = re.compile(r"(?<!\\)%")
_NO_NAMES = frozenset({"cd", "test", "[", "]", "{", "nice", "ionice", "sudo", "exec", "flock", "&&", "||", ";"})
_IGNORED = {
    "MAILTO": "mail is not sent: look at 'onthedot dead list', or let a hook tell you",
    "MAILFROM": "mail is not sent",
    "LOGNAME": "",
    "USER": "",
}


@dataclass
class _State:
    """What the lines above have set."""

    tz: str
    shell: str = "/bin/sh"
    home: str = ""
    jitter: str = ""
    env: dict[str, str] = field(default_factory=dict)


def read_crontab(text: str, file: str = "crontab", *, tz: str = "UTC", system: bool | None = None) -> Imported:
    """The jobs of a crontab. `system`: whether its lines name a user; None: as the file looks.

    >>> found = read_crontab("30 2 * * * /usr/bin/backup --all\\n@reboot /usr/bin/once")
    >>> found.jobs[0].name, found.jobs[0].task.script
    ('backup', '/usr/bin/backup --all')
    >>> str(found.remarks[-1])
    "crontab:2:1: '@reboot' names no time: start it with the machine (systemd), or when a program starts"
    """
    found = Imported(file)
    named = _names_users(text, file) if system is None else system
    state = _State(tz)
    if tz == "UTC":
        found.remark(None, "cron goes by the local time of its machine: UTC is assumed; --tz says another zone")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        variable = _VARIABLE.fullmatch(line)  # no field of a job line begins with a letter before '='
        if variable is None:
            _add(found, state, number, line, named)
        else:
            _set(found, state, number, variable[1].strip("\"'"), _unquoted(variable[2]))
    return found


def _names_users(text: str, file: str) -> bool:
    """Where it lies, or what its header says."""
    parts = file.replace("\\", "/").split("/")
    return file.endswith("/etc/crontab") or "cron.d" in parts[:-1] or _HEADER.search(text) is not None


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _set(found: Imported, state: _State, line: int, name: str, value: str) -> None:
    match name:
        case "CRON_TZ":
            state.tz = value
        case "SHELL":
            state.shell = value
        case "HOME":
            state.home = value
        case "RANDOM_DELAY":
            state.jitter = f"{value}m" if value.isdigit() and int(value) else ""
        case _ if name in _IGNORED:
            if _IGNORED[name] and value:
                found.remark(line, f"{name}: {_IGNORED[name]}")
        case _:
            state.env[name] = as_it_is(value)


def _add(found: Imported, state: _State, number: int, line: str, named: bool) -> None:
    parts = _JOB.fullmatch(line)
    if parts is None:
        found.remark(number, f"expected five fields and a command, got {line.strip()[:80]!r}; left out")
        return
    when, command = " ".join(parts[1].split()), parts[2].rstrip()
    owner = ""
    if named:
        user = _USER.fullmatch(command)
        if user is None:
            found.remark(number, f"expected a user and a command after the fields, got {command[:80]!r}; left out")
            return
        owner, command = user[1].lstrip("-"), user[2]
        found.remark(number, f"it runs as {owner} there: here as the user of its worker; {owner} becomes its owner")
    if when.lower() == "@reboot":
        found.remark(number, "'@reboot' names no time: start it with the machine (systemd), or when a program starts")
        return
    script, stdin = _with_stdin(command)
    schedule: dict[str, Any] = {"cron": _cron(when)}
    if state.tz != "UTC":
        schedule["tz"] = state.tz
    if state.jitter:
        schedule["jitter"] = state.jitter
    usual = state.shell in ("/bin/sh", "sh")
    found.add(number, {
        "name": _name(script), "owner": owner, "schedule": schedule if len(schedule) > 1 else schedule["cron"],
        "run": script if usual else None, "argv": None if usual else [state.shell, "-c", as_it_is(script)],
        "stdin": stdin, "directory": state.home, "env": dict(state.env), "catch_up": "none", "overlap": "allow",
    })  # fmt: skip


def _cron(when: str) -> str:
    """The same fields; a random value is one that the job's name chooses."""

    def spread(found: re.Match[str]) -> str:
        return f"H({found[1]}-{found[2]})" if found[1] and found[2] else "H"

    return _RANDOM.sub(spread, when)


def _with_stdin(command: str) -> tuple[str, str]:
    """The first `%` ends the command; the others are line breaks of its input."""
    script, *lines = _STDIN.split(command)
    stdin = "\n".join(lines) + "\n" if lines else ""
    return script.strip().replace("\\%", "%"), stdin.replace("\\%", "%")


def _name(script: str) -> str:
    """By the program that it starts."""
    try:
        words = shlex.split(script)
    except ValueError:
        words = script.split()
    for before, word in zip(["", *words], words, strict=False):
        if "=" in word or word in _NO_NAMES or before == "cd" or word.startswith("-") or word.endswith("/"):
            continue
        return word.rsplit("/", 1)[-1]
    return "job"
