"""Calls hooks: functions of this program, for attempts that have ended. A store never holds hooks.

Hooks are best effort. A hook is called once for each verdict that the store has accepted, on the node that stored it.
If that node dies before the call, no hook is called. Verdicts of the reaper about a dead node's runs call no hooks
either. If a hook raises, we emit an event (`HookFailed`), and nothing else changes.

Coroutines are called on the application's loop, functions on one thread for all. Verdicts never wait for a hook. A slow
function delays only the other functions among the hooks.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from onthedot.clock import SECOND, Micros, to_datetime
from onthedot.model.errors import DefinitionError
from onthedot.model.events import Events, HookFailed
from onthedot.model.run import RunState
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.runners.outcomes import failed
from onthedot.runners.params import arguments_of

KINDS = ("on_success", "on_failure", "on_dead")

Hook = Callable[["Ended"], Any]
H = TypeVar("H", bound=Hook)


class Ended(NamedTuple):
    """The argument of a hook: how an attempt ended, and what follows from it.

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
    state: RunState  # the new state of the run
    reason: str
    error: str | None
    result: Any  # what the handler returned
    again_at: datetime | None  # when the next attempt starts
    args: Mapping[str, Any]  # the arguments of its run


def ended(finish: Finish, args: Mapping[str, Any]) -> Ended:
    """Return the argument of the hooks for a finish."""
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
    """Return the kinds of hooks that are called for a verdict.

    >>> kinds_of(Verdict(RunState.DEAD, OutcomeKind.FAILED, failed=True))
    ('on_failure', 'on_dead')
    """
    if verdict.state is RunState.SUCCEEDED:
        return ("on_success",)
    failure = ("on_failure",) if verdict.outcome in (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT) else ()
    dead = ("on_dead",) if verdict.state in (RunState.DEAD, RunState.LOST) else ()
    return failure + dead


class Hooks:
    """The hooks of a program: of single jobs, and of all jobs.

    >>> hooks = Hooks()
    >>> @hooks.on_dead
    ... def tell(ended: Ended) -> None:
    ...     print(ended.job, ended.error)
    >>> hooks.wanted
    True
    """

    def __init__(self) -> None:
        self._hooks: dict[tuple[str, str], list[Hook]] = {}  # by kind and job; empty job: hooks of all jobs

    def on_success(self, hook: H) -> H:
        """Call this hook after each attempt of any job that succeeded."""
        return self._add("on_success", "", hook)

    def on_failure(self, hook: H) -> H:
        """Call this hook after each attempt of any job that failed or timed out, even if it is retried."""
        return self._add("on_failure", "", hook)

    def on_dead(self, hook: H) -> H:
        """Call this hook for each run of any job that has failed for good, or is lost under at_most_once."""
        return self._add("on_dead", "", hook)

    def without(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return a job's options without its hooks, which are not in its definition. Raise `DefinitionError` for an
        invalid hook."""
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
        """Return whether there is any hook at all."""
        return bool(self._hooks)

    def calls(self, finish: Finish) -> list[tuple[str, Hook]]:
        """Return the hooks to call for a finish, each with its kind. The job's own hooks come first."""
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


_Call = tuple[str, Hook, Ended]


# ── calling them ──────────────────────────────────────────────────────────────────────────────────────────────


class HookCaller:
    """Calls the hooks. `accepted` and `settled` are for the engine's thread."""

    def __init__(
        self,
        hooks: Hooks,
        application_loop: asyncio.AbstractEventLoop,
        engine_loop: asyncio.AbstractEventLoop,
        events: Events,
    ) -> None:
        self._hooks = hooks
        self._application_loop = application_loop
        self._engine_loop = engine_loop
        self._events = events
        self._work: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # application's loop only
        self._open = 0
        self._settled = asyncio.Event()
        self._settled.set()

    # ── on the engine's thread ───────────────────────────────────────────────────────────────────────────────

    def accepted(self, finishes: Sequence[Finish]) -> None:
        """Call the hooks of these verdicts, which the store has accepted."""
        for finish in finishes:
            for kind, hook in self._hooks.calls(finish):
                self._open += 1
                self._settled.clear()
                self._begin((kind, hook, ended(finish, arguments_of(finish.lease))))

    async def settled(self, patience: Micros) -> None:
        """Wait until all hooks have returned, but no longer than `patience`."""
        try:
            await asyncio.wait_for(self._settled.wait(), patience / SECOND)
        except TimeoutError:
            self._events.emit(HookFailed("", "hooks", f"{self._open} of them have not returned; not waited for"))

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._work.put(None)

    def _begin(self, call: _Call) -> None:
        if inspect.iscoroutinefunction(call[1]):
            if not self._application_loop.is_closed():
                self._application_loop.call_soon_threadsafe(self._create_task, call)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="onthedot hooks", daemon=True)
            self._thread.start()
        self._work.put(call)

    def _returned(self, job: str, kind: str, error: str | None) -> None:
        self._open -= 1
        if not self._open:
            self._settled.set()
        if error is not None:
            self._events.emit(HookFailed(job, kind, error))

    # ── elsewhere ────────────────────────────────────────────────────────────────────────────────────────────

    def _create_task(self, call: _Call) -> None:
        task = self._application_loop.create_task(self._await(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _await(self, call: _Call) -> None:
        kind, hook, told = call
        error = None
        try:
            await hook(told)
        except BaseException as raised:  # any error of a hook is reported, and changes nothing else
            error = failed(raised).error
            if isinstance(raised, GeneratorExit) and not self._application_loop.is_running():
                raise  # the loop is gone
        self._tell(told.job, kind, error)

    def _serve(self) -> None:
        while (call := self._work.get()) is not None:
            kind, hook, told = call
            error = None
            try:
                answer = hook(told)
                if inspect.iscoroutine(answer):
                    answer.close()
                    error = "returned a coroutine that nobody awaits; define it with 'async def'"
            except BaseException as raised:  # noqa: BLE001 - no error of a hook changes anything
                error = failed(raised).error
            self._tell(told.job, kind, error)

    def _tell(self, job: str, kind: str, error: str | None) -> None:
        if not self._engine_loop.is_closed():
            self._engine_loop.call_soon_threadsafe(self._returned, job, kind, error)
