"""Reads options as people write them (`timeout="20m"`, `catch_up="last"`) into a checked `Job`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from inspect import Parameter, Signature, signature
from typing import Any, Literal, TypedDict, TypeVar, get_args

from onthedot.define.check import check_job, params_problems
from onthedot.model.after import After
from onthedot.model.duration import Duration, parse_duration
from onthedot.model.errors import DefinitionError, did_you_mean, shown
from onthedot.model.job import CatchUp, Guarantee, Job, Limit, Overlap, Rate, Retry, Schedule
from onthedot.model.policies import CatchUpMode, OverlapMode
from onthedot.model.route import Priority
from onthedot.model.task import Bounds, Param, Task
from onthedot.runners.hooks import Hook
from onthedot.schedules import parse


class JobOptions(TypedDict, total=False):
    """The options of every job, as a program writes them. An option that is not given has the default of `Job`."""

    schedule: Schedule | str | None
    """The times at which the job runs: `otd.cron("0 9 * * 1-5")`, or text such as `"every 10m"` or `"@daily"`."""
    schedules: Sequence[Schedule | str] | None
    """Several schedules, instead of `schedule`."""
    after: After | str | Sequence[str] | None
    """The jobs after which this job runs: a name, several names, or `otd.After(…)`."""
    args: Mapping[str, Any]
    """The arguments of a run that has none of its own."""
    timeout: Duration | None
    """The longest time for one attempt: `"20m"`, seconds, or a timedelta."""
    retry: Retry | int | None
    """The number of tries of a run in all: a number, or `otd.Retry(…)`."""
    catch_up: CatchUp | CatchUpMode | None
    """The missed slots that still run: `"none"`, `"last"`, `"all"`, or `otd.CatchUp(…)`."""
    overlap: Overlap | OverlapMode | None
    """The rule for a slot that is due while an earlier run of the job has not ended: see `otd.Overlap`."""
    concurrency: Limit | int | None
    """The maximum number of runs that execute at once across the cluster: a number, or `otd.Limit(…)`."""
    rate: Rate | int | None
    """The maximum number of runs that start in a minute, or `otd.Rate(…)`."""
    guarantee: Guarantee | Literal["at_least_once", "at_most_once", "exactly_once"]
    """The promise about a run whose worker dies during an attempt: see `otd.Guarantee`."""
    max_recoveries: int
    """The number of times that a run is given to another worker after its worker died."""
    namespace: str
    """The namespace of the job. A name is unique in its namespace."""
    owner: str
    """The person or team that the job belongs to."""
    queue: str
    """The queue in which the runs wait. Each worker serves some queues."""
    priority: Priority
    """The priority of the runs in their queue. Runs with a higher priority start first."""
    labels: Iterable[str]
    """The labels that a worker must offer to run the job, such as `["gpu"]`."""
    on: Literal["any", "all"]
    """`any`: each slot runs on one worker. `all`: each slot runs once on every worker that serves the queue."""
    share: str
    """The argument whose values share a fair queue."""
    assignment: Literal["worker", "leader"]
    """`worker`: workers take the runs. `leader`: the leader chooses a worker for each run."""


class HandlerOptions(JobOptions, total=False):
    """The options of a job that calls a function of the program."""

    name: str
    """The name of the job. The default is the name of the function."""
    isolation: Literal["none", "process"]
    """`process`: each attempt runs in a child process."""
    on_success: Hook | Sequence[Hook] | None
    """A function, or several, called after each attempt that succeeded."""
    on_failure: Hook | Sequence[Hook] | None
    """A function, or several, called after each attempt that failed or timed out."""
    on_dead: Hook | Sequence[Hook] | None
    """A function, or several, called when a run has failed for good."""


class ProgramOptions(JobOptions, total=False):
    """The options of a job that runs programs."""

    isolation: Literal["none", "user", "sandbox"]
    """The isolation level of the program: see `docs/guides/isolation.md`."""
    bounds: Bounds | Mapping[str, Any] | None
    """The memory, time, processes and files that one attempt may use."""
    params: Sequence[Param] | None
    """The arguments that a run may have."""


F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = tuple(sorted({"name", *ProgramOptions.__annotations__}))
"""The names of all options of a job."""

_PLAIN = ("args", "assignment", "isolation", "max_recoveries", "namespace", "on", "owner", "priority", "queue", "share")


_INSTEAD = {
    "jitter": "give it to the schedule: schedule=otd.every('10m', jitter='30s')",
    "tz": "give it to the schedule: schedule=otd.cron('0 9 * * *', tz='Europe/Berlin')",
    "timezone": "give it to the schedule: schedule=otd.cron('0 9 * * *', tz='Europe/Berlin')",
    "cron": "write schedule=otd.cron('0 9 * * *')",
    "every": "write schedule=otd.every('10m')",
    "interval": "write schedule=otd.every('10m')",
    "tags": "write labels=[…] for what a worker must offer, or owner='…' for whose job it is",
    "retries": "write retry=3, or retry=otd.Retry(3, delay='10s')",
    "max_retries": "write retry=3, or retry=otd.Retry(3, delay='10s')",
    "attempts": "write retry=3, or retry=otd.Retry(3, delay='10s')",
    "max_instances": "write concurrency=1",
    "coalesce": "write catch_up='last'",
    "misfire_grace_time": "write catch_up=otd.CatchUp('last', window='1h')",
    "depends_on": "write after=['load', 'clean']",
}
"""Advice for options that a user may know from other schedulers."""


class _LeftOut:
    def __repr__(self) -> str:
        return "…"


def show_options(options: type) -> Callable[[F], F]:
    """Name each option in the signature of a function that takes them as `**options`, so that `help()` and shells show
    it.

    >>> @show_options(HandlerOptions)
    ... def define(**options: object) -> None: ...
    >>> "timeout" in signature(define).parameters
    True
    """

    def add(function: F) -> F:
        given = [one for one in signature(function).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        named = [
            Parameter(
                name, Parameter.KEYWORD_ONLY, default=_LeftOut(), annotation=getattr(kind, "__forward_arg__", kind)
            )
            for name, kind in options.__annotations__.items()
        ]
        function.__signature__ = Signature([*given, *named])  # type: ignore[attr-defined]
        return function

    return add


def build_job(task: Task, options: Mapping[str, Any], *, stored: bool = False, unread: Collection[str] = ()) -> Job:
    """Make a job from its task and options. All problems are raised in one error. `unread` names options that the
    caller could not read. Checks that need them are skipped."""
    name, unread = options.get("name", ""), set(unread)
    problems = [f"unknown option {key!r}{_instead(key)}" for key in options if key not in OPTIONS]
    given: dict[str, Any] = {key: options[key] for key in _PLAIN if key in options}
    for key, read in _READERS.items():
        if options.get(key) is not None:
            try:
                given[_FIELDS.get(key, key)] = read(options[key])
            except DefinitionError as error:
                problems.extend(error.problems)
                unread.add(key)
    if options.get("schedule") is not None and options.get("schedules") is not None:
        problems.append("expected either 'schedule' or 'schedules', got both")
    wrong = _type_problems(given)
    job = Job(name=name, task=task, **{key: value for key, value in given.items() if key not in wrong})
    problems += [*wrong.values(), *_problems(job, {*unread, *wrong}, stored=stored)]
    if problems:
        raise DefinitionError(problems, subject=f"job {name!r}")
    return job


def _instead(key: str) -> str:
    """Return advice for an unknown option."""
    return f"; {_INSTEAD[key]}" if key in _INSTEAD else did_you_mean(key, OPTIONS)


def _problems(job: Job, unread: set[str], *, stored: bool) -> list[str]:
    """Return the problems of a job, except those of options that could not be read."""
    try:
        check_job(job, stored=stored)
    except DefinitionError as error:
        hidden = params_problems(job, stored=stored) if unread & {"params", "args"} else ()
        return [problem for problem in error.problems if problem not in hidden]
    return []


def _type_problems(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the problems of types, by option."""
    expected = {"args": Mapping, "max_recoveries": int, "namespace": str, "owner": str, "queue": str, "share": str}
    return {
        key: f"{key}: expected {kind.__name__.lower()}, got {type(given[key]).__name__} {given[key]!r}"
        for key, kind in expected.items()
        if key in given and (not isinstance(given[key], kind) or isinstance(given[key], bool))
    }


