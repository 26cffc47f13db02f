"""What a user defines: a **job** is a name, a task, zero or more schedules, and policies.

Everything here is plain frozen data. What a schedule means is evaluated in `schedules/`, what follows from a
policy is decided in `policy/`, and text or code becomes a `Job` in `define/`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, TypeGuard, get_args

from onthedot.after import After
from onthedot.duration import Duration, parse_duration
from onthedot.errors import DefinitionError
from onthedot.route import DEFAULT_QUEUE, Priority, for_leader, on_node, route_name

Json = Any  # None, bool, int, float, str, lists and string-keyed dicts of these; checked in `define/arguments.py`


class JobState(StrEnum):
    """Where a job stands. `exhausted` means that no schedule of it will ever yield another slot."""

    ACTIVE = "active"
    PAUSED = "paused"
    EXHAUSTED = "exhausted"
    DELETED = "deleted"


class Guarantee(StrEnum):
    """What is promised about the attempts of a run when a node dies.

    >>> Guarantee("at_most_once").name
    'AT_MOST_ONCE'
    """

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


# ── schedules: rules that yield instants ─────────────────────────────────────────────────────────────────────


_SPARSE = {"sparse": True}  # not written while it is at its default: what was stored before it came stays equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """Wall-clock times in a zone, written as cron: 5 fields, 6 with seconds first, 4 as `second minute hour day`.

    `gap` says what becomes of a fixed time that a clock change leaves out, `fold` of one that it repeats.
    No slot lies before `start` or after `end`. `max_count` keeps that many slots in all, the first ones from `start`
    on, or without one after the schedule was created; skipped ones count. `run_once` keeps one.
    A slot's run is due up to `jitter` after the slot, by a distance that is always the same for that slot.
    Runs of its slots get the job's arguments, updated by `args`.
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
    spread: str = field(default="", compare=False, repr=False)  # what H stands for hangs on this; its job sets it


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Fixed steps of real time, counted from `anchor` (default: 1970-01-01 UTC), in both directions. The rest as in
    `Cron`."""

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
    """The next slot lies `delay` after the end of the last run; the first at `start`, or at once."""

    delay: timedelta
    start: datetime | None = None
    args: Mapping[str, Json] = field(default_factory=dict, hash=False, metadata=_SPARSE)
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """One instant, or several: `more` are those after the first, ascending."""

    instant: datetime
    more: tuple[datetime, ...] = field(default=(), metadata=_SPARSE)
    jitter: timedelta = field(default=timedelta(0), metadata=_SPARSE)
    args: Mapping[str, Json] = field(default_factory=dict, hash=False, metadata=_SPARSE)
    id: str = ""

    @property
    def instants(self) -> tuple[datetime, ...]:
        """All of them."""
        return (self.instant, *self.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """One instant, `delay` after the schedule was created."""

    delay: timedelta
    jitter: timedelta = field(default=timedelta(0), metadata=_SPARSE)
    args: Mapping[str, Json] = field(default_factory=dict, hash=False, metadata=_SPARSE)
    id: str = ""


Schedule = Cron | Every | FixedDelay | At | In


# ── tasks: what is to be done ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A Python function that the program has registered under this name."""

    handler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Nothing for a while: execution simulated, for trying schedules out.

    >>> task_name(Sleep(duration=timedelta(seconds=5)))
    'sleep'
    """

    duration: timedelta


Task = Call | Sleep


def task_name(task: Task) -> str:
    """What a worker must be able to do to run this task: a worker reserves only what it has a name for.

    >>> task_name(Call(handler="report"))
    'call:report'
    """
    match task:
        case Call(handler=handler):
            return f"call:{handler}"
        case Sleep():
            return "sleep"


# ── policies ─────────────────────────────────────────────────────────────────────────────────────────────────


OverlapMode = Literal["wait", "skip", "allow", "replace"]
CatchUpMode = Literal["none", "last", "all"]
Backoff = Literal["exponential", "linear", "fixed"]


@dataclass(frozen=True, slots=True, init=False)
class Overlap:
    """What happens to a slot that is due while an earlier run of the job has not ended, back-off included.

    `wait`: it starts when the earlier one has ended; at most `max_waiting` slots wait, later ones are skipped.
    `skip`: it is skipped. `replace`: the earlier one is cancelled, and the newest slot starts in its place.
    `allow`: they run side by side, at most `max_running` of them (None: any number).

    Only slots are skipped or replaced. Submitted runs and slots that are caught up wait, however many there are.

    >>> Overlap("wait", max_waiting=3).max_waiting
    3
    """

    mode: OverlapMode
    max_waiting: int
    max_running: int | None

    def __init__(
        self, mode: OverlapMode = "wait", *, max_waiting: int | None = None, max_running: int | None = None
    ) -> None:
        _check_choice("overlap", mode, get_args(OverlapMode))
        if max_waiting is not None and mode != "wait":
            raise DefinitionError(f"overlap.max_waiting: expected only with overlap 'wait', got it with {mode!r}")
        if max_running is not None and mode != "allow":
            raise DefinitionError(f"overlap.max_running: expected only with overlap 'allow', got it with {mode!r}")
        _check_whole("overlap.max_waiting", 1 if max_waiting is None else max_waiting, 0, 1_000_000)
        _check_whole("overlap.max_running", 1 if max_running is None else max_running, 1, 1_000_000)
        _set(self, mode=mode, max_waiting=1 if max_waiting is None else max_waiting, max_running=max_running)


@dataclass(frozen=True, slots=True, init=False)
class Limit:
    """How many runs execute at once across the cluster: `Limit(10)` of the job, `Limit(10, key="tenant")` for each
    value of that argument, `Limit(10, name="mail-api")` of all jobs that share the name.

    >>> Limit(10, key="tenant").most
    10
    """

    most: int
    key: str
    name: str

    def __init__(self, most: int, *, key: str = "", name: str = "") -> None:
        _check_whole("concurrency", most, 1, 1_000_000)
        for what, value in (("key", key), ("name", name)):
            if not isinstance(value, str):
                raise DefinitionError(f"concurrency.{what}: expected text, got {value!r}")
        _set(self, most=most, key=key, name=name)


@dataclass(frozen=True, slots=True, init=False)
class Rate:
    """How often runs start across the cluster, evenly spaced: `Rate(100)` in a minute of the job, `Rate(5, "1s",
    key="tenant")` for each value of that argument, `Rate(5, "1s", name="mail-api")` of all jobs that share the name.

    Up to `burst` may start at once. A run that comes too early is given an instant and starts then; none is skipped.
    Each attempt counts: a retry takes its turn like any other.

    >>> Rate(10, "1s", burst=3).per
    datetime.timedelta(seconds=1)
    """

    most: int
    per: timedelta
    burst: int
    key: str
    name: str

    def __init__(self, most: int, per: Duration = "1m", *, burst: int = 1, key: str = "", name: str = "") -> None:
        _check_whole("rate", most, 1, 1_000_000)
        _check_whole("rate.burst", burst, 1, 1_000_000)
        for what, value in (("key", key), ("name", name)):
            if not isinstance(value, str):
                raise DefinitionError(f"rate.{what}: expected text, got {value!r}")
        _set(self, most=most, per=parse_duration(per, what="rate.per"), burst=burst, key=key, name=name)


@dataclass(frozen=True, slots=True, init=False)
class CatchUp:
    """Which slots still run after their time: none, the last one, or all within `limit` slots and `window`.

    >>> CatchUp("all", limit=10, window="2h").window
    datetime.timedelta(seconds=7200)
    """

    mode: CatchUpMode
    limit: int
    window: timedelta

    def __init__(self, mode: CatchUpMode = "last", *, limit: int = 100, window: Duration = "1d") -> None:
        _check_choice("catch_up", mode, get_args(CatchUpMode))
        _check_whole("catch_up.limit", limit, 1, 1000)
        _set(self, mode=mode, limit=limit, window=parse_duration(window, what="catch_up.window"))


When = Callable[[int, tuple[str, ...], str], Duration | None]
"""Decides a retry: attempt, error types, error text -> how long to wait, or None."""


class Rule(str):
    """The name of a function that decides retries, and the function itself while it is in the program that has it."""

    function: When

    def __new__(cls, function: When) -> Rule:
        made = super().__new__(
            cls, f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"
        )
        made.function = function
        return made


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How often a run is tried in all, and how long apart: `Retry(3)` runs at most three times.

    `on` names the exception types that are worth another try (their subclasses count); empty means every one.
    Time-outs are retried unless `on_timeout` is False.

    `when` decides in place of the back-off: a function of the number of failures so far, the dotted names of the
    error's type and its bases, and the error's text. It answers how long to wait, or None: not worth another try. It
    must be quick, and answer the same to the same. A store keeps its name only: a program without it goes by the
    back-off.

    >>> Retry(5, delay="10s", on=(ConnectionError,)).on
    ('builtins.ConnectionError',)
    """

    attempts: int
    backoff: Backoff
    delay: timedelta
    max_delay: timedelta
    jitter: bool
    on: tuple[str, ...]
    on_timeout: bool
    when: str

    def __init__(
        self,
        attempts: int = 1,
        *,
        backoff: Backoff = "exponential",
        delay: Duration = "1s",
        max_delay: Duration = "5m",
        jitter: bool = True,
        on: Iterable[type[BaseException] | str] = (),
        on_timeout: bool = True,
        when: When | str = "",
    ) -> None:
        _check_whole("retry.attempts", attempts, 1, 1000)
        _check_choice("retry.backoff", backoff, get_args(Backoff))
        _set(
            self,
            attempts=attempts,
            backoff=backoff,
            delay=parse_duration(delay, what="retry.delay"),
            max_delay=parse_duration(max_delay, what="retry.max_delay"),
            jitter=bool(jitter),
            on=_type_names(on),
            on_timeout=bool(on_timeout),
            when=_rule(when),
        )


