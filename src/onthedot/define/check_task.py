"""Finds every problem of a job's task that is not a Python handler: commands, steps, HTTP calls, containers.

The values of `${{ … }}` are filled in later, and checked again then. `check.py` reports where nothing may be filled in.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import get_args

from onthedot.model.addresses import AddressRefused, read_git, read_url
from onthedot.model.duration import LONGEST
from onthedot.model.job import Job
from onthedot.model.task import Bounds, Command, Container, Http, Mount, Source, Step, Steps, Task, When
from onthedot.rules.steps import variable

MOST_STEPS = 100
MOST_TEXT = 64 * 1024
MOST_WORDS = 1_000
_MOST_VARIABLES = 500
MOST_PATTERNS = 100
MOST_TRIES = 100

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_KEPT_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "accept-encoding"}
)
MOST_HEADERS = 100
_MOST_BODY = 256 * 1024
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")
NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_MARK = "${{"
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
REF = re.compile(r"(?!-)[A-Za-z0-9_./@+-]{1,200}")
KEY = re.compile(r"\$\{\{\s*secrets\.[A-Za-z_][A-Za-z0-9_]{0,99}\s*\}\}")


def task_problems(job: Job) -> Iterator[str]:
    """Every problem of the task."""
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
    yield from _call_problems(job.task)


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


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────────────────


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
    """Return whether the value is a text: users pass other things, whatever the annotation is."""
    return isinstance(value, str)


# ── HTTP calls and containers ────────────────────────────────────────────────────────────────────────────────


def _call_problems(task: Task) -> list[str]:
    """Return the problems of an HTTP call or a container; nothing for other tasks."""
    match task:
        case Http():
            return _http_problems(task)
        case Container():
            return _container_problems(task)
        case _:
            return []


def _is_status(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 200 <= value <= 599


def _http_problems(task: Http) -> list[str]:
    problems = []
    if _MARK not in task.url:  # otherwise `check.py` reports it
        try:
            read_url(task.url)
        except AddressRefused as error:
            problems.append(f"url: {error}")
    if task.method not in METHODS:
        problems.append(f"method: expected one of {', '.join(METHODS)}, got {task.method!r}")
    problems += _header_problems(task.headers)
    problems += [
        f"expect: expected statuses from 200 to 599, got {status!r}" for status in task.expect if not _is_status(status)
    ]
    return problems + _body_problems(task)


def _header_problems(headers: Mapping[str, str]) -> list[str]:
    problems = []
    if len(headers) > MOST_HEADERS:
        problems.append(f"headers: expected at most {MOST_HEADERS}, got {len(headers)}")
    for name, value in headers.items():
        if not HEADER.fullmatch(name):
            problems.append(f"headers: expected names such as X-Token, got {name!r}")
        elif name.lower() in _KEPT_HEADERS or name.lower().startswith("onthedot-"):
            problems.append(f"headers: expected none that is set for every request, got {name}; leave it out")
        elif not _is_text(value) or not _VALUE.fullmatch(value):
            problems.append(f"headers: expected one line of text for {name}, got something else")
    if len({name.lower() for name in headers}) < len(headers):
        problems.append("headers: expected each name once; upper and lower case are the same")
    return problems


def _body_problems(task: Http) -> list[str]:
    if task.body is None:
        return []
    if task.method in ("GET", "HEAD"):
        return [f"body: expected none with {task.method}, got one; choose POST, or leave it out"]
    try:
        size = len(json.dumps(task.body, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        return [f"body: expected JSON, got {type(task.body).__name__} ({error})"]
    return [f"body: expected at most {_MOST_BODY} characters of JSON, got {size}"] if size > _MOST_BODY else []


def _container_problems(task: Container) -> list[str]:
    problems = []
    if _MARK not in task.image and not IMAGE.fullmatch(task.image):
        problems.append(f"image: expected a name such as 'alpine:3' or 'registry/name@sha256:…', got {task.image!r}")
    if task.network in ("host", "slirp4netns", "pasta") or not NETWORK.fullmatch(task.network):
        problems.append(f"network: expected 'none', 'bridge' or the name of a network, got {task.network!r}")
    if task.user and not USER.fullmatch(task.user):
        problems.append(f"user: expected a name or number, or two as in '1000:1000', got {task.user!r}")
    problems += [
        f"argv: expected text without NUL, got {argument!r}"
        for argument in task.words
        if not _is_text(argument) or "\0" in argument
    ]
    problems += [
        f"env: expected names such as MODE and text without NUL and line breaks, got {name!r}"
        for name, value in task.env.items()
        if not VARIABLE.fullmatch(name) or not _is_text(value) or any(mark in value for mark in "\0\r\n")
    ]
    for mount in task.mounts:
        problems += _mount_problems(mount)
    targets = [mount.target for mount in task.mounts]
    if len(set(targets)) < len(targets):
        problems.append("mounts: expected each target once")
    return problems


def _mount_problems(mount: Mount) -> list[str]:
    return [
        f"mounts.{what}: expected an absolute path in its shortest form, got {path!r}"
        for what, path in (("source", mount.source), ("target", mount.target))
        if not path.startswith("/") or posixpath.normpath(path) != path or "\0" in path or path.startswith("//")
    ] + (["mounts.target: expected a directory below '/', got '/' itself"] if mount.target == "/" else [])
