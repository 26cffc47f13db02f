"""A scheduler's own jobs on a virtual clock: days pass in seconds, nodes come and go at will.

The same engine and the same ticks as in production, on one virtual loop instead of two threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any

from onthedot.clock import SECOND, Micros, to_micros
from onthedot.duration import Duration, parse_duration
from onthedot.engine import Engine
from onthedot.errors import StateError
from onthedot.events import Event, Events
from onthedot.ids import SeededIds
from onthedot.run import RunRecord, SkipRecord
from onthedot.scheduler import Scheduler
from onthedot.stores.base import Store
from onthedot.stores.memory import MemoryStore, Statement, Statements
from onthedot.testing.clock import VirtualClock, VirtualLoop


class Harness:
    """A store, a virtual clock, and at most one node. Use inside `run_virtual`.

    Plain functions are not called in threads here (there is no time for them): give the harness coroutines.

    The store is in memory, unless another one is given. `connect` makes what `ctx.transaction()` gives to handlers
    there; by default it notes statements, and `statements` has those that were committed.

    >>> import onthedot as otd
    >>> from datetime import UTC
    >>> from onthedot.clock import to_datetime
    >>> from onthedot.testing import Harness, run_virtual
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job(schedule=otd.every("1m"))
    ... async def report() -> None: ...
    >>> new_year = datetime(2027, 1, 1, tzinfo=UTC)
    >>> async def main() -> None:
    ...     harness = Harness(new_year)
    ...     await harness.start(sched)
    ...     await harness.advance("7m10s")
    ...     print(len(await harness.runs("report")), len(harness.events) > 7, harness.store.clock is harness.clock)
    ...     print(len(await harness.engine.unrunnable()), "jobs that this program cannot do")
    ...     await harness.stop()
    >>> run_virtual(main())
    7 True True
    0 jobs that this program cannot do
    """

    def __init__(
        self,
        at: datetime,
        *,
        store: Callable[[VirtualClock], Store | Awaitable[Store]] | None = None,
        connect: Callable[[], Any] = Statements,
        seed: int | str = 1,
    ) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise RuntimeError("a Harness needs virtual time; run it with onthedot.testing.run_virtual(…)")
        self.clock = VirtualClock(loop, at)
        self._open = store or partial(MemoryStore, connect=connect)
        self._store: Store | None = None
        self.events: list[Event] = []
        self._ids = SeededIds(seed)
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The node that is running."""
        if self._engine is None:
            raise StateError("no node is running; start one first")
        return self._engine

    @property
    def store(self) -> Store:
        """The store, from the first `start` on; it outlives every node."""
        if self._store is None:
            raise StateError("the harness has no store yet; start a node first")
        return self._store

    @property
    def statements(self) -> list[Statement]:
        """What handlers have executed in transactions that are committed, in the order of the commits."""
        if not isinstance(self.store, MemoryStore):
            raise StateError("statements are noted by the memory store only")
        return list(self.store.statements)

    async def start(self, scheduler: Scheduler) -> None:
        """Boot a node with this program's jobs.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     print([stored.job.name for stored in await harness.store.list_jobs()])
        >>> run_virtual(main())
        ['report']
        """
        if self._store is None:
            opened = self._open(self.clock)
            self._store = await opened if isinstance(opened, Awaitable) else opened
        events = Events([self.events.append])
        self._engine = Engine(self.store, scheduler.registry, scheduler.settings, events, self.clock, self._ids)
        await self._engine.start(list(scheduler.jobs.values()), asyncio.get_running_loop())

    async def stop(self) -> None:
        """Stop the node in order: drain, hand over, leave.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.stop()
        ...     print(type(harness.events[-1]).__name__)
        >>> run_virtual(main())
        NodeLeft
        """
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.stop(asyncio.Event())

    async def crash(self) -> None:
        """Pull the plug: whatever the node was doing, it writes nothing more.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.crash()
        ...     await harness.advance("3d10s")
        ...     await harness.start(sched)  # of what was missed the last slot is caught up
        ...     await harness.advance("5s")
        ...     print([run.state.value for run in await harness.runs("report")])
        >>> run_virtual(main())
        ['succeeded']
        """
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.crash()

    async def advance(self, length: Duration) -> None:
        """Let time pass.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.advance("1m30s")
        ...     print(to_datetime(harness.clock.now()))
        >>> run_virtual(main())
        2027-01-01 00:01:30+00:00
        """
        await asyncio.sleep(parse_duration(length).total_seconds())

    async def advance_to(self, instant: datetime) -> None:
        """Let time pass until this instant.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.advance_to(datetime(2027, 1, 1, 0, 1, 1, tzinfo=UTC))
        ...     print([run.state.value for run in await harness.runs("report")])
        >>> run_virtual(main())
        ['succeeded']
        """
        wait: Micros = to_micros(instant) - self.clock.now()
        await asyncio.sleep(max(0, wait) / SECOND)

    async def runs(self, job: str) -> list[RunRecord]:
        """Every run of a job, by the instant it was asked for.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.advance("2m10s")
        ...     print([to_datetime(run.slot_at).minute for run in await harness.runs("report")])
        >>> run_virtual(main())
        [1, 2]
        """
        return sorted(await self.store.list_runs(job=job, limit=100_000), key=lambda run: (run.slot_at, run.id))

    async def skips(self, job: str) -> list[SkipRecord]:
        """Every range of slots of a job that were skipped when they were planned.

        >>> async def main() -> None:
        ...     harness = Harness(new_year)
        ...     await harness.start(sched)
        ...     await harness.crash()
        ...     await harness.advance("1h30s")
        ...     await harness.start(sched)
        ...     await harness.advance("20s")
        ...     print([(skip.count, skip.reason) for skip in await harness.skips("report")])
        >>> run_virtual(main())
        [(59, 'missed')]
        """
        return sorted(await self.store.list_skips(job=job, limit=100_000), key=lambda skip: skip.first)
