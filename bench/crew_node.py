"""Runs one process of a crew that drains a database on PostgreSQL or Redis: a whole scheduler, or a bare loop.

python -m bench.crew_node ours|bare <url> <seed> <number>
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine

import onthedot as otd
from bench import bare_postgres, bare_redis
from bench.crew_protocol import run_worker
from bench.nodes import Counter, open_store


class Ours:
    """A worker that is a normal scheduler."""

    def __init__(self, sched: otd.Scheduler, counter: Counter) -> None:
        self._sched = sched
        self.executed = counter.run_ids

    async def start(self) -> None:
        await self._sched.start()

    async def stop(self) -> None:
        await self._sched.stop()


class Bare:
    """A worker that is the loop of `bare_postgres` or `bare_redis`."""

    def __init__(self, loop: Callable[[list[int]], Coroutine[None, None, None]]) -> None:
        self.executed: list[int] = []
        self._loop = loop(self.executed)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self._loop)
        return self._task

    async def stop(self) -> None:
        assert self._task is not None
        await self._task


async def main(kind: str, url: str, seed: int, number: int) -> None:
    """Work as one of the crew until the parent says "stop"."""
    name = f"bare-{number}"
    if kind == "bare" and url.startswith("redis:"):
        bare = await bare_redis.Bare.connect(url)
        await run_worker(Bare(lambda executed: bare.drain(executed, seed + number, name)))
        await bare.close()
    elif kind == "bare":
        db = await bare_postgres.connect(url)
        await run_worker(Bare(lambda executed: bare_postgres.drain(db, executed, seed + number, name)))
        await db.close()
    else:
        store = await open_store(url)
        counter = Counter(0)
        await run_worker(Ours(counter.scheduler(store), counter))
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
