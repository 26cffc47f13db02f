"""The policies of a job: overlap, catch-up, retry, limits and rates. Frozen data.

`rules/` decides what follows from a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from onthedot.model.duration import Duration, parse_duration
from onthedot.model.errors import DefinitionError, explains_arguments

OverlapMode = Literal["wait", "skip", "allow", "replace"]
CatchUpMode = Literal["none", "last", "all"]
Backoff = Literal["exponential", "linear", "fixed"]


@explains_arguments
@dataclass(frozen=True, slots=True, init=False)
class Overlap:
    """What happens to a slot that is due while an earlier run of the job has not ended, back-off included.

    `wait`: it starts when the earlier one has ended; at most `max_waiting` slots wait, later ones are skipped.
    `skip`: it is skipped. `replace`: the earlier one is cancelled, and the newest slot starts in its place.
    `allow`: they run side by side, at most `max_running` of them (None: any number).

    Only slots are skipped or replaced. Submitted runs and slots that are caught up wait, however many there are. After
    an outage `skip` and `replace` run the newest slot only, unless `catch_up` is "all" (table in docs/guarantees.md).

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


@explains_arguments
@dataclass(frozen=True, slots=True, init=False)
class Limit:
    """How many runs execute at once across the cluster: `Limit(10)` of the job, `Limit(10, key="tenant")` for each
    value of that argument, `Limit(10, name="mail-api")` of all jobs of the namespace that share the name.

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


@explains_arguments
@dataclass(frozen=True, slots=True, init=False)
class Rate:
    """How often runs start across the cluster, evenly spaced: `Rate(100)` in a minute of the job, `Rate(5, "1s",
    key="tenant")` for each value of that argument, `Rate(5, "1s", name="mail-api")` of all jobs of the namespace that
    share the name.

    Up to `burst` may start at once. A run that comes too early is given an instant and starts then; none is skipped.
    Each attempt counts: a retry takes its turn like any other. It counts when it may begin, at the later of `armed_at`
    and `due_at`.

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


@explains_arguments
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


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A job's pause in a file: that it is paused, why, and until when. With `on=False`: that it is not paused.

    >>> Pause(reason="the database moves").on
    True
    """

    on: bool = True
    reason: str = ""
    until: datetime | None = None


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


@explains_arguments
@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How often a run is tried in all, and how long apart: `Retry(3)` runs at most three times.

    `on` names the exception types that are worth another try (their subclasses count); empty means every one.
    Time-outs are retried unless `on_timeout` is False.

    The wait before the n-th retry is `delay` (`backoff="fixed"`), n times `delay` ("linear"), or `delay` doubled n - 1
    times ("exponential"), and never more than `max_delay`. With `jitter` it is a random part of that, from half to the
    whole: `Retry(3, delay="1s")` waits 0.5 to 1 s, then 1 to 2 s. Without, it is exactly that.

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
