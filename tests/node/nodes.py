"""Several nodes of one program on one store, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import onthedot as otd
from onthedot.ids import SeededIds
from onthedot.model.events import Events
from onthedot.node.engine import Engine
from onthedot.stores.memory import MemoryStore
from onthedot.testing import VirtualClock, VirtualLoop

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


class Node:
    """One engine and the events that it emitted."""

    def __init__(self, name: str, engine: Engine, told: list[Any]) -> None:
        self.name = name
        self.engine = engine
        self.told = told

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]


class Nodes:
    """A memory store and the nodes that use it."""

    def __init__(self, sched: otd.Scheduler) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop, START)
        self.store = MemoryStore(self.clock)
        self.sched = sched
        self.living: dict[str, Node] = {}

    async def boot(self, name: str, **settings: Any) -> Node:
        told: list[Any] = []
        given = replace(self.sched.settings, **{"node_id": name} | settings)
        engine = Engine(self.store, self.sched.registry, given, Events([told.append]), self.clock, SeededIds(name))
        self.living[name] = Node(name, engine, told)
        await engine.start(list(self.sched.jobs.values()), asyncio.get_running_loop())
        return self.living[name]

    async def kill(self, name: str) -> None:
        """Crash one node. The others keep running and still receive hints."""
        await self.living.pop(name).engine.crash()

    async def stop(self) -> None:
        for node in list(self.living.values()):
            await node.engine.stop(asyncio.Event())

    async def job(self, name: str) -> int:
        record = await self.store.queries.get_job(name)
        assert record is not None
        return record.id

    async def ran_on(self, name: str) -> list[tuple[float, str, str]]:
        """Return (slot in seconds after the start, node, outcome) of every ended attempt of a job."""
        runs = await self.store.queries.list_runs(job=name, limit=10_000)
        attempts = [(run, attempt) for run in runs for attempt in await self.store.queries.list_attempts(run.id)]
        return sorted((round((run.slot_at - self.zero) / 1e6, 3), one.node, one.outcome) for run, one in attempts)

    @property
    def zero(self) -> int:
        return self.clock._start
