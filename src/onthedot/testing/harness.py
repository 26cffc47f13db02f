"""A scheduler's own jobs on a virtual clock: days pass in seconds, nodes come and go at will.

The same engine and the same ticks as in production, on one virtual loop instead of two threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from onthedot.clock import SECOND, Micros, to_micros
from onthedot.duration import Duration, parse_duration
from onthedot.engine import Engine
from onthedot.errors import StateError
from onthedot.events import Event, Events
from onthedot.ids import SeededIds
from onthedot.run import RunRecord, SkipRecord
from onthedot.scheduler import Scheduler
from onthedot.stores.base import Store
from onthedot.stores.memory import MemoryStore
from onthedot.testing.clock import VirtualClock, VirtualLoop


class Harness:
    """A store, a virtual clock, and at most one node. Use inside `run_virtual`.

    Plain functions are not called in threads here (there is no time for them): give the harness coroutines.
    """

    def __init__(
        self,
        at: datetime,
        *,
        store: Callable[[VirtualClock], Store | Awaitable[Store]] = MemoryStore,
        seed: int | str = 1,
    ) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise RuntimeError("a Harness needs virtual time; run it with onthedot.testing.run_virtual(…)")
        self.clock = VirtualClock(loop, at)
        self._open = store
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

    async def start(self, scheduler: Scheduler) -> None:
        """Boot a node with this program's jobs."""
        if self._store is None:
            opened = self._open(self.clock)
            self._store = await opened if isinstance(opened, Awaitable) else opened
        events = Events([self.events.append])
        self._engine = Engine(self.store, scheduler.registry, scheduler.settings, events, self.clock, self._ids)
        await self._engine.start(list(scheduler.jobs.values()), asyncio.get_running_loop())

    async def stop(self) -> None:
        """Stop the node in order: drain, hand over, leave."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.stop(asyncio.Event())

    async def crash(self) -> None:
        """Pull the plug: whatever the node was doing, it writes nothing more."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.crash()

    async def advance(self, length: Duration) -> None:
        """Let time pass."""
        await asyncio.sleep(parse_duration(length).total_seconds())

    async def advance_to(self, instant: datetime) -> None:
        """Let time pass until this instant."""
        wait: Micros = to_micros(instant) - self.clock.now()
        await asyncio.sleep(max(0, wait) / SECOND)

    async def runs(self, job: str) -> list[RunRecord]:
        """Every run of a job, by the instant it was asked for."""
        return sorted(await self.store.list_runs(job=job, limit=100_000), key=lambda run: (run.slot_at, run.id))

    async def skips(self, job: str) -> list[SkipRecord]:
        """Every range of slots of a job that were skipped when they were planned."""
        return sorted(await self.store.list_skips(job=job, limit=100_000), key=lambda skip: skip.first)
