"""arq, on Redis: uvloop, 200 jobs at a time, no results, and a poll every 5 ms."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from arq import create_pool, func
from arq.connections import RedisSettings
from arq.worker import Worker

from bench.peers.node import Node, main

JOBS, LOOK_EVERY = 200, 0.005


class Arq(Node):
    distribution = "arq"
    uses_uvloop = True
    _pool: Any = None
    _worker: Any = None

    async def connect(self) -> None:
        self._pool = await create_pool(RedisSettings.from_dsn(self.url))

    async def disconnect(self) -> None:
        await self._pool.aclose()

    async def submit(self, number: int) -> None:
        await self._pool.enqueue_job("noop", number)

    async def submit_at(self, numbers: Sequence[int], instant: int) -> None:
        due = datetime.fromtimestamp(instant / 1e9, UTC)
        for number in numbers:
            await self._pool.enqueue_job("noop", number, _defer_until=due)

    async def start(self) -> None:
        async def noop(_: Any, number: int) -> None:
            self.note(number)

        self._worker = Worker(
            [func(noop, name="noop", keep_result=0)], redis_settings=RedisSettings.from_dsn(self.url), max_jobs=JOBS,
            poll_delay=LOOK_EVERY, handle_signals=False, log_results=False,
        )  # fmt: skip
        self._task = asyncio.create_task(self._worker.async_run())

    async def stop(self) -> None:
        self._worker.allow_pick_jobs = False
        await asyncio.gather(*self._worker.tasks.values())
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._worker.pool.aclose()

    async def left(self) -> int:
        await self.connect()
        left = int(await self._pool.zcard("arq:queue"))
        await self.disconnect()
        return left


if __name__ == "__main__":
    main(Arq)
