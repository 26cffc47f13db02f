"""Runs PgQueuer in the peers' environment: as one process of a crew, or to fill and to count.

    python -m bench.pgqueuer_node fill|count|work <url> <number>

`fill` makes its tables and `number` jobs and prints their ids, `count` prints how many have succeeded and how many are
left, and `work` is a worker with the settings that were fastest here: uvloop, and batches of 1,000 (batches of 500 need
about the same CPU time per job, batches of 100 half as much again).
"""

from __future__ import annotations

import asyncio
import json
import sys

import asyncpg
import uvloop  # type: ignore[import-not-found,unused-ignore]  # only in the peers' environment
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found,unused-ignore]
from pgqueuer.qm import QueueManager  # type: ignore[import-not-found,unused-ignore]
from pgqueuer.queries import Queries  # type: ignore[import-not-found,unused-ignore]

from bench.crew_protocol import run_worker

JOB = "noop"
BATCH = 1_000

_FILL_BATCH = 5_000


class Worker:
    """A worker that notes its jobs."""

    def __init__(self, db: asyncpg.Connection) -> None:  # type: ignore[type-arg,unused-ignore]
        self.executed: list[int] = []
        self._manager = QueueManager(Queries(AsyncpgDriver(db)))
        self._task: asyncio.Task[None] | None = None

        @self._manager.entrypoint(JOB)  # type: ignore[untyped-decorator,unused-ignore]
        async def noop(job: object) -> None:
            self.executed.append(int(job.id))  # type: ignore[attr-defined]

    async def start(self) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self._manager.run(batch_size=BATCH))
        return self._task

    async def stop(self) -> None:
        assert self._task is not None
        self._manager.shutdown.set()
        await self._task


async def fill(db: asyncpg.Connection, count: int) -> None:  # type: ignore[type-arg,unused-ignore]
    """Make the tables of PgQueuer and `count` jobs, and print their ids."""
    queries = Queries(AsyncpgDriver(db))
    await queries.install()
    ids: list[int] = []
    for start in range(0, count, _FILL_BATCH):
        size = min(_FILL_BATCH, count - start)
        ids += await queries.enqueue([JOB] * size, [None] * size, [0] * size)
    await db.execute("ANALYZE")
    print(json.dumps(ids))


async def count(db: asyncpg.Connection) -> None:  # type: ignore[type-arg,unused-ignore]
    """Print how many jobs have succeeded, and how many are left."""
    done = await db.fetchval("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")
    print(json.dumps([done, await db.fetchval("SELECT count(*) FROM pgqueuer")]))


async def main(verb: str, url: str, number: int) -> None:
    """Run one of the verbs."""
    db = await asyncpg.connect(url)
    if verb == "fill":
        await fill(db, number)
    elif verb == "count":
        await count(db)
    else:
        await run_worker(Worker(db))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
