"""Tasks: what a job does. Frozen data, as a part of the definition.

A Python handler is named here and registered in code. Programs (commands, steps) run in process trees of their own
(`runners/program/`); HTTP calls and containers have their runners. A run fills in marked text: `${{ params.name }}` in
elements of an argument list and in values of the environment, `${{ secrets.NAME }}` in values of the environment and of
headers only. Nothing is ever put into the text of a shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from onthedot.model.errors import explains_arguments

Json = Any  # None, bool, int, float, str, lists and string-keyed dicts of these; checked in `define/arguments.py`

Level = Literal["none", "process", "user", "sandbox"]
"""How far an attempt is kept apart: see `docs/guides/isolation.md`."""

LEVELS: tuple[Level, ...] = ("none", "process", "user", "sandbox")

When = Literal["success", "failure", "always"]


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A Python function that the program has registered under this name."""

    handler: str


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Does nothing for a while: simulates execution, for trying schedules out.

    >>> task_name(Sleep(duration=timedelta(seconds=5)))
    'sleep'
    """

    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Noop:
    """Does nothing at all: for measuring, and as a meeting point of jobs that run after others."""


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments, or (exactly one of the two) a text for `/bin/sh`.

    `directory` is inside the run's workspace, or an absolute path. `env` is added to a small clean environment.
    It succeeds with exit code 0.

    >>> task_name(Command(argv=("backup", "--all")))
    'command'
    """

    argv: tuple[str, ...] = ()
    script: str = ""
    directory: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One of several commands that share a workspace, as `Command`.

    `when` says after what it runs: while all steps before it succeeded, only after a failure, or always, which is also
    when the attempt was timed out or cancelled, within `Settings.kill_after`. `timeout` ends it, and it is tried
    `attempts` times in all, `delay` apart; these are its own, beside the job's.

    >>> Step(name="clean", script="rm -rf build", when="always").attempts
    1
    """

    name: str
    argv: tuple[str, ...] = ()
    script: str = ""
    directory: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    when: When = "success"
    timeout: timedelta | None = None
    attempts: int = 1
    delay: timedelta = timedelta(seconds=1)


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is checked out into the workspace before the first step. Without `ref`: the default branch. `key` names the
    secret that opens it, `${{ secrets.NAME }}`: a private key for ssh, a token or `user:password` for https.

    >>> Source(git="https://example.org/shop.git", ref="v2").ref
    'v2'
    """

    git: str
    ref: str = ""
    key: str = ""


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Commands in order, in one workspace. A step that has ended is a checkpoint: another worker continues
    after it. `artifacts` are patterns of files that are kept when the last step has ended.

    >>> task_name(Steps(steps=(Step(name="build", script="make"),)))
    'steps'
    """

    steps: tuple[Step, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    source: Source | None = None
    artifacts: tuple[str, ...] = ()


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """One HTTP request. It succeeds with a status that is expected (default: 200 to 299).

    >>> task_name(Http(url="https://example.com/hook", method="POST", body={"done": True}))
    'http'
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json = None
    expect: tuple[int, ...] = ()


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A directory of the worker's machine inside a container, if its operator allows that.

    >>> Mount(source="/srv/data", target="/data").writable
    False
    """

    source: str
    target: str
    writable: bool = False


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of this image. Without `argv` it runs the image's own command. With `entrypoint`, this program starts
    in place of the image's own, and `argv` are its arguments.

    >>> task_name(Container(image="alpine:3", argv=("echo", "hello")))
    'container'
    """

    image: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    network: str = "none"
    mounts: tuple[Mount, ...] = ()
    user: str = ""
    entrypoint: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments, after the program that starts with them if the job names one.

        >>> Container(image="alpine:3", entrypoint="sh", argv=("-c", "date")).words
        ('sh', '-c', 'date')
        """
        return (self.entrypoint, *self.argv) if self.entrypoint else self.argv


Task = Call | Sleep | Noop | Command | Steps | Http | Container


def task_name(task: Task) -> str:
    """The kind of task, in the word by which a worker offers it.

    >>> task_name(Call(handler="report")), task_name(Noop())
    ('call:report', 'noop')
    """
    match task:
        case Call(handler=handler):
            return f"call:{handler}"
        case _:
            return type(task).__name__.lower()


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of one process tree of a job. None: no limit.

    >>> Bounds(memory=512 << 20).processes
    256
    """

    cpu: timedelta | None = timedelta(hours=1)
    """Of processor time, of each process."""
    memory: int | None = 2 << 30
    """In bytes: of all processes together where cgroups are, of each of them elsewhere."""
    processes: int | None = 256
    files: int | None = 1024
    """Open at a time, in one process."""
    file_bytes: int | None = 4 << 30
    """The largest file that may be written."""
    output: int = 10 << 20
    """How many bytes of output are kept of an attempt: the first half of them, and the last."""


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A declared argument of a job's runs. No others are accepted.

    `choices` and `pattern` limit the values. A pattern is for text, and matches the whole value.

    >>> Param(name="region", kind="text", default="eu", choices=("eu", "us")).required
    False
    >>> Param(name="version", pattern="v[0-9]+[.][0-9]+").choices
    ()
    """

    name: str
    kind: Literal["text", "number", "whole", "yes_or_no"] = "text"
    default: Json = None
    choices: tuple[Json, ...] = ()
    required: bool = False
    pattern: str = ""