def _read_schedule(value: object) -> Schedule:
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, get_args(Schedule)):
        schedule: Schedule = value
        return schedule
    if isinstance(value, list | tuple):
        raise DefinitionError(f"schedule: expected one schedule, got a {type(value).__name__}; write schedules=[…]")
    raise DefinitionError(f"schedule: expected cron(…), every(…), at(…) or text like 'every 10m', got {value!r}")


def _read_schedules(value: object) -> tuple[Schedule, ...]:
    if not isinstance(value, list | tuple):
        raise DefinitionError(f"schedules: expected a list of schedules, got {value!r}")
    return tuple(_read_schedule(item) for item in value)


def _read_after(value: object) -> After:
    if isinstance(value, After):
        return value
    if isinstance(value, str):
        return After(value)
    if not isinstance(value, list | tuple):
        raise DefinitionError(f"after: expected the names of jobs such as ['load', 'clean'], got {value!r}")
    return After(*value)


def _policy(kind: Any) -> Callable[[Any], Any]:
    """Return a reader for a policy, or for its first value. The policy checks the value."""
    return lambda value: value if isinstance(value, kind) else kind(value)


def _read_rate(value: Any) -> Rate:
    if isinstance(value, str):
        most, _, per = value.partition("/")
        period = per.strip() if per.strip()[:1].isdigit() else f"1{per.strip() or 'm'}"
        example = f"otd.Rate({most.strip()}, {period!r})" if most.strip().isdigit() else "otd.Rate(10, '1s')"
        raise DefinitionError(
            f"rate: expected how many runs start in a minute, or a Rate, got {value!r}; write {example}"
        )
    return value if isinstance(value, Rate) else Rate(value)


