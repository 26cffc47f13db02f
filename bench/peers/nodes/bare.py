"""The bare loops of `bench`: the drivers' own statements and nothing else.

They submit on PostgreSQL and Redis, and drain on every store. They end when the queue is empty. On SQLite and in memory
the executed runs are known only then.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg

from bench import bare, bare_postgres, bare_redis, drain_postgres, submitting_postgres, submitting_redis
from bench.nodes import fill, open_store
from bench.peers.node import Node, main
from onthedot.ids import SeededIds
from onthedot.model.run import submit_trigger
from onthedot.stores.protocol import Store


class Noted(list[int]):
    """A list of executed runs that notes the instant of each."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._note = node.note

    def append(self, run_id: int) -> None:
        self._note(run_id)


class Bare(Node):
    distribution = "onthedot"
    has_bulk = True
    _task: asyncio.Task[None] | None = None
    _postgres: asyncpg.Connection[asyncpg.Record] | None = None
    _redis: bare_redis.Bare | None = None
    _store: Store | None = None
    _job_id: int

    def __init__(self, url: str, options: Sequence[str]) -> None:
        super().__init__(url, options)
        self._kind = url.partition(":")[0]
        self._ids = SeededIds(os.getpid())

    async def _open(self) -> Store:
        if self._kind != "memory":
            return await open_store(self.url)
        self._store = self._store or await open_store(None)
        return self._store

    async def prepare(self) -> None:
        store = await self._open()
        if self._kind != "memory":
            await store.close()

    async def connect(self) -> None:
        if self._kind == "postgresql":
            self._postgres = await bare_postgres.connect(self.url)
        elif self._kind == "redis":
            self._redis = await bare_redis.Bare.connect(self.url)
        else:
            return
        store = await self._open()
        self._job_id = await submitting_postgres.put_job(store)
        await store.close()

    async def disconnect(self) -> None:
        if self._postgres is not None:
            await self._postgres.close()
        if self._redis is not None:
            await self._redis.close()

    async def submit(self, number: int) -> None:
        await self.submit_bulk([number])

    async def submit_bulk(self, numbers: Sequence[int]) -> None:
        for first in range(0, len(numbers), bare.BATCH):
            triggers = [submit_trigger(self._ids.token()) for _ in numbers[first : first + bare.BATCH]]
            if self._postgres is not None:
                await submitting_postgres.insert(self._postgres, self._job_id, triggers)
            elif self._redis is not None:
                await submitting_redis.insert(self._redis, self._job_id, triggers)
            else:
                raise NotImplementedError

    async def fill(self, count: int) -> None:
        if self._kind == "postgresql":
            await drain_postgres.filled(self.url, count, 1)  # with this month's partitions, which no bare loop makes
            return
        store = await self._open()
        await fill(store, count, seed=1)
        if self._kind != "memory":
            await store.close()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        name, executed = f"bare-{os.getpid()}", Noted(self)
        if self._kind == "postgresql":
            db = await bare_postgres.connect(self.url)
            await bare_postgres.drain(db, executed, 1, name)
            await db.close()
        elif self._kind == "redis":
            loop = await bare_redis.Bare.connect(self.url)
            await loop.drain(executed, 1, name)
            await loop.close()
        else:
            self.began = time.time_ns()
            for run_id in await self._drain_here():
                self.note(run_id)

    async def _drain_here(self) -> list[int]:
        if self._store is None:
            return (await bare.drain_sqlite(Path(self.path), 1))[1]
        return (await bare.drain_store(self._store, 1))[1]

    async def stop(self) -> None:
        assert self._task is not None
        await self._task


if __name__ == "__main__":
    main(Bare)
