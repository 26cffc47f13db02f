"""Hooks: functions of this program that are told how attempts ended. Kept in code, never in a store.

Best effort: a hook is called once for each verdict that the store has accepted, on the node that brought it there,
after it is stored. A node that dies in between calls none; what a reaper decides about a dead node's runs calls none.
What a hook raises is an event (`HookFailed`) and changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from onthedot.clock import to_datetime
from onthedot.model.errors import DefinitionError
from onthedot.model.run import RunState
from onthedot.model.verdict import Finish, OutcomeKind, Verdict

KINDS = ("on_success", "on_failure", "on_dead")

Hook = Callable[["Ended"], Any]
H = TypeVar("H", bound=Hook)


class Ended(NamedTuple):
    """What a hook is told: how an attempt ended, and what follows from it.

    >>> import asyncio, onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> told = asyncio.Event()
    >>> async def thank(ended: otd.Ended) -> None:
    ...     print(ended.job, ended.outcome.value, ended.result)
    ...     told.set()
    >>> @sched.job(on_success=thank)
    ... async def add(a: int, b: int) -> int:
    ...     return a + b
    >>> async def main() -> None:
    ...     async with sched:
    ...         await sched.submit(add.call(1, 2))
    ...         await told.wait()
    >>> asyncio.run(main())
    add succeeded 3
    """

    job: str
    run_id: int
    attempt: int
    outcome: OutcomeKind
    state: RunState  # of the run, from now on
    reason: str
    error: str | None
    result: Any  # what the handler returned
    again_at: datetime | None  # when it is tried again
    args: Mapping[str, Any]  # of its run


def ended(finish: Finish, args: Mapping[str, Any]) -> Ended:
    """A finish as hooks see it."""
    lease, verdict = finish.lease, finish.verdict
    return Ended(
        lease.record.job.name,
        lease.run_id,
        lease.attempt,
        verdict.outcome,
        verdict.state,
        verdict.reason,
        verdict.error,
        None if verdict.result is None else json.loads(verdict.result),
        to_datetime(verdict.due_at) if verdict.state is RunState.SCHEDULED else None,
        args,
    )


def kinds_of(verdict: Verdict) -> tuple[str, ...]:
    """Which hooks a verdict is for.

    >>> kinds_of(Verdict(RunState.DEAD, OutcomeKind.FAILED, failed=True))
    ('on_failure', 'on_dead')
    """
    if verdict.state is RunState.SUCCEEDED:
        return ("on_success",)
    failure = ("on_failure",) if verdict.outcome in (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT) else ()
    dead = ("on_dead",) if verdict.state in (RunState.DEAD, RunState.LOST) else ()
    return failure + dead


class Hooks:
    """The hooks of a program, of single jobs and of all: coroutines for the application's loop, functions for a thread.

    >>> hooks = Hooks()
    >>> @hooks.on_dead
    ... def tell(ended: Ended) -> None:
    ...     print(ended.job, ended.error)
    >>> hooks.wanted
    True
    """

    def __init__(self) -> None:
        self._hooks: dict[tuple[str, str], list[Hook]] = {}  # by kind and job; no job: all of them

    def on_success(self, hook: H) -> H:
        """Call this after each attempt that succeeded, of any job."""
        return self._add("on_success", "", hook)

    def on_failure(self, hook: H) -> H:
        """Call this after each attempt that failed or timed out, of any job, whether it is tried again or not."""
        return self._add("on_failure", "", hook)

    def on_dead(self, hook: H) -> H:
        """Call this for each run that has failed for good, or is lost under at_most_once, of any job."""
        return self._add("on_dead", "", hook)

    def without(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """A job's options without its hooks, which are no part of its definition; `DefinitionError` if one is bad."""
        for kind in KINDS:
            _listed(kind, options.get(kind))
        return {key: value for key, value in options.items() if key not in KINDS}

    def take(self, job: str, options: Mapping[str, Any]) -> None:
        """Keep the hooks among a job's options: one of each kind, or a list."""
        for kind in KINDS:
            for hook in _listed(kind, options.get(kind)):
                self._add(kind, job, hook)

    @property
    def wanted(self) -> bool:
        """Whether there is any hook at all."""
        return bool(self._hooks)

    def calls(self, finish: Finish) -> list[tuple[str, Hook]]:
        """The hooks to be called for a finish, each with its kind: the job's own first."""
        name = finish.lease.record.job.name
        return [
            (kind, hook)
            for kind in kinds_of(finish.verdict)
            for job in (name, "")
            for hook in self._hooks.get((kind, job), ())
        ]

    def _add(self, kind: str, job: str, hook: H) -> H:
        self._hooks.setdefault((kind, job), []).extend(_listed(kind, hook))
        return hook


def _listed(kind: str, given: object) -> list[Hook]:
    if given is None:
        return []
    hooks: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
    for hook in hooks:
        if not callable(hook):
            raise DefinitionError(f"{kind}: expected a function, got {hook!r}")
    return hooks
