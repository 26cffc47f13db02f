"""Defines the job: a name, a task, zero or more schedules, and policies.

Everything here is plain frozen data. `schedules/` evaluates a schedule, `rules/` decides what follows from a policy,
and `define/` turns text or code into a `Job`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, TypeGuard

from onthedot.model.after import After
from onthedot.model.errors import explains_arguments
from onthedot.model.policies import Backoff as Backoff
from onthedot.model.policies import CatchUp as CatchUp
from onthedot.model.policies import CatchUpMode as CatchUpMode
from onthedot.model.policies import Limit as Limit
from onthedot.model.policies import Overlap as Overlap
from onthedot.model.policies import OverlapMode as OverlapMode
from onthedot.model.policies import Pause as Pause
from onthedot.model.policies import Rate as Rate
from onthedot.model.policies import Retry as Retry
from onthedot.model.policies import Rule as Rule
from onthedot.model.policies import When as When
from onthedot.model.route import DEFAULT_QUEUE, Priority, for_leader, on_node, route_name
from onthedot.model.task import Bounds, Level, Param, Task, task_name
from onthedot.model.task import Call as Call
from onthedot.model.task import Json as Json
from onthedot.model.task import Sleep as Sleep


class JobState(StrEnum):
    """The state of a job. `exhausted` means that none of its schedules will ever yield another slot."""

    ACTIVE = "active"
    PAUSED = "paused"
    EXHAUSTED = "exhausted"
    DELETED = "deleted"


class Guarantee(StrEnum):
    """The promise about the attempts of a run when a node dies.

    >>> Guarantee("at_most_once").name
    'AT_MOST_ONCE'
    """

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"
    EXACTLY_ONCE = "exactly_once"  # effects and completion in one commit of the store: see `Context.transaction`


# ── schedules: rules that yield instants ─────────────────────────────────────────────────────────────────────


_SPARSE = {"sparse": True}  # a default value is not written, so older stored definitions stay equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """Wall-clock times in a time zone, written as cron. 5 fields are usual. 6 fields have seconds first. 4 fields are
    `second minute hour day`, which `cron()` accepts only with `seconds=True`.

    `gap` decides about a fixed time that a clock change leaves out, and `fold` about one that it repeats. No slot is
    before `start` or after `end`. `max_count` is the maximum number of slots in all, counted from `start`, or from the
    creation of the schedule. Skipped slots count. `run_once` is the same as a maximum of one. A run is due up to
    `jitter` after its slot. The delay is always the same for the same slot. Runs of this schedule receive the arguments
    of the job, updated by `args`.
    """

    expression: str
    tz: str = "UTC"
    gap: Literal["run_after", "skip"] = "run_after"
    fold: Literal["first", "second", "both"] = "first"
    run_once: bool = False
    start: datetime | None = field(default=None, metadata=_SPARSE)
    end: datetime | None = field(default=None, metadata=_SPARSE)
    max_count: int | None = field(default=None, metadata=_SPARSE)
    jitter: timedelta = field(default=timedelta(0), metadata=_SPARSE)
    args: Mapping[str, Json] = field(default_factory=dict, hash=False, metadata=_SPARSE)
    id: str = ""
    spread: str = field(default="", compare=False, repr=False)  # decides the value of H; the job sets it


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Fixed steps of real time, counted from `anchor` (default: 1970-01-01 UTC) in both directions. The other fields
    are those of `Cron`."""

    interval: timedelta
    anchor: datetime | None = None
    run_once: bool = False
    start: datetime | None = field(default=None, metadata=_SPARSE)
    end: datetime | None = field(default=None, metadata=_SPARSE)
    max_count: int | None = field(default=None, metadata=_SPARSE)
    jitter: timedelta = field(default=timedelta(0), metadata=_SPARSE)
    args: Mapping[str, Json] = field(default_factory=dict, hash=False, metadata=_SPARSE)
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedDelay:
    """The next slot is `delay` after the end of the last run. The first slot is at `start`, or at once."""

    delay: timedelta
    start: datetime | None = None
    args: Mapping[str, Json] = field(default_factory=dict, hash=False, metadata=_SPARSE)
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """One instant, or several. `more` has the instants after the first, in ascending order."""

    instant: datetime
    more: tuple[datetime, ...] = field(default=(), metadata=_SPARSE)
    jitter: timedelta = field(default=timedelta(0), metadata=_SPARSE)
    args: Mapping[str, Json] = field(default_factory=dict, hash=False, metadata=_SPARSE)
    id: str = ""

    @property
    def instants(self) -> tuple[datetime, ...]:
        """All instants, in ascending order."""
        return (self.instant, *self.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """One instant, `delay` after the schedule was created."""

    delay: timedelta
    jitter: timedelta = field(default=timedelta(0), metadata=_SPARSE)
    args: Mapping[str, Json] = field(default_factory=dict, hash=False, metadata=_SPARSE)
    id: str = ""


Schedule = Cron | Every | FixedDelay | At | In


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One definition. Two jobs with equal fields are the same definition.

    >>> Job(name="nap", task=Sleep(duration=timedelta(seconds=5))).overlap is None
    True
    """

    name: str
    task: Task
    schedules: tuple[Schedule, ...] = ()
    after: After | None = None  # its parents
    args: Mapping[str, Json] = field(default_factory=dict)
    namespace: str = "default"
    owner: str = ""
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    catch_up: CatchUp = CatchUp()  # noqa: RUF009 - frozen
    overlap: Overlap | None = None  # None: wait with schedules, allow without
    concurrency: Limit | None = None
    rate: Rate | None = None
    retry: Retry = Retry()  # noqa: RUF009 - frozen
    timeout: timedelta | None = None
    max_recoveries: int = 3
    queue: str = DEFAULT_QUEUE
    priority: Priority = "normal"
    labels: frozenset[str] = frozenset()  # the labels that a worker must offer
    on: Literal["any", "all"] = "any"  # all: each slot runs once on every worker that serves the queue
    share: str = ""  # the argument by whose value its queue is shared, if that is shared fairly
    isolation: Level = "none"  # process: a handler in a child process; user, sandbox: how a program is kept apart
    assignment: Literal["worker", "leader"] = "worker"  # who chooses the worker of a run
    bounds: Bounds = Bounds()  # noqa: RUF009 - frozen; for programs: the limits of one attempt
    params: tuple[Param, ...] = ()  # for tasks without a handler: the arguments that a run may have
    # The pause that a file states (None: nothing). It is not part of the definition. Storing the job applies it.
    paused: Pause | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Give each schedule the name of the job. `H` in a cron expression is spread by this name."""
        if any(_has_spread(schedule) for schedule in self.schedules):
            spread = job_name(self)
            told = (replace(one, spread=spread) if _has_spread(one) else one for one in self.schedules)
            object.__setattr__(self, "schedules", tuple(told))


_SPREAD = re.compile(r"(?<![A-Za-z])[Hh](?![A-Za-z])")


def _has_spread(schedule: Schedule) -> TypeGuard[Cron]:
    return isinstance(schedule, Cron) and bool(_SPREAD.search(str(schedule.expression)))


def ability_of(job: Job) -> str:
    """Return the ability that a worker needs to run this job. A worker reserves only runs for its own abilities.

    >>> ability_of(Job(name="j", task=Call(handler="report")))
    'call:report'
    >>> from onthedot.model.task import Command
    >>> ability_of(Job(name="j", task=Command(script="make"), isolation="sandbox"))
    'command@sandbox'
    """
    apart = "" if job.isolation in ("none", "process") else f"@{job.isolation}"
    return task_name(job.task) + apart


def job_name(job: Job) -> str:
    """Return the name that no other job has. It spreads `H` and jitter, and is the same in every store for ever.

    >>> job_name(Job(name="report", task=Call(handler="report")))
    'default/report'
    """
    return f"{job.namespace}/{job.name}"


_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
# An encoder makes its part in C anew for each text, which is half of the time for a few arguments. So we keep one.
_make = getattr(json.encoder, "c_make_encoder", None)
_text = json.encoder.encode_basestring_ascii
_pieces = None if _make is None else _make(None, _encoder.default, _text, None, ":", ",", True, False, False)


def canonical(arguments: Mapping[str, Json]) -> str:
    """Return arguments as JSON text. Equal arguments give the same text.

    >>> canonical({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    plain = arguments if type(arguments) is dict else dict(arguments)
    return _encoder.encode(plain) if _pieces is None else "".join(_pieces(plain, 0))


def slot_args(job: Job, schedule: Schedule) -> str | None:
    """Return the arguments of a schedule's runs in canonical JSON: the job's arguments, updated by the schedule's.
    None: the job's own.

    >>> nightly = Cron(expression="@daily", args={"full": True})
    >>> slot_args(Job(name="j", task=Call(handler="j"), args={"full": False, "n": 1}), nightly)
    '{"full":true,"n":1}'
    """
    return canonical({**job.args, **schedule.args}) if schedule.args else None


def share_of(job: Job, args: str | None) -> str:
    """Return the share of a fair queue that a run with these arguments belongs to (canonical JSON; None: the job's
    own).

    >>> share_of(Job(name="j", task=Call(handler="j"), share="tenant"), '{"tenant":"t1"}')
    't1'
    """
    if not job.share:
        return ""
    value = (json.loads(args) if args is not None else job.args).get(job.share)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def route_of(job: Job, target: str = "") -> str:
    """Return the route in which runs of this job wait. With a target, it is the route of the node with that name.

    >>> route_of(Job(name="j", task=Call(handler="j"), queue="mail", labels=frozenset({"gpu"})))
    'mail\\tgpu'
    """
    if target:
        return on_node(target)
    route = route_name(job.queue, job.labels)
    return for_leader(route) if job.assignment == "leader" else route


_WAIT, _ALLOW = Overlap("wait"), Overlap("allow")


def overlap_of(job: Job) -> Overlap:
    """Return the overlap policy in force. The default is `wait` for a job with schedules, and `allow` for one without.

    >>> overlap_of(Job(name="j", task=Call(handler="j"))).mode
    'allow'
    """
    return job.overlap or (_WAIT if job.schedules else _ALLOW)


def is_gated(job: Job) -> bool:
    """True if a run of this job must pass gates before it starts."""
    return holds_gates(job) or job.rate is not None


def holds_gates(job: Job) -> bool:
    """True if a run of this job holds gates while it runs. A run holds nothing for a rate."""
    overlap = overlap_of(job)
    return job.concurrency is not None or overlap.mode != "allow" or overlap.max_running is not None


@dataclass(slots=True)
class JobRecord:
    """A job as a store keeps it. All runs and leases of this revision share it, and nothing changes it."""

    id: int
    revision: int
    job: Job
    state: JobState
    created_at: int
    updated_at: int
    pause_reason: str = ""
    paused_until: int | None = None


def argument_keys(job: Job) -> list[tuple[str, str]]:
    """Return the arguments by whose value runs are limited or shared. Each comes with the option that names it.

    >>> from onthedot.model.task import Noop
    >>> argument_keys(Job(name="a", task=Noop(), share="tenant"))
    [('share', 'tenant')]
    """
    named = [
        ("concurrency.key", job.concurrency.key if job.concurrency else ""),
        ("rate.key", job.rate.key if job.rate else ""),
        ("share", job.share),
    ]
    return [(option, key) for option, key in named if key]
