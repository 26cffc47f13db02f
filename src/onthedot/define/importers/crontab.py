"""Imports a crontab, of a user or of the system.

It keeps cron's rules: nothing is caught up after an outage, runs may overlap, a failing command does not end its line,
and clock changes follow Debian's rules, which are ours. `%` in a command begins its standard input.

A job is named after the program that its line starts:

    cd /srv/shop && nice -n 19 ./bin/sync.sh --all      sync
    /usr/bin/python3 -m shop.report                     shop.report
    flock -n /tmp/x.lock curl -s https://x.org/ping     curl-ping
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onthedot.define.importers.cron_dialects import from_crontab
from onthedot.define.importers.import_result import ImportResult, as_it_is, runs_as
from onthedot.model.errors import ScheduleError
from onthedot.schedules.zones import zone

_VARIABLE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|\"[^\"]*\"|'[^']*')\s*=\s*(.*?)\s*")
_JOB = re.compile(r"\s*(@\S+|(?:\S+\s+){4}\S+)\s+(.*)", re.DOTALL)
_USER = re.compile(r"([a-z_][a-z0-9_.-]*\$?)(?::[a-z0-9_.-]+)?(?:/\S+)?\s+(\S.*)", re.DOTALL)
_FLAGS = re.compile(r"(-[nqs]+)\s+(\S.*)", re.DOTALL)
_HEADER = re.compile(r"^#.*\bm\b.*\bh\b.*\b(?:dom|mon|dow)\b", re.IGNORECASE | re.MULTILINE)
_USER_HEADER = re.compile(r"^#.*\bm\b.*\bh\b.*\buser\b", re.IGNORECASE | re.MULTILINE)
_TIME = re.compile(r"(?:@[a-z]+|(?:[0-9*][0-9*,/~-]*\s+){2}(?:\S+\s+){2}[0-9A-Za-z*,/#~-]+)\s+\S")
_STDIN = re.compile(r"(?<!\\)%")
_NEEDS_HOME = re.compile(r"(?:^|[\s;&|(\"'=])(?:\.{1,2}/|~(?=[/\s]|$)|cd\s+[^/\s\"'$~-])|\$\{?HOME\b")
_CD = re.compile(r"^cd\s+/\S*\s*&&\s*\.{1,2}/")
_TO_FILE = re.compile(r"(?:(?<![\d<>=&|\\-])|(?<=\s)[1&])>>?\s*(?!&|/dev/null\b)([^\s&|;<>()'\"]+)(?:\s+2>\s*&1)?\s*\Z")
"""The output of a command goes to a file."""
_SEQUENCE = re.compile(r";|\n|(?<!&)&(?![&>0-9])")
_USERS = frozenset({
    "root", "www-data", "nobody", "daemon", "postgres", "mysql", "nginx", "apache", "http", "ubuntu", "admin",
    "deploy", "git", "bin", "sys", "_www", "www",
})  # fmt: skip
_ALIASES = {"@every_minute": "* * * * *"}


@dataclass
class _State:
    """What the lines above have set."""

    tz: str
    system: bool
    assumed: bool = True  # whether the zone is the caller's, not one that a line has set
    shell: str = "/bin/sh"
    home: str = ""
    jitter: str = ""
    env: dict[str, str] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)


def read_crontab(text: str, file: str = "crontab", *, tz: str = "UTC", system: bool | None = None) -> ImportResult:
    """The jobs of a crontab. `system`: whether its lines name a user; None: as the file looks.

    >>> found = read_crontab("30 2 * * * /usr/bin/backup.sh --all\\n@reboot /usr/bin/once")
    >>> found.jobs[0].name, found.jobs[0].task.script
    ('backup', '/usr/bin/backup.sh --all')
    >>> str(found.remarks[-1])
    "crontab:2:1: '@reboot /usr/bin/once': it names no time; start it with systemd or with a program; left out"
    """
    found = ImportResult(file)
    state = _State(tz, _names_users(found, text) if system is None else system)
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        variable = _VARIABLE.fullmatch(line)  # no field of a job line begins with a letter before '='
        if bare.startswith("#"):
            _comment(found, state, number, bare)
        elif bare and variable is None:
            _add(found, state, number, line)
            state.comments = []
        else:
            state.comments = []
            if variable is not None:
                _set(found, state, number, variable[1].strip("\"'"), _unquoted(variable[2]))
    return found


def is_time(line: str) -> bool:
    """Whether a line begins like a job of a crontab, and not like a sentence.

    >>> is_time("*/5 * * * * sync"), is_time("@daily x"), is_time("a b c d e f")
    (True, True, False)
    """
    return _TIME.match(line) is not None


# ── whose ────────────────────────────────────────────────────────────────────────────────────────────────────


def _names_users(found: ImportResult, text: str) -> bool:
    """Whether lines name a user: by where the file lies, by its header, or by what is in the sixth column."""
    parts = found.file.replace("\\", "/").split("/")
    if found.file.endswith("/etc/crontab") or "cron.d" in parts[:-1] or _USER_HEADER.search(text) is not None:
        return True
    commands = list(_command_lines(text))
    users = [match[1] if (match := _USER.fullmatch(command)) else "" for _, command in commands]
    if users and all(users) and _USERS.intersection(users):
        named = ", ".join(sorted(set(users)))
        found.remark(None, f"its lines name users ({named}): read as a system crontab; --user reads it as a user's")
        return True
    for (number, _), user in zip(commands, users, strict=True):
        if user in _USERS:
            found.remark(number, f"its command starts with '{user}': if that is a user, import the file with --system")
    return False


def _command_lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        parts = _JOB.fullmatch(line)
        if parts is not None and not line.lstrip().startswith("#") and not _VARIABLE.fullmatch(line):
            yield number, parts[2]


# ── settings and comments ────────────────────────────────────────────────────────────────────────────────────


def _comment(found: ImportResult, state: _State, line: int, text: str) -> None:
    """Comments right above a job go with it; a job that is commented out, and the header of the fields, do not."""
    words = text.lstrip("#").strip()
    if _TIME.match(words):
        found.remark(line, f"'{text[:80]}': a job that is commented out; not imported")
    elif _HEADER.match(text) or _USER_HEADER.match(text):
        state.comments = []
    elif words := words.strip("-=*#~_ "):
        state.comments.append(words)


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _set(found: ImportResult, state: _State, line: int, name: str, value: str) -> None:
    match name:
        case "CRON_TZ":
            _set_zone(found, state, line, value)
        case "SHELL":
            state.shell = value
        case "HOME":
            state.home = state.env["HOME"] = value
        case "RANDOM_DELAY":
            state.jitter = f"{value}m" if value.isdigit() and int(value) else ""
        case "MAILTO" | "MAILFROM":
            if value:
                what = "no mail is sent; 'onthedot dead list' shows what failed, a hook can tell you"
                found.remark(line, f"{name}={value}: {what}")
        case "LOGNAME" | "USER":
            pass  # cron itself does not let a crontab change them
        case _:
            state.env[name] = as_it_is(value)
            if name == "TZ":
                told = "commands get it as a variable; it does not move times, as in cron"
                found.remark(line, f"TZ={value}: {told}; if you meant the times, write CRON_TZ, or give --tz")


def _set_zone(found: ImportResult, state: _State, line: int, value: str) -> None:
    try:
        zone(value)
    except ScheduleError as error:
        found.remark(line, f"CRON_TZ={value}: {error}; times below it are read in {state.tz}")
    else:
        state.tz, state.assumed = value, False


# ── one line ─────────────────────────────────────────────────────────────────────────────────────────────────


def _add(found: ImportResult, state: _State, number: int, line: str) -> None:
    line = re.sub(r"^\s*-(?=[0-9*@])", "", line)  # cronie: do not log it
    parts = _JOB.fullmatch(line)
    if parts is None:
        found.lose(number, f"expected five fields and a command, got {line.strip()[:80]!r}")
        return
    when, command, owner = " ".join(parts[1].split()), parts[2].rstrip(), ""
    if state.system:
        user = _USER.fullmatch(command)
        if user is None:
            found.lose(number, f"expected a user and a command after the fields, got {command[:80]!r}")
            return
        owner, command = user[1], user[2]
    flags = _FLAGS.fullmatch(command)
    if flags is not None:
        command = flags[2]
        kept = "the job does not overlap itself; " if "s" in flags[1] else ""
        found.remark(number, f"'{flags[1]}' before the command: {kept}what it says of mail and logs is not kept")
    if when.lower() == "@reboot":
        found.lose(number, f"'@reboot {command[:80]}': it names no time; start it with systemd or with a program")
        return
    if owner:
        found.remark(number, runs_as(owner))
    script, stdin = _with_stdin(command)
    if not state.home and _NEEDS_HOME.search(_CD.sub("", script)):
        where = f"the home directory of {owner}" if owner else "its user's home directory"
        found.remark(number, f"it uses {where}: here a run starts in an empty directory, which is its HOME, too; set "
                             "'directory' and HOME in 'env'")  # fmt: skip
    to_file = _TO_FILE.search(script)
    if to_file is not None:
        found.remark(number, f"its output goes to {to_file[1][:80]}: the log of its runs does not have it; without the "
                             "redirection it is kept for each run")  # fmt: skip
    named = name_of(script)
    job = {
        "name": named.name, "owner": owner, "schedule": _schedule(found, state, number, when), **_task(state, script),
        "stdin": stdin, "directory": state.home, "env": dict(state.env), "catch_up": "none",
        "overlap": "skip" if flags is not None and "s" in flags[1] else "allow",
    }  # fmt: skip
    found.add(number, job, more=named.more, notes=state.comments)


def _schedule(found: ImportResult, state: _State, line: int, when: str) -> Any:
    translated = from_crontab(_ALIASES.get(when.lower(), when))
    for note in translated.notes:
        found.remark(line, note)
    found.zone_assumed |= state.assumed
    schedule: dict[str, Any] = {"cron": translated.expression}
    if state.tz != "UTC":
        schedule["tz"] = state.tz
    if state.jitter:
        schedule["jitter"] = state.jitter
    return schedule if len(schedule) > 1 else schedule["cron"]


def _task(state: _State, script: str) -> dict[str, Any]:
    """Return the script for the shell. Our shell ends at the first command that fails, cron's shell continues."""
    if state.shell in ("/bin/sh", "sh"):
        return {"run": f"set +e; {script}" if _SEQUENCE.search(script) else script}
    return {"argv": [state.shell, "-c", as_it_is(script)]}


