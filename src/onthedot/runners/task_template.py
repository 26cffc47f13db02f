"""Fills parameters and secrets into the texts of a task: `${{ params.name }}` and `${{ secrets.NAME }}`. Pure.

A value goes into one argument, or into one value of the environment or of a header. We never parse it again. No value
goes where it would be read as code: into the text of a shell, or the name of a program, an image or an address. `$${{`
stands for `${{` itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from onthedot.model.errors import ArgumentsError, UnknownSecret, did_you_mean
from onthedot.model.task import Command, Container, Http, Json, Step, Steps, Task

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
"""The sources that each kind of text takes. Every user of the machine could read a secret in an argument."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
"""The name of a parameter or a secret."""

MARK = re.compile(r"\$\$\{\{|\$\{\{(?P<inside>[^{}]*)\}\}|\$\{\{")
"""An escaped mark, a whole mark, or the beginning of a mark without an end."""

_INSIDE = re.compile(r"\s*(params|secrets)\.([A-Za-z_][A-Za-z0-9_]{0,99})\s*")
_MEANT = re.compile(r"\$\{\{\s*(?:params?|secrets?)\b")
_INTERPRETER = re.compile(r"(?:a|ba|c|da|fi|k|tc|z)?sh|python[0-9.]*|perl|ruby|node|php")
BREAK = re.compile(r"[\r\n\0]")
_STARTERS = frozenset({"busybox", "chroot", "doas", "env", "nice", "nohup", "setsid", "sudo", "timeout", "xargs"})
_CODE_FOLLOWS = re.compile(r"-[A-Za-z]*[cer]")


class TaskText(NamedTuple):
    """One text of a task: its place, and its kind."""

    name: str
    what: What
    text: str


class Reference(NamedTuple):
    """One mark in a text, as it is written. `source` is None if we do not know the mark."""

    written: str
    source: Source | None = None
    name: str = ""


def references(text: str) -> list[Reference]:
    """Every mark in a text that is not escaped.

    >>> references("--to=${{ params.host }}, $${{ kept }}")
    [Reference(written='${{ params.host }}', source='params', name='host')]
    """
    return [read_mark(found) for found in MARK.finditer(text) if not found[0].startswith("$$")]


def read_mark(found: re.Match[str]) -> Reference:
    """The reference that a mark makes."""
    inside = _INSIDE.fullmatch(found["inside"] or "")
    if inside is None:
        return Reference(found[0])
    return Reference(found[0], "params" if inside[1] == "params" else "secrets", inside[2])


def has_marks(task: Task) -> bool:
    """Return whether a task has any mark, escaped or not.

    >>> has_marks(Command(argv=("ls", "${{ params.where }}"))), has_marks(Command(argv=("ls",)))
    (True, False)
    """
    return any("${{" in place.text for place in texts_of(task))


def is_meant_as_one(text: str) -> bool:
    """Return whether a text that we do not fill in looks like a mark that its author expected us to fill in.

    >>> is_meant_as_one("echo ${{ param.x"), is_meant_as_one("echo ${{ github.ref }}")
    (True, False)
    """
    return _MEANT.search(text) is not None


def texts_of(task: Task) -> Iterator[TaskText]:
    """Every text of a task.

    >>> [place.what for place in texts_of(Command(argv=("sh", "-c", "make", "x"), env={"A": "b"}))]
    ['program', 'plain', 'code', 'argument', 'plain', 'environment', 'plain', 'plain', 'plain']
    """
    match task:
        case Command():
            yield from _command("", task)
            yield TaskText("stdin", "plain", task.stdin)
        case Steps():
            yield from _mapping("env", "environment", task.env)
            for step in task.steps:
                yield from _command(f"steps.{step.name}.", step)
            if task.source is not None:
                yield TaskText("source.git", "plain", task.source.git)
                yield TaskText("source.ref", "plain", task.source.ref)
                yield TaskText("source.key", "key", task.source.key)
            yield from (TaskText("artifacts", "plain", pattern) for pattern in task.artifacts)
        case Http():
            yield from (TaskText("url", "plain", task.url), TaskText("method", "plain", task.method))
            yield from _mapping("headers", "header", task.headers)
            yield from _texts("body", task.body)
        case Container():
            yield from _argv("argv", task.words)
            yield from _mapping("env", "environment", task.env)
            for name in ("image", "network", "user"):
                yield TaskText(name, "plain", getattr(task, name))
            for mount in task.mounts:
                yield from (TaskText("mounts", "plain", mount.source), TaskText("mounts", "plain", mount.target))


def _command(before: str, task: Command | Step) -> Iterator[TaskText]:
    yield from _argv(f"{before}argv", task.argv)
    yield from _mapping(f"{before}env", "environment", task.env)
    yield TaskText(f"{before}script", "plain", task.script)
    yield TaskText(f"{before}directory", "plain", task.directory)


def _argv(name: str, argv: tuple[str, ...]) -> Iterator[TaskText]:
    texts = tuple(map(str, argv))
    for number, text in enumerate(texts):
        yield TaskText(f"{name}[{number}]", _kind_of(texts, number), text)


def _kind_of(argv: tuple[str, ...], number: int) -> What:
    """The kind of an argument. After `sh -c` comes code, also if another program starts the shell. An argument that
    only looks like this (`python3 report.py -c 3`) counts as code, too: a wrong refusal is better than a wrong run."""
    if not number:
        return "program"
    earlier = [text.rpartition("/")[2] for text in argv[:number]]
    started = earlier if earlier[0] in _STARTERS else earlier[:1]
    if any(map(_INTERPRETER.fullmatch, started)):
        if number <= len(started) and _INTERPRETER.fullmatch(started[-1]):
            return "plain"  # an option, or the script file
        if _CODE_FOLLOWS.fullmatch(earlier[-1]):
            return "code"
    return "argument"


