"""Everything that can be wrong with what a job is to do, if it is no Python function: commands, steps, their bounds and
parameters. Found when it is defined, so that nothing of it is found when it is due."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import get_args

from onthedot.model.addresses import AddressRefused, read_git
from onthedot.model.duration import LONGEST
from onthedot.model.job import Job
from onthedot.model.task import Bounds, Command, Source, Step, Steps, When
from onthedot.rules.steps import variable

MOST_STEPS = 100
MOST_TEXT = 64 * 1024
MOST_WORDS = 1_000
_MOST_VARIABLES = 500
MOST_PATTERNS = 100
MOST_TRIES = 100

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
REF = re.compile(r"(?!-)[A-Za-z0-9_./@+-]{1,200}")
KEY = re.compile(r"\$\{\{\s*secrets\.[A-Za-z_][A-Za-z0-9_]{0,99}\s*\}\}")
_PARAM = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KINDS: dict[str, tuple[type, ...]] = {"text": (str,), "number": (int, float), "whole": (int,), "yes_or_no": (bool,)}


def task_problems(job: Job) -> Iterator[str]:
    """Every reason why this task cannot be run as it is written."""
    match job.task:
        case Command() as task:
            yield from _command_problems("", task)
            yield from _text_problems("stdin", task.stdin)
        case Steps() as task:
            yield from _steps_problems(task)
            if task.source is not None:
                yield from _source_problems(task.source, apart=job.isolation != "none")
        case _:
            pass
    yield from _bounds_problems(job.bounds)


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────


def _command_problems(where: str, command: Command | Step) -> Iterator[str]:
    if bool(command.argv) == bool(command.script):
        both = "both" if command.argv else "neither"
        yield f"{where}expected either argv (a program and its arguments) or script (a text for /bin/sh), got {both}"
    yield from _argv_problems(where, command.argv)
    yield from _text_problems(f"{where}script", command.script)
    yield from _directory_problems(f"{where}directory", command.directory)
    yield from _env_problems(f"{where}env", command.env)


def _argv_problems(where: str, argv: object) -> Iterator[str]:
    if not isinstance(argv, tuple) or not all(isinstance(word, str) for word in argv):
        yield f"{where}argv: expected a list of texts such as ['pg_dump', '--all'], got {argv!r}"
        return
    if len(argv) > MOST_WORDS or sum(map(len, argv)) > MOST_TEXT:
        yield f"{where}argv: expected at most {MOST_WORDS} texts of {MOST_TEXT} characters in all; use a file"
    if any("\0" in word for word in argv):
        yield f"{where}argv: expected text without the character NUL, which no program can be given"
    if argv and not argv[0]:
        yield f"{where}argv: expected the name of a program first, got ''"


def _text_problems(what: str, text: object) -> Iterator[str]:
    if not isinstance(text, str):
        yield f"{what}: expected text, got {type(text).__name__} {text!r}"
    elif "\0" in text:
        yield f"{what}: expected text without the character NUL"
    elif len(text) > MOST_TEXT:
        yield f"{what}: expected at most {MOST_TEXT} characters, got {len(text)}; use a file"


def _directory_problems(what: str, directory: str) -> Iterator[str]:
    if not _is_text(directory) or "\0" in directory or not directory.isprintable():
        yield f"{what}: expected a path, got {directory!r}"
    elif ".." in directory.split("/"):
        yield f"{what}: expected a path inside the workspace, or an absolute one, got {directory!r}; leave '..' out"


def _env_problems(what: str, env: object) -> Iterator[str]:
    if not isinstance(env, Mapping):
        yield f"{what}: expected names with their values, got {env!r}"
        return
    if len(env) > _MOST_VARIABLES or sum(len(str(name)) + len(str(value)) for name, value in env.items()) > MOST_TEXT:
        yield f"{what}: expected at most {_MOST_VARIABLES} variables of {MOST_TEXT} characters in all"
    for name, value in env.items():
        if not _is_text(name) or not VARIABLE.fullmatch(name):
            yield f"{what}: expected letters, digits and '_' as a name, got {name!r}"
        elif name.startswith("OTD_"):
            yield f"{what}: expected other names than OTD_…, which are onthedot's own, got {name!r}"
        if not _is_text(value) or "\0" in value or "\n" in value:
            yield f"{what}: expected text on one line for {name!r}, got {type(value).__name__}"


def _steps_problems(task: Steps) -> Iterator[str]:
    given: object = task.steps
    if not isinstance(given, tuple) or not all(isinstance(step, Step) for step in given):
        yield f"steps: expected a list of Step(name=…, …), got {task.steps!r}"
        return
    if not 1 <= len(task.steps) <= MOST_STEPS:
        yield f"steps: expected from 1 to {MOST_STEPS}, got {len(task.steps)}"
    yield from _env_problems("env", task.env)
    for number, step in enumerate(task.steps, 1):
        yield from _step_problems(f"step {number} ({step.name!r}): ", step)
    for name, count in Counter(step.name for step in task.steps).items():
        if count > 1:
            yield f"steps: expected each name once, got {count} steps named {name!r}"
    yield from _pattern_problems(task.artifacts)


def _step_problems(where: str, step: Step) -> Iterator[str]:
    if not _is_text(step.name) or len(step.name) > 100 or not step.name.isprintable() or not variable(step.name):
        yield f"{where}expected a name that can be printed, at most 100 characters"
    yield from _command_problems(where, step)
    if step.when not in get_args(When):
        yield f"{where}when: expected one of {', '.join(map(repr, get_args(When)))}, got {step.when!r}"
    if type(step.attempts) is not int or not 1 <= step.attempts <= MOST_TRIES:
        yield f"{where}attempts: expected a whole number from 1 to {MOST_TRIES}, got {step.attempts!r}"
    if step.timeout is not None and not timedelta(0) < step.timeout <= LONGEST:
        yield f"{where}timeout: expected a length of time above zero, got {step.timeout}"
    if not timedelta(0) <= step.delay <= LONGEST:
        yield f"{where}delay: expected a length of time, got {step.delay}"


def _pattern_problems(patterns: object) -> Iterator[str]:
    if not isinstance(patterns, tuple) or not all(isinstance(pattern, str) for pattern in patterns):
        yield f"artifacts: expected a list of patterns such as ['dist/*.whl'], got {patterns!r}"
        return
    if len(patterns) > MOST_PATTERNS:
        yield f"artifacts: expected at most {MOST_PATTERNS} patterns, got {len(patterns)}"
    for pattern in patterns:
        parts = pattern.split("/")
        if pattern.startswith("/") or ".." in parts or "" in parts or not pattern.isprintable() or len(pattern) > 200:
            yield f"artifacts: expected a path inside the workspace such as 'dist/*.whl', got {pattern!r}"
        elif parts.count("**") > 2:
            yield f"artifacts: expected '**' at most twice, got {pattern!r}"


def _source_problems(source: Source, *, apart: bool) -> Iterator[str]:
    url = source.git
    if not _is_text(url) or len(url) > 2_000:
        yield f"source.git: expected a URL by https, ssh or file, or user@host:path, got {url!r}"
    else:
        try:
            read_git(url)
        except AddressRefused as error:
            yield f"source.git: {error}"
        if apart and url.startswith("file:"):
            yield f"source.git: expected https or ssh for a job that is kept apart, got {url!r}"
    if source.key and (not _is_text(source.key) or not KEY.fullmatch(source.key)):
        yield "source.key: expected the name of a secret, ${{ secrets.NAME }}, and never a key itself"
    ref = source.ref
    if ref and (not _is_text(ref) or not REF.fullmatch(ref) or ".." in ref):
        yield f"source.ref: expected a branch, a tag or a commit, got {ref!r}"


# ── bounds and parameters ────────────────────────────────────────────────────────────────────────────────────


def _bounds_problems(bounds: Bounds) -> Iterator[str]:
    for one in fields(bounds):
        value = getattr(bounds, one.name)
        if value is None and one.name != "output":
            continue
        length = isinstance(value, timedelta) and value > timedelta(0)
        number = type(value) is int and value > 0
        if not (length if one.name == "cpu" else number):
            yield f"bounds.{one.name}: expected more than zero, got {value!r}"


def _is_text(value: object) -> bool:
    """Whatever the annotation says, people pass other things."""
    return isinstance(value, str)


def _is_of(kind: str, value: object) -> bool:
    return isinstance(value, _KINDS[kind]) and (kind == "yes_or_no" or not isinstance(value, bool))