def _with_stdin(command: str) -> tuple[str, str]:
    """The first `%` ends the command; the others are line breaks of its input."""
    script, *lines = _STDIN.split(command)
    stdin = "\n".join(lines) + "\n" if lines else ""
    return script.strip().replace("\\%", "%"), stdin.replace("\\%", "%")


# ── names ──────────────────────────────────────────────────────────────────────────────────────────────────────

_ENDINGS = re.compile(r"(?<=.)\.(?:sh|bash|ksh|zsh|py|pl|rb|php|js|mjs|ts|jar|exe|R)$")
_VERSION = re.compile(r"(?<=[a-z])[0-9.]+$")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_BREAKS = frozenset({"&&", "||", ";", ";;", "|", "&", "|&", "(", ")", "\n"})
_KEYWORDS = frozenset({"{", "}", "!", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "time"})
_ASIDE = frozenset({
    "cd", "test", "[", "[[", "export", "set", "unset", "source", ".", "sleep", "umask", "true", "false", ":", "eval",
    "trap", "ulimit",
})  # fmt: skip
"""Commands that only prepare the work of a line."""
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh", "su", "runuser"})
_INTERPRETERS = frozenset({"python", "perl", "php", "ruby", "node", "java", "Rscript", "deno", "bun", *_SHELLS})
_GENERAL = frozenset({
    "awk", "aws", "chmod", "chown", "cp", "curl", "date", "docker", "docker-compose", "echo", "find", "git",
    "kubectl", "logger", "ls", "mail", "make", "mkdir", "mv", "npm", "npx", "podman", "printf", "ps", "rm", "rsync",
    "run-parts", "scp", "sed", "service", "ssh", "systemctl", "tar", "test", "touch", "wget",
})  # fmt: skip
"""Programs whose name alone does not say what a job does."""

