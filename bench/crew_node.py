"""One process of a crew that drains a PostgreSQL database: the whole scheduler, or a bare loop.

python -m bench.crew_node ours|bare <url> <seed> <number>
"""

from __future__ import annotations

import asyncio
import sys

import asyncpg

import onthedot as otd
from bench import bare_postgres
from bench.attending import Worker, attend
from bench.nodes import Counter, open_store


class Ours:
    """A scheduler as users have it."""

    def __init__(self, sched: otd.Scheduler, counter: Counter) -> None:
        self._sched = sched
        self.executed = counter.run_ids

    async def start(self) -> None:
        await self._sched.start()

    async def stop(self) -> None:
        await self._sched.stop()


class Bare:
    """The loop of `bare_postgres`."""

    def __init__(self, db: asyncpg.Connection, seed: int, name: str) -> None:
        self.executed: list[int] = []
        self._loop = bare_postgres.drain(db, self.executed, seed, name)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self._loop)
        return self._task

    async def stop(self) -> None:
        assert self._task is not None
        await self._task


async def main(kind: str, url: str, seed: int, number: int) -> None:
    """Be one of the crew until told to stop."""
    if kind == "bare":
        db = await bare_postgres.connect(url)
        worker: Worker = Bare(db, seed + number, f"bare-{number}")
        await attend(worker)
        await db.close()
    else:
        store = await open_store(url)
        counter = Counter(0)
        await attend(Ours(counter.scheduler(store), counter))
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
