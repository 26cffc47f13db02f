"""Names jobs after the program that a command line starts.

cd /srv/shop && nice -n 19 ./bin/sync.sh --all      sync
/usr/bin/python3 -m shop.report                     shop.report
flock -n /tmp/x.lock curl -s https://x.org/ping     curl-ping
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

_ENDINGS = re.compile(r"(?<=.)\.(?:sh|bash|ksh|zsh|py|pl|rb|php|js|mjs|ts|jar|exe|R)$")
_VERSION = re.compile(r"(?<=[a-z])[0-9.]+$")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_BREAKS = frozenset({"&&", "||", ";", ";;", "|", "&", "|&", "(", ")", "\n"})
_KEYWORDS = frozenset({"{", "}", "!", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "time"})
_ASIDE = frozenset({
    "cd", "test", "[", "[[", "export", "set", "unset", "source", ".", "sleep", "umask", "true", "false", ":", "eval",
    "trap", "ulimit",
})  # fmt: skip
"""What a line does before its own work."""
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
    """What a job is called, and what tells it from another of this name."""

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
    """Without what comes before the program itself: variables, keywords, programs that start another."""
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