def _read_guarantee(value: object) -> Guarantee:
    try:
        return Guarantee(value)  # type: ignore[arg-type]  # its own error is turned into ours
    except ValueError:
        known = ", ".join(repr(str(choice)) for choice in Guarantee)
        raise DefinitionError(f"guarantee: expected one of {known}, got {value!r}") from None


def _read_labels(value: object) -> frozenset[str]:
    if (
        isinstance(value, str | Mapping)
        or not isinstance(value, Iterable)
        or not all(isinstance(one, str) for one in value)
    ):
        raise DefinitionError(f"labels: expected a list of texts such as ['gpu', 'region=eu'], got {value!r}")
    return frozenset(value)


def _read_bounds(value: object) -> Bounds:
    if isinstance(value, Bounds):
        return value
    names = [one.name for one in fields(Bounds)]
    if not isinstance(value, Mapping):
        raise DefinitionError(f"bounds: expected Bounds(…) or names with their values, got {value!r}")
    problems = [f"bounds: unknown {key!r}{did_you_mean(str(key), names)}" for key in value if key not in names]
    if problems:
        raise DefinitionError(problems)
    given = {name: _read_bound(name, value[name]) for name in names if name in value}
    return Bounds(**given)


def _read_bound(name: str, value: Any) -> Any:
    if value is None or name in ("processes", "files"):
        return value
    what = f"bounds.{name}"
    return parse_duration(value, what=what) if name == "cpu" else parse_size(value, what=what)


def _read_params(value: object) -> tuple[Param, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, Param) for one in value):
        raise DefinitionError(f"params: expected a list of Param(name=…, …), got {value!r}")
    return tuple(value)


def _read_timeout(value: Any) -> timedelta:
    return parse_duration(value, what="timeout")


_READERS: dict[str, Callable[[Any], Any]] = {
    "schedule": lambda value: (_read_schedule(value),),
    "schedules": _read_schedules,
    "after": _read_after,
    "retry": _policy(Retry),
    "catch_up": _policy(CatchUp),
    "overlap": _policy(Overlap),
    "concurrency": _policy(Limit),
    "rate": _read_rate,
    "guarantee": _read_guarantee,
    "labels": _read_labels,
    "timeout": _read_timeout,
    "bounds": _read_bounds,
    "params": _read_params,
}
_FIELDS = {"schedule": "schedules"}


_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)
_LONGEST_TEXT = 100  # characters
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(value: object, *, what: str = "size") -> int:
    """Return a number of bytes. `K`, `M`, `G`, `T` count by 1024, as memory does, with or without the `i`.

    >>> parse_size("512MiB"), parse_size("2G"), parse_size(4096)
    (536870912, 2147483648, 4096)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) and len(value) <= _LONGEST_TEXT else None
    if found is None:
        raise DefinitionError(f"{what}: expected an amount of bytes like '512M' or '2GiB', got {shown(value)}")
    return round(float(found[1]) * 2.0 ** (10 * _POWERS[found[2].upper()]))
