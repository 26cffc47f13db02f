"""PgQueuer, on PostgreSQL: uvloop, batches of 1,000, and 16 connections to submit many at once.

With batches of 500 a job needs about as much CPU, with batches of 100 half as much again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from bench.peers.node import Node, main

JOB = "noop"
BATCH = 1_000
CONNECTIONS = 16


class PgQueuer(Node):
    distribution = "pgqueuer"
    has_bulk = True
    uses_uvloop = True
    _db: Any = None
    _pool: Any = None
    _queries: Any

    async def prepare(self) -> None:
        db = await asyncpg.connect(self.url)
        await Queries(AsyncpgDriver(db)).install()
        await db.close()

    async def connect(self) -> None:
        self._db = await asyncpg.connect(self.url)
        self._queries = Queries(AsyncpgDriver(self._db))

    async def disconnect(self) -> None:
        await self._db.close()

    async def submit(self, number: int) -> None:
        await self._queries.enqueue(JOB, b"%d" % number)

    async def submit_at_once(self, numbers: Sequence[int]) -> None:
        if self._pool is None:
            self._pool = await asyncpg.create_pool(self.url, min_size=CONNECTIONS, max_size=CONNECTIONS)
            self._queries = Queries(AsyncpgPoolDriver(self._pool))
        await super().submit_at_once(numbers)

    async def submit_bulk(self, numbers: Sequence[int]) -> None:
        count = len(numbers)
        await self._queries.enqueue([JOB] * count, [b"%d" % number for number in numbers], [0] * count)

    async def submit_at(self, numbers: Sequence[int], instant: int) -> None:
        count = len(numbers)
        payloads = [b"%d" % number for number in numbers]
        delay = timedelta(microseconds=instant / 1_000 - await self._db.fetchval(_NOW))
        await self._queries.enqueue([JOB] * count, payloads, [0] * count, [delay] * count)

    async def start(self) -> None:
        self._worker = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(self.url))))

        @self._worker.entrypoint(JOB)
        async def noop(job: Any) -> None:
            self.note(int(job.payload))

        self._task = asyncio.create_task(self._worker.run(batch_size=BATCH))

    async def stop(self) -> None:
        self._worker.shutdown.set()
        await self._task

    async def left(self) -> int:
        db = await asyncpg.connect(self.url)
        left = await db.fetchval("SELECT count(*) FROM pgqueuer")
        await db.close()
        return int(left)


_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::float8"

if __name__ == "__main__":
    main(PgQueuer)