_WRAPPERS: dict[str, tuple[str, int]] = {
    "nice": ("n", 0), "ionice": ("cnp", 0), "sudo": ("ugpCDhRTU", 0), "doas": ("u", 0), "env": ("uCS", 0),
    "timeout": ("ks", 1), "flock": ("wE", 1), "nohup": ("", 0), "exec": ("a", 0), "command": ("", 0),
    "setsid": ("", 0), "stdbuf": ("ioe", 0), "chronic": ("", 0), "cronic": ("", 0), "chrt": ("", 1), "taskset": ("", 1),
    "systemd-cat": ("tp", 0), "systemd-run": ("ptu", 0), "chroot": ("", 1), "time": ("fo", 0), "run-one": ("", 0),
}  # fmt: skip
"""Programs that start another: the short options that take a value, and how many words come before the other."""


class Named(NamedTuple):
    """The name of a job, and a word that tells it from another job of that name."""

    name: str
    more: str = ""


def name_of(script: str) -> Named:
    """
    >>> name_of("/usr/local/bin/backup.sh --full > /dev/null 2>&1")
    Named(name='backup', more='full')
    >>> name_of("cd /srv/shop && sudo -u www-data php artisan schedule:run").name
    'artisan'
    """
    found = [words for words in map(_started, _commands(script)) if words]
    chosen = next((words for words in found if not _is_aside(words)), found[0] if found else None)
    return Named("job") if chosen is None else _named(chosen)