def _mapping(name: str, what: What, given: Mapping[str, str]) -> Iterator[TaskText]:
    for key, text in given.items():
        yield TaskText(name, "plain", str(key))
        yield TaskText(f"{name}.{key}", what, str(text))


def _texts(name: str, value: Any) -> Iterator[TaskText]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield TaskText(name, "plain", value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield TaskText(name, "plain", str(key))
            yield from _texts(name, inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(name, inner)


def names_in_environment(task: Task) -> frozenset[str]:
    """The parameters that a task puts into the environment. Their values must be one line."""
    texts = (place.text for place in texts_of(task) if place.what == "environment")
    marked = (reference for text in texts for reference in references(text))
    return frozenset(reference.name for reference in marked if reference.source == "params")


# ── filling in ───────────────────────────────────────────────────────────────────────────────────────────────


class Filled(NamedTuple):
    """A task that is filled in, and the values of the secrets in it."""

    task: Task
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Filled({self.task!r}, {len(self.secrets)} secrets)"


class Hidden(str):
    """A text with a secret in it. Its `repr` is `***`, also within other objects.

    >>> [Hidden("hush")]
    ['***']
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def secret_names(task: Task) -> frozenset[str]:
    """The secrets that a task refers to.

    >>> secret_names(Command(argv=("ls",), env={"TOKEN": "${{ secrets.API }}"}))
    frozenset({'API'})
    """
    marked = (reference for place in texts_of(task) if TAKES[place.what] for reference in references(place.text))
    return frozenset(reference.name for reference in marked if reference.source == "secrets")


def fill(task: Task, arguments: Mapping[str, Json], secrets: Mapping[str, str]) -> Filled:
    """Fill in a task. Returns it with the values of the secrets that were used.

    `ArgumentsError` for an unknown parameter, a mark in a wrong place, or a value that cannot go there. `UnknownSecret`
    for a secret without a value.

    >>> fill(Command(argv=("ls", "-${{ params.how }}"), env={"A": "$${{"}), {"how": "l"}, {}).task
    Command(argv=('ls', '-l'), script='', directory='', env={'A': '${{'}, stdin='')
    """
    filling = _Filling(arguments, secrets)
    return Filled(filling.task(task), tuple(dict.fromkeys(filling.used)))


class _Filling:
    """One task being filled in."""

    def __init__(self, arguments: Mapping[str, Json], secrets: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._secrets = secrets
        self.used: list[str] = []

    def task(self, task: Task) -> Task:
        match task:
            case Command():
                return replace(task, argv=self._argv(task.argv), env=self._mapping("env", "environment", task.env))
            case Steps():
                env = self._mapping("env", "environment", task.env)
                source = task.source
                if source is not None:
                    source = replace(source, key=self._text("source.key", "key", source.key))
                return replace(task, env=env, source=source, steps=tuple(self._step(step) for step in task.steps))
            case Container():
                words = self._argv(task.words)
                first, rest = (words[0], words[1:]) if task.entrypoint else ("", words)
                env = self._mapping("env", "environment", task.env)
                return replace(task, entrypoint=first, argv=rest, env=env)
            case Http():
                return replace(task, headers=self._mapping("headers", "header", task.headers))
            case _:
                return task

    def _step(self, step: Step) -> Step:
        return replace(step, argv=self._argv(step.argv), env=self._mapping("env", "environment", step.env))

    def _argv(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        # What may not stand in a program's name or code was refused when it was defined; a row that somebody wrote
        # into the store is refused here.
        shown = [place for place in texts_of(Command(argv=argv)) if place.name.startswith("argv")]
        return tuple(self._text(place.name, place.what, place.text) for place in shown)

    def _mapping(self, name: str, what: What, given: Mapping[str, str]) -> dict[str, str]:
        return {key: self._text(f"{name}.{key}", what, text) for key, text in given.items()}

    def _text(self, name: str, what: What, text: str) -> str:
        if "${{" not in text:
            return text
        before = len(self.used)
        made = MARK.sub(lambda found: self._value(name, what, found), text)
        return Hidden(made) if len(self.used) > before else made

    def _value(self, name: str, what: What, found: re.Match[str]) -> str:
        if found[0].startswith("$$"):
            return found[0][1:]
        reference = read_mark(found)
        if reference.source is None or reference.source not in TAKES[what]:
            raise ArgumentsError(f"{name}: expected nothing to fill in here, got {reference.written!r}")
        if reference.source == "secrets":
            value = self._secret(reference.name)
        else:
            value = self._argument(name, reference.name)
        if "\0" in value or (what not in ("argument", "key") and BREAK.search(value)):
            came = "a value with a line break or a zero character"
            raise ArgumentsError(f"{name}: expected one line for {reference.written!r}, got {came}")
        return value

    def _argument(self, name: str, wanted: str) -> str:
        if wanted not in self._arguments:
            raise ArgumentsError(f"{name}: expected a parameter, got {wanted!r}{did_you_mean(wanted, self._arguments)}")
        value = self._arguments[wanted]
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value)

    def _secret(self, name: str) -> str:
        if name not in self._secrets:
            raise UnknownSecret(f"secret {name}: expected its value, got none")
        self.used.append(self._secrets[name])
        return self._secrets[name]
