"""The texts of a task, and what may be filled into each: `${{ params.name }}` and `${{ secrets.NAME }}`. Pure.

Nothing is ever put where it would be read as code: not into the text of a shell, not into what names a program, an
image or an address. `$${{` stands for `${{` itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from onthedot.model.task import Command, Container, Http, Step, Steps, Task

Source = Literal["params", "secrets"]
What = Literal["argument", "environment", "header", "key", "program", "code", "plain"]

TAKES: dict[What, frozenset[Source]] = {
    "argument": frozenset({"params"}),
    "environment": frozenset({"params", "secrets"}),
    "header": frozenset({"secrets"}),
    "key": frozenset({"secrets"}),
    "program": frozenset(),
    "code": frozenset(),
    "plain": frozenset(),
}
"""What may be filled in where. A secret in an argument could be read by every user of the machine."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
"""What a parameter or a secret is called."""

MARK = re.compile(r"\$\$\{\{|\$\{\{(?P<inside>[^{}]*)\}\}|\$\{\{")
"""An escaped mark, a whole one, or the beginning of one that never ends."""

_INSIDE = re.compile(r"\s*(params|secrets)\.([A-Za-z_][A-Za-z0-9_]{0,99})\s*")
_MEANT = re.compile(r"\$\{\{\s*(?:params?|secrets?)\b")
_INTERPRETER = re.compile(r"(?:a|ba|c|da|fi|k|tc|z)?sh|python[0-9.]*|perl|ruby|node|php")
_STARTERS = frozenset({"busybox", "chroot", "doas", "env", "nice", "nohup", "setsid", "sudo", "timeout", "xargs"})
_CODE_FOLLOWS = re.compile(r"-[A-Za-z]*[cer]")


class Place(NamedTuple):
    """One text of a task: where it stands, and what it is."""

    name: str
    what: What
    text: str


class Reference(NamedTuple):
    """One mark in a text, as it is written; without a source it says nothing that we know."""

    written: str
    source: Source | None = None
    name: str = ""


def references(text: str) -> list[Reference]:
    """Every mark in a text, escaped ones aside.

    >>> references("--to=${{ params.host }}, $${{ kept }}")
    [Reference(written='${{ params.host }}', source='params', name='host')]
    """
    return [read_mark(found) for found in MARK.finditer(text) if not found[0].startswith("$$")]


def read_mark(found: re.Match[str]) -> Reference:
    """What a mark says."""
    inside = _INSIDE.fullmatch(found["inside"] or "")
    if inside is None:
        return Reference(found[0])
    return Reference(found[0], "params" if inside[1] == "params" else "secrets", inside[2])


def has_marks(task: Task) -> bool:
    """Whether there is anything in a task that could be filled in, or is escaped.

    >>> has_marks(Command(argv=("ls", "${{ params.where }}"))), has_marks(Command(argv=("ls",)))
    (True, False)
    """
    return any("${{" in place.text for place in places(task))


def is_meant_as_one(text: str) -> bool:
    """Whether a text that nothing is filled into looks as if somebody expected it.

    >>> is_meant_as_one("echo ${{ param.x"), is_meant_as_one("echo ${{ github.ref }}")
    (True, False)
    """
    return _MEANT.search(text) is not None


def places(task: Task) -> Iterator[Place]:
    """Every text of a task.

    >>> [place.what for place in places(Command(argv=("sh", "-c", "make", "x"), env={"A": "b"}))]
    ['program', 'plain', 'code', 'argument', 'plain', 'environment', 'plain', 'plain', 'plain']
    """
    match task:
        case Command():
            yield from _command("", task)
            yield Place("stdin", "plain", task.stdin)
        case Steps():
            yield from _mapping("env", "environment", task.env)
            for step in task.steps:
                yield from _command(f"steps.{step.name}.", step)
            if task.source is not None:
                yield Place("source.git", "plain", task.source.git)
                yield Place("source.ref", "plain", task.source.ref)
                yield Place("source.key", "key", task.source.key)
            yield from (Place("artifacts", "plain", pattern) for pattern in task.artifacts)
        case Http():
            yield from (Place("url", "plain", task.url), Place("method", "plain", task.method))
            yield from _mapping("headers", "header", task.headers)
            yield from _texts("body", task.body)
        case Container():
            yield from _argv("argv", task.words)
            yield from _mapping("env", "environment", task.env)
            for name in ("image", "network", "user"):
                yield Place(name, "plain", getattr(task, name))
            for mount in task.mounts:
                yield from (Place("mounts", "plain", mount.source), Place("mounts", "plain", mount.target))


def _command(before: str, task: Command | Step) -> Iterator[Place]:
    yield from _argv(f"{before}argv", task.argv)
    yield from _mapping(f"{before}env", "environment", task.env)
    yield Place(f"{before}script", "plain", task.script)
    yield Place(f"{before}directory", "plain", task.directory)


def _argv(name: str, argv: tuple[str, ...]) -> Iterator[Place]:
    texts = tuple(map(str, argv))
    for number, text in enumerate(texts):
        yield Place(f"{name}[{number}]", _kind_of(texts, number), text)


def _kind_of(argv: tuple[str, ...], number: int) -> What:
    """What an element is. The one behind `sh -c` is a program text, also where the shell is started by another. What
    only looks so (`python3 report.py -c 3`) is taken for one, too: better one refusal too many than one too few."""
    if not number:
        return "program"
    earlier = [text.rpartition("/")[2] for text in argv[:number]]
    started = earlier if earlier[0] in _STARTERS else earlier[:1]
    if any(map(_INTERPRETER.fullmatch, started)):
        if number <= len(started) and _INTERPRETER.fullmatch(started[-1]):
            return "plain"  # an option, or the file that is to be interpreted
        if _CODE_FOLLOWS.fullmatch(earlier[-1]):
            return "code"
    return "argument"


def _mapping(name: str, what: What, given: Mapping[str, str]) -> Iterator[Place]:
    for key, text in given.items():
        yield Place(name, "plain", str(key))
        yield Place(f"{name}.{key}", what, str(text))


def _texts(name: str, value: Any) -> Iterator[Place]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield Place(name, "plain", value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield Place(name, "plain", str(key))
            yield from _texts(name, inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(name, inner)