def _is_aside(words: list[str]) -> bool:
    program = _VERSION.sub("", _base(words[0]))
    is_snippet = program in _INTERPRETERS - _SHELLS and len(words) > 1 and words[1] in ("-e", "-E", "-c", "-r")
    return program in _ASIDE or is_snippet


def _commands(script: str) -> Iterator[list[str]]:
    """The simple commands of a line, as words."""
    reader = shlex.shlex(script.replace("\n", " ; "), posix=True, punctuation_chars=True)
    reader.whitespace_split, reader.commenters = True, ""
    try:
        words = list(reader)
    except ValueError:  # a quote without an end
        words = re.sub(r"[\"']", " ", script).split()
    command: list[str] = []
    skip = False
    for word in words:
        if skip:  # where a redirection goes to
            skip = False
        elif word in _BREAKS:
            yield command
            command = []
        elif word and set(word) <= set("<>&|"):
            skip = True
            if command and command[-1].isdigit():
                command.pop()
        else:
            command.append(word)
    yield command


def _started(words: list[str]) -> list[str]:
    """Return a command without the words before the program itself: variables, keywords, programs that start
    another.
    """
    words = list(words)
    while words:
        if words[0] in _KEYWORDS or _ASSIGNED.fullmatch(words[0]):
            words.pop(0)
            continue
        if _base(words[0]) not in _WRAPPERS:
            break
        short, positional = _WRAPPERS[_base(words.pop(0))]
        while words and words[0].startswith("-"):
            option = words.pop(0)
            if len(option) == 2 and option[1] in short and words:
                words.pop(0)
            if option == "--":
                break
        words = words[positional:]
    return words


def _named(words: list[str]) -> Named:
    program, rest = _base(words[0]), words[1:]
    if _VERSION.sub("", program) in _INTERPRETERS:
        code = next((rest[at + 1] for at, word in enumerate(rest[:-1]) if _is_code(program, word)), None)
        if code is not None:
            return name_of(code)
        files = [at for at, word in enumerate(rest) if not word.startswith("-")]
        if files:
            return _with_more(_without_ending(_base(rest[files[0]])), rest[files[0] + 1 :])
    if program in _GENERAL:
        subject = next((word for word in rest if _base(word) and not word.startswith(("-", "+", "$"))), "")
        at = rest.index(subject) + 1 if subject else 0
        name = f"{program}-{_without_ending(_base(subject))[:40]}" if subject else program
        return _with_more(name, rest[at:])
    return _with_more(_without_ending(program), rest)


def _is_code(program: str, word: str) -> bool:
    return program in _SHELLS and re.fullmatch(r"-[a-z]*c", word) is not None


def _with_more(name: str, rest: list[str]) -> Named:
    return Named(name, next((_base(word.lstrip("-+")) for word in rest if _base(word.lstrip("-+"))), ""))


def _base(word: str) -> str:
    """The last part of a path or an address."""
    return word.split("?", 1)[0].rstrip("/").rsplit("/", 1)[-1]


def _without_ending(name: str) -> str:
    return _ENDINGS.sub("", name)
