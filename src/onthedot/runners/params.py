"""Checks the arguments of a run against the parameters that its job declares. Pure.

We check them when a run is submitted, and again before its task is filled in (`task_filler.py`). `injection.py` checks
that no program can read a parameter as code.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from onthedot.model.errors import ArgumentsError, did_you_mean
from onthedot.model.job import Job
from onthedot.model.run import Lease
from onthedot.model.task import Call, Json, Param
from onthedot.runners.param_patterns import MOST_VALUE, matches
from onthedot.runners.task_template import BREAK, names_in_environment

KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("text", lambda value: isinstance(value, str)),
    "number": ("a number", lambda value: _is_number(value) and math.isfinite(value)),
    "whole": ("a whole number", lambda value: _is_number(value) and isinstance(value, int)),
    "yes_or_no": ("true or false", lambda value: isinstance(value, bool)),
}
"""The words for each kind of parameter, and the check of a value."""

_UNKNOWN: tuple[str, Callable[[Any], bool]] = ("a kind of value that this version knows", lambda _: False)


def check_params(job: Job, arguments: Mapping[str, Json], *, complete: bool = True) -> list[str]:
    """Return every problem with the arguments of a run. Without `complete`, required arguments may be missing.
    `signatures.py` checks the arguments of handlers.

    >>> from onthedot.model.task import Command
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
    """Return every problem with one value."""
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
    if one_line and isinstance(value, str) and BREAK.search(value):
        return [f"{param.name}: expected one line, because it goes into the environment, got {_shown(value)}"]
    return []


def value_of_text(param: Param, text: str) -> Json:
    """Convert a parameter's text from a command line to its value. Return the text itself if it is no such value.

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
    """Raise `ArgumentsError` with every problem, if there is one."""
    given: object = arguments
    if not isinstance(given, Mapping):
        raise ArgumentsError(f"arguments: expected names and values, got {_shown(given)}", subject=f"job {job.name!r}")
    problems = check_params(job, arguments)
    if problems:
        raise ArgumentsError(problems, subject=f"job {job.name!r}")


def with_defaults(job: Job, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """Return the value of every parameter of the job: the given one, or its default.

    >>> from onthedot.model.task import Command
    >>> with_defaults(Job(name="j", task=Command(argv=("ls",)), params=(Param(name="a", default="x"),)), {})
    {'a': 'x'}
    """
    return {**{param.name: param.default for param in job.params}, **arguments}


def arguments_of(lease: Lease) -> dict[str, Any]:
    """Return a run's arguments, as a new copy for each attempt, so that a handler may change them."""
    if lease.args is not None:
        arguments: dict[str, Any] = json.loads(lease.args)
        return arguments
    defaults = lease.record.job.args
    return copy.deepcopy(dict(defaults)) if defaults else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(value: Json, choice: Json) -> bool:
    """Return whether both are the same choice. In Python 1 equals true, but they are different choices."""
    return bool(value == choice) and isinstance(value, bool) == isinstance(choice, bool)


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:80]}…"
