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
"""The isolation level of an attempt: see `docs/guides/isolation.md`."""

LEVELS: tuple[Level, ...] = ("none", "process", "user", "sandbox")

When = Literal["success", "failure", "always"]


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Calls a Python function that the program has registered under this name."""

    handler: str


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Does nothing for a while. It simulates execution, to try schedules out.

    >>> task_name(Sleep(duration=timedelta(seconds=5)))
    'sleep'
    """

    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Noop:
    """Does nothing at all. It is for measuring, and as a meeting point of jobs that run after others."""


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Runs a program with its arguments, or a script for `/bin/sh`. Exactly one of the two is given.

    `directory` is inside the run's workspace, or an absolute path. `env` is added to a small clean environment. The
    command succeeds with exit code 0.

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
    """One of several commands that share a workspace. It has the fields of `Command`, and some more.

    `when` decides if the step runs. `success`: all steps before it succeeded. `failure`: a step before it failed.
    `always`: it runs in any case. After a time-out or a cancellation it then has `Settings.kill_after` to end.
    `timeout` limits one try of the step. `attempts` is the number of tries in all, and `delay` the time between them.
    These three apply to the step, in addition to those of the job.

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
    """A git repository that is checked out into the workspace before the first step.

    Without `ref`, the default branch is used. `key` names the secret for access, `${{ secrets.NAME }}`: a private key
    for ssh, a token or `user:password` for https.

    >>> Source(git="https://example.org/shop.git", ref="v2").ref
    'v2'
    """

    git: str
    ref: str = ""
    key: str = ""


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Runs commands in order, in one workspace. Each finished step is a checkpoint: another worker continues after it.

    `artifacts` are patterns of files that are kept when the last step has ended.

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
    """Sends one HTTP request. It succeeds with an expected status (default: 200 to 299).

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
    """Mounts a directory of the worker's machine in a container. The operator of the worker must allow the directory.

    >>> Mount(source="/srv/data", target="/data").writable
    False
    """

    source: str
    target: str
    writable: bool = False


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Runs a container of this image. Without `argv`, it runs the image's own command.

    `entrypoint` replaces the program of the image. `argv` then has its arguments.

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
        """The arguments of the container. If the job names a program, they start with it.

        >>> Container(image="alpine:3", entrypoint="sh", argv=("-c", "date")).words
        ('sh', '-c', 'date')
        """
        return (self.entrypoint, *self.argv) if self.entrypoint else self.argv


Task = Call | Sleep | Noop | Command | Steps | Http | Container


def task_name(task: Task) -> str:
    """Return the kind of task, as a worker names it among its abilities.

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
    """The processor time of each process."""
    memory: int | None = 2 << 30
    """The memory in bytes: of all processes together with cgroups, and of each process without."""
    processes: int | None = 256
    files: int | None = 1024
    """`processes` is the number of processes at once. `files` is the number of open files in one process."""
    file_bytes: int | None = 4 << 30
    """The size of the largest file that may be written."""
    output: int = 10 << 20
    """The number of bytes of output that are kept for an attempt: half from its beginning, and half from its end."""


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
