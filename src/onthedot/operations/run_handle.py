"""The handles of a submitted run: its id, and shortcuts to its verbs. `Run` is awaited, and `BlockingRun` blocks."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from onthedot.model.duration import Duration
from onthedot.model.errors import ArgumentsError, shown
from onthedot.model.job import Json
from onthedot.model.run import RunRecord, RunState
from onthedot.stores.values import CancelAnswer

if TYPE_CHECKING:
    from onthedot.operations.blocking_verbs import BlockingVerbs
    from onthedot.operations.verbs import Verbs


@dataclass(frozen=True, slots=True, eq=False)
class RunHandle:
    """What `Run` and `BlockingRun` have in common: all but the shortcuts."""

    id: int
    job: str = field(kw_only=True)
    created: bool = field(kw_only=True)

    def __str__(self) -> str:
        return str(self.id)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (self.id,)

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RunHandle):
            return self.id == other.id
        if isinstance(other, int):
            _warn("comparing a Run with a number is deprecated: compare 'run.id'")
            return self.id == other
        return NotImplemented

    # ── a handle was an int until 0.1 ────────────────────────────────────────────────────────────────────────

    def __int__(self) -> int:
        _warn("int(run) is deprecated: write 'run.id'")
        return self.id

    def __index__(self) -> int:
        _warn("using a Run as a number is deprecated: write 'run.id'")
        return self.id


@dataclass(frozen=True, slots=True, eq=False)
class Run(RunHandle):
    """A submitted run: its `id`, its job, and shortcuts to the verbs about it. Every verb takes it, or its id.

    `created` is False if a run with the same key existed already. Two handles are equal if their ids are. As text a
    handle is its id. Pickled, it becomes its id, because the other process has no connection to the store.

    >>> import onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job
    ... async def add(a: int, b: int) -> int:
    ...     return a + b
    >>> async with sched:
    ...     run = await sched.submit(add.call(1, b=2), key="sum")
    ...     print(run.id, run.created, await run.result(timeout="10s"))
    ...     again = await sched.submit(add.call(1, b=2), key="sum")
    ...     print(again.id, again.created, again == run)
    1 True 3
    1 False True
    """

    verbs: Verbs = field(kw_only=True, repr=False)
    """The scheduler or client that returned it."""

    async def result(self, *, timeout: Duration | None = None) -> Json:
        """Wait for the end, and return what the handler returned. See `Verbs.result` for the errors.

        >>> async with sched:
        ...     later = await sched.submit(add.call(2, 2), delay="1h")
        ...     try:
        ...         await later.result(timeout="10ms")
        ...     except TimeoutError:
        ...         print("not yet")
        not yet
        """
        return await self.verbs.result(self.id, timeout=timeout)

    async def state(self) -> RunState | None:
        """The run's present state; None if the run is no longer stored.

        >>> async with sched:
        ...     later = await sched.submit(add.call(2, 2), delay="1h")
        ...     print(await later.state())
        scheduled
        """
        run = await self.verbs.get_run(self.id)
        return None if run is None else run.state

    async def cancel(self, *, why: str = "cancelled") -> CancelAnswer:
        """Cancel it: at once if it waits; if it runs, it is asked to stop.

        >>> async with sched:
        ...     later = await sched.submit(add.call(2, 2), delay="1h")
        ...     print((await later.cancel()).kind)
        cancelled
        """
        return await self.verbs.cancel(self.id, why=why)


@dataclass(frozen=True, slots=True, eq=False)
class BlockingRun(RunHandle):
    """A `Run` that a `BlockingScheduler` or a `BlockingClient` returns: each shortcut returns when it is done.

    >>> import onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job
    ... def add(a: int, b: int) -> int:
    ...     return a + b
    >>> with otd.BlockingScheduler(sched) as blocking:
    ...     run = blocking.submit(add.call(1, b=2), key="sum")
    ...     print(run.id, run.created, run.result(timeout="10s"))
    1 True 3
    """

    verbs: BlockingVerbs = field(kw_only=True, repr=False)
    """The scheduler or client that returned it."""

    def result(self, *, timeout: Duration | None = None) -> Json:
        """Wait for the end, and return what the handler returned. See `Verbs.result` for the errors.

        >>> with blocking:
        ...     later = blocking.submit(add.call(2, 2), delay="1h")
        ...     try:
        ...         later.result(timeout="10ms")
        ...     except TimeoutError:
        ...         print("not yet")
        not yet
        """
        return self.verbs.result(self.id, timeout=timeout)

    def state(self) -> RunState | None:
        """The run's present state; None if the run is no longer stored.

        >>> with blocking:
        ...     later = blocking.submit(add.call(2, 2), delay="1h")
        ...     print(later.state())
        scheduled
        """
        run = self.verbs.get_run(self.id)
        return None if run is None else run.state

    def cancel(self, *, why: str = "cancelled") -> CancelAnswer:
        """Cancel it: at once if it waits; if it runs, it is asked to stop.

        >>> with blocking:
        ...     later = blocking.submit(add.call(2, 2), delay="1h")
        ...     print(later.cancel().kind)
        cancelled
        """
        return self.verbs.cancel(self.id, why=why)


def run_number(run: RunHandle | int) -> int:
    """The id of a run that is given by its handle or id. `ArgumentsError` for anything else, such as a text.

    >>> run_number(7)
    7
    """
    if isinstance(run, RunHandle):
        return run.id
    try:
        return operator.index(run)
    except TypeError:
        got = f"run: expected a Run or its id, got {shown(run)} ({type(run).__name__})"
        raise ArgumentsError(got + _instead(run)) from None


def run_numbers(runs: RunHandle | int | Iterable[RunHandle | int]) -> list[int]:
    """The ids of one run or of several.

    >>> run_numbers(7), run_numbers([7, 8])
    ([7], [7, 8])
    """
    if isinstance(runs, Iterable) and not isinstance(runs, str | bytes):
        return [run_number(one) for one in runs]
    return [run_number(cast(int, runs))]


def _instead(given: object) -> str:
    if isinstance(given, str) and given.isascii() and given.isdecimal():
        return f"; write int({shown(given)})"
    return "; write its 'id'" if isinstance(given, RunRecord) else ""


def _warn(what: str) -> None:
    warnings.warn(f"{what}; the next release removes this", DeprecationWarning, stacklevel=3)
