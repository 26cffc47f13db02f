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
    """Decides about a slot that is due while an earlier run of the job has not ended. A run in back-off has not ended.

    `wait`: the slot starts after the earlier run has ended. At most `max_waiting` slots wait, and later ones are
    skipped. `skip`: the slot is skipped. `replace`: the earlier run is cancelled, and the newest slot starts in its
    place. `allow`: the runs execute at the same time, at most `max_running` of them (None: any number).

    Only slots are skipped or replaced. Submitted runs and slots that are caught up always wait. After an outage, `skip`
    and `replace` run only the newest slot, unless `catch_up` is "all" (table in docs/guarantees.md).

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
    """Limits how many runs execute at once across the cluster.

    `Limit(10)` limits the runs of the job. `Limit(10, key="tenant")` limits the runs for each value of that argument.
    `Limit(10, name="mail-api")` limits the runs of all jobs of the namespace that share the name.

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
    """Limits how often runs start across the cluster. The starts are evenly spaced.

    `Rate(100)` allows 100 starts of the job per minute. `Rate(5, "1s", key="tenant")` allows 5 per second for each
    value of that argument. `Rate(5, "1s", name="mail-api")` allows 5 per second for all jobs of the namespace that
    share the name.

    Up to `burst` runs may start at once. A run that exceeds the rate receives a later time and starts then. No run is
    skipped. Each attempt counts, including retries. It counts from the later of `armed_at` and `due_at`, which is the
    earliest time at which it can start.

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
    """Decides which missed slots still run: none, the last one, or all of them within `limit` slots and `window`.

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
    """The pause of a job as a file states it, with a reason and an end. `on=False` states that the job is not paused.

    >>> Pause(reason="the database moves").on
    True
    """

    on: bool = True
    reason: str = ""
    until: datetime | None = None


When = Callable[[int, tuple[str, ...], str], Duration | None]
"""A function that decides a retry. It takes the attempt, the error types and the error text. It returns the delay, or
None for no retry."""


class Rule(str):
    """The name of a function that decides retries. It also holds the function in the program that defines it."""

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
    """Sets how often a run is tried in all, and the delay between the tries: `Retry(3)` tries at most three times.

    `on` names the exception types that are retried, including their subclasses. If it is empty, all exceptions are
    retried. Time-outs are retried unless `on_timeout` is False.

    With `backoff="fixed"`, each delay is `delay`. With "linear", the n-th delay is n times `delay`. With "exponential",
    it is `delay` doubled n - 1 times. No delay is longer than `max_delay`. With `jitter`, the actual delay is random,
    from half of this value to all of it: `Retry(3, delay="1s")` waits 0.5 to 1 s, then 1 to 2 s. Without `jitter`, the
    delay is exactly this value.

    `when` is a function that replaces the back-off. Its arguments are the number of failures so far, the dotted names
    of the error's type and its bases, and the text of the error. It returns the delay, or None for no retry. It must be
    quick, and must return the same answer for the same arguments. A store keeps only its name. A program without the
    function uses the back-off.

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
