"""APScheduler 4, in memory and on PostgreSQL (by SQLAlchemy, asyncpg and its event broker for that).

It runs coroutines on uvloop, 100 jobs at a time (the default), without a limit per task.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

from apscheduler import AsyncScheduler, SchedulerRole, TaskDefaults
from apscheduler.datastores.memory import MemoryDataStore
from apscheduler.triggers.date import DateTrigger

from bench.peers.node import AT_ONCE, Node, main

JOBS, CONNECTIONS = 100, 16
_nodes: list[APScheduler4] = []


async def noop(number: int) -> None:
    """Data stores keep the name of this function."""
    _nodes[0].note(number)


class APScheduler4(Node):
    distribution = "apscheduler"
    uses_uvloop = True

    def __init__(self, url: str, options: Sequence[str]) -> None:
        super().__init__(url, options)
        _nodes.append(self)
        self._scheduler: Any = None
        self._stack = AsyncExitStack()

    def _make(self) -> AsyncScheduler:
        defaults = TaskDefaults(max_running_jobs=10 * AT_ONCE * JOBS)
        if self.url == "memory:":
            return AsyncScheduler(MemoryDataStore(), task_defaults=defaults, max_concurrent_jobs=JOBS)
        from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
        from apscheduler.eventbrokers.asyncpg import AsyncpgEventBroker
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(
            self.url.replace("postgresql:", "postgresql+asyncpg:"), pool_size=CONNECTIONS, max_overflow=AT_ONCE
        )
        broker = AsyncpgEventBroker(self.url)
        return AsyncScheduler(
            SQLAlchemyDataStore(engine), broker, task_defaults=defaults, max_concurrent_jobs=JOBS,
            role=SchedulerRole.both,
        )  # fmt: skip

    async def prepare(self) -> None:
        if self.url != "memory:":
            await self.connect()
            await self.disconnect()

    async def connect(self) -> None:
        self._scheduler = await self._stack.enter_async_context(self._make())
        await self._scheduler.configure_task(noop)

    async def disconnect(self) -> None:
        await self._stack.aclose()
        self._scheduler = None

    async def submit(self, number: int) -> None:
        await self._scheduler.add_job(noop, args=(number,))

    async def submit_at(self, numbers: Sequence[int], instant: int) -> None:
        due = datetime.fromtimestamp(instant / 1e9, UTC)
        for number in numbers:
            await self._scheduler.add_schedule(noop, DateTrigger(due), args=(number,))

    async def start(self) -> None:
        if self._scheduler is None:
            await self.connect()
        await self._scheduler.start_in_background()

    async def stop(self) -> None:
        await self._scheduler.stop()
        await self._scheduler.wait_until_stopped()

    async def left(self) -> int:
        if self._scheduler is None:
            await self.connect()
        return len(await self._scheduler.get_jobs())


if __name__ == "__main__":
    main(APScheduler4)
