"""Declared parameters: checked when a run is asked for, and filled into its task just before it starts. Pure.

Values go into elements of an argument list and into values of the environment, each as one piece: nothing in them is
read again here, and none of them is ever part of a shell's text. See `interpreters.py` for what programs make of them.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from onthedot.model.errors import ArgumentsError, UnknownSecret, did_you_mean
from onthedot.model.job import Job
from onthedot.model.run import Lease
from onthedot.model.task import Call, Command, Container, Http, Json, Param, Step, Steps, Task
from onthedot.runners.param_patterns import MOST_VALUE, matches
from onthedot.runners.task_texts import MARK, TAKES, What, places, read_mark, references

KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("text", lambda value: isinstance(value, str)),
    "number": ("a number", lambda value: _is_number(value) and math.isfinite(value)),
    "whole": ("a whole number", lambda value: _is_number(value) and isinstance(value, int)),
    "yes_or_no": ("true or false", lambda value: isinstance(value, bool)),
}
"""By kind: its words, and whether a value is one."""

_UNKNOWN: tuple[str, Callable[[Any], bool]] = ("a kind of value that this version knows", lambda _: False)


class Filled(NamedTuple):
    """A task with nothing left to be filled in, and the secret values that are in it."""

    task: Task
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Filled({self.task!r}, {len(self.secrets)} secrets)"


class Hidden(str):
    """A text with a secret in it: as any other, but that it does not show when somebody prints what it is part of.

    >>> [Hidden("hush")]
    ['***']
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


# ── checking ─────────────────────────────────────────────────────────────────────────────────────────────────


def check_params(job: Job, arguments: Mapping[str, Json], *, complete: bool = True) -> list[str]:
    """Every problem with the arguments of a run (without `complete`: and perhaps more of them); none for handlers,
    whose functions say what they take.

    >>> job = Job(name="j", task=Command(argv=("ls",)), params=(Param(name="depth", kind="whole", choices=(1, 2)),))
    >>> check_params(job, {"depth": 3, "dept": 1})
    ["dept: expected a parameter of the job, did you mean 'depth'?", 'depth: expected one of 1, 2, got 3']
    """
    if isinstance(job.task, Call):
        return []
    known = {param.name: param for param in job.params}
    problems = [
        f"{name}: expected a parameter of the job{did_you_mean(str(name), known) or ', which declares none'}"
        for name in arguments
        if name not in known
    ]
    in_lines = names_in_environment(job.task) if known else frozenset()
    for name, param in known.items():
        if name in arguments:
            problems += value_problems(param, arguments[name], one_line=name in in_lines)
        elif param.required and complete:
            problems.append(f"{name}: expected {KINDS.get(param.kind, _UNKNOWN)[0]}, got nothing; it is required")
    return problems


def value_problems(param: Param, value: Json, *, one_line: bool = False) -> list[str]:
    """Every problem with one value."""
    words, fits = KINDS.get(param.kind, _UNKNOWN)
    if not fits(value):
        return [f"{param.name}: expected {words}, got {_shown(value)}"]
    if param.choices and not any(_is_same(value, choice) for choice in param.choices):
        return [f"{param.name}: expected one of {', '.join(map(_shown, param.choices))}, got {_shown(value)}"]
    if param.pattern and isinstance(value, str) and not matches(param.pattern, value):
        most = f" of at most {MOST_VALUE} characters" if len(value) > MOST_VALUE else ""
        return [f"{param.name}: expected text{most} that matches {param.pattern!r}, got {_shown(value)}"]
    if isinstance(value, str) and "\0" in value:
        return [f"{param.name}: expected text without a zero character, got {_shown(value)}"]
    if one_line and isinstance(value, str) and _BREAK.search(value):
        return [f"{param.name}: expected one line, because it goes into the environment, got {_shown(value)}"]
    return []


def value_of_text(param: Param, text: str) -> Json:
    """What a text of the command line means for a parameter; the text itself if it is no such value.

    >>> value_of_text(Param(name="n"), "137"), value_of_text(Param(name="n", kind="whole"), "137")
    ('137', 137)
    >>> value_of_text(Param(name="n", kind="yes_or_no"), "Yes"), value_of_text(Param(name="n", kind="whole"), "1e3")
    (True, '1e3')
    """
    if param.kind == "text":
        return text
    spelt = {"yes": "true", "no": "false"}.get(text.lower(), text.lower()) if param.kind == "yes_or_no" else text
    try:
        value: Json = json.loads(spelt)
    except (ValueError, RecursionError):
        return text
    return value if KINDS.get(param.kind, _UNKNOWN)[1](value) else text


def require_params(job: Job, arguments: Mapping[str, Json]) -> None:
    """`ArgumentsError` with every problem, if there is one."""
    given: object = arguments
    if not isinstance(given, Mapping):
        raise ArgumentsError(f"arguments: expected names and values, got {_shown(given)}", subject=f"job {job.name!r}")
    problems = check_params(job, arguments)
    if problems:
        raise ArgumentsError(problems, subject=f"job {job.name!r}")


def with_defaults(job: Job, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """Every parameter of the job: what was given, or its default.

    >>> with_defaults(Job(name="j", task=Command(argv=("ls",)), params=(Param(name="a", default="x"),)), {})
    {'a': 'x'}
    """
    return {**{param.name: param.default for param in job.params}, **arguments}


def arguments_of(lease: Lease) -> dict[str, Any]:
    """A run's own arguments, fresh for each attempt: what a handler changes stays with it."""
    if lease.args is not None:
        arguments: dict[str, Any] = json.loads(lease.args)
        return arguments
    defaults = lease.record.job.args
    return copy.deepcopy(dict(defaults)) if defaults else {}


def names_in_environment(task: Task) -> frozenset[str]:
    """The parameters that a task puts into the environment: their values must be one line."""
    texts = (place.text for place in places(task) if place.what == "environment")
    marked = (reference for text in texts for reference in references(text))
    return frozenset(reference.name for reference in marked if reference.source == "params")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(value: Json, choice: Json) -> bool:
    """1 and true are equal in Python, and are not the same choice."""
    return bool(value == choice) and isinstance(value, bool) == isinstance(choice, bool)


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:80]}…"


# ── filling in ───────────────────────────────────────────────────────────────────────────────────────────────

_BREAK = re.compile(r"[\r\n\0]")


def secret_names(task: Task) -> frozenset[str]:
    """The secrets that a task refers to.

    >>> secret_names(Command(argv=("ls",), env={"TOKEN": "${{ secrets.API }}"}))
    frozenset({'API'})
    """
    marked = (reference for place in places(task) if TAKES[place.what] for reference in references(place.text))
    return frozenset(reference.name for reference in marked if reference.source == "secrets")


def fill(task: Task, arguments: Mapping[str, Json], secrets: Mapping[str, str]) -> Filled:
    """The task with the values in their places, and those of the secrets that were used.

    `ArgumentsError` for a reference to what is not among the arguments, or that may not stand where it does, and for a
    value that cannot go where it would; `UnknownSecret` for a secret that was not handed in.

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
        shown = [place for place in places(Command(argv=argv)) if place.name.startswith("argv")]
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
        if "\0" in value or (what not in ("argument", "key") and _BREAK.search(value)):
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