def _rule(when: When | str) -> str:
    if isinstance(when, str):
        return when
    if not callable(when):
        raise DefinitionError(f"retry.when: expected a function, got {when!r}")
    return Rule(when)


def _set(value: object, **fields: object) -> None:
    for name, field_value in fields.items():
        object.__setattr__(value, name, field_value)


def _check_choice(what: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise DefinitionError(f"{what}: expected one of {', '.join(map(repr, choices))}, got {value!r}")


def _check_whole(what: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise DefinitionError(f"{what}: expected a whole number from {least} to {most}, got {value!r}")


def _type_names(kinds: object) -> tuple[str, ...]:
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        raise DefinitionError(f"retry.on: expected a list of exception types, got {kinds!r}; write ({kinds!r},)")
    return tuple(_type_name(kind) for kind in kinds)


def _type_name(kind: type[BaseException] | str) -> str:
    if isinstance(kind, str):
        return kind if "." in kind else f"builtins.{kind}"
    given: object = kind  # whatever the annotation says, people pass other things
    if isinstance(given, type) and issubclass(given, BaseException):
        return f"{given.__module__}.{given.__qualname__}"
    raise DefinitionError(f"retry.on: expected exception types or their dotted names, got {given!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One definition. Two jobs with equal fields are the same definition.

    >>> Job(name="nap", task=Sleep(duration=timedelta(seconds=5))).overlap is None
    True
    """

    name: str
    task: Task
    schedules: tuple[Schedule, ...] = ()
    after: After | None = None  # the jobs that it runs after
    args: Mapping[str, Json] = field(default_factory=dict)
    namespace: str = "default"
    owner: str = ""
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    catch_up: CatchUp = CatchUp()
    overlap: Overlap | None = None  # None: wait with schedules, allow without
    concurrency: Limit | None = None
    rate: Rate | None = None
    retry: Retry = Retry()
    timeout: timedelta | None = None
    max_recoveries: int = 3
    queue: str = DEFAULT_QUEUE
    priority: Priority = "normal"
    labels: frozenset[str] = frozenset()  # what a worker must offer
    on: Literal["any", "all"] = "any"  # all: each slot runs once on every worker that serves the queue
    share: str = ""  # the argument by whose value its queue is shared, if that is shared fairly
    isolation: Literal["none", "process"] = "none"  # process: in a child process of the worker, which can be killed
    assignment: Literal["worker", "leader"] = "worker"  # who finds a place for a run: workers take, or the leader gives

    def __post_init__(self) -> None:
        """`H` in its cron expressions is spread by what the job is called: every `Job` says so to its own schedules."""
        if any(_has_spread(schedule) for schedule in self.schedules):
            spread = job_name(self)
            told = (replace(one, spread=spread) if _has_spread(one) else one for one in self.schedules)
            object.__setattr__(self, "schedules", tuple(told))


_SPREAD = re.compile(r"(?<![A-Za-z])[Hh](?![A-Za-z])")


def _has_spread(schedule: Schedule) -> TypeGuard[Cron]:
    return isinstance(schedule, Cron) and bool(_SPREAD.search(str(schedule.expression)))


def job_name(job: Job) -> str:
    """The name that no other job has: what spreads `H` and jitter, the same in every store and for ever.

    >>> job_name(Job(name="report", task=Call(handler="report")))
    'default/report'
    """
    return f"{job.namespace}/{job.name}"


def canonical(arguments: Mapping[str, Json]) -> str:
    """Arguments as the one JSON text that equal ones share.

    >>> canonical({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return json.dumps(dict(arguments), sort_keys=True, separators=(",", ":"), allow_nan=False)


def slot_args(job: Job, schedule: Schedule) -> str | None:
    """The arguments of a schedule's runs: the job's, updated by its own, in canonical JSON. None: the job's own.

    >>> nightly = Cron(expression="@daily", args={"full": True})
    >>> slot_args(Job(name="j", task=Call(handler="j"), args={"full": False, "n": 1}), nightly)
    '{"full":true,"n":1}'
    """
    return canonical({**job.args, **schedule.args}) if schedule.args else None


def share_of(job: Job, args: str | None) -> str:
    """Whose share a run with these arguments (canonical JSON; None: the job's own) is taken from.

    >>> share_of(Job(name="j", task=Call(handler="j"), share="tenant"), '{"tenant":"t1"}')
    't1'
    """
    if not job.share:
        return ""
    value = (json.loads(args) if args is not None else job.args).get(job.share)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def route_of(job: Job, target: str = "") -> str:
    """Where runs of this job wait; those with a target, for the node of that name.

    >>> route_of(Job(name="j", task=Call(handler="j"), queue="mail", labels=frozenset({"gpu"})))
    'mail\\tgpu'
    """
    if target:
        return on_node(target)
    route = route_name(job.queue, job.labels)
    return for_leader(route) if job.assignment == "leader" else route


def overlap_of(job: Job) -> Overlap:
    """The overlap policy in force: a job with schedules waits for itself, one without does not.

    >>> overlap_of(Job(name="j", task=Call(handler="j"))).mode
    'allow'
    """
    if job.overlap is not None:
        return job.overlap
    return Overlap("wait") if job.schedules else Overlap("allow")


def is_gated(job: Job) -> bool:
    """Whether a run of this job has gates to pass before it starts."""
    overlap = overlap_of(job)
    limited = job.concurrency is not None or job.rate is not None
    return limited or overlap.mode != "allow" or overlap.max_running is not None


@dataclass(slots=True)
class JobRecord:
    """A job as a store keeps it. Shared by every run and lease that refers to this revision; never changed."""

    id: int
    revision: int
    job: Job
    state: JobState
    created_at: int
    updated_at: int
    pause_reason: str = ""
    paused_until: int | None = None
