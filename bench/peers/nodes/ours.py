"""onthedot, with its defaults. The client is a scheduler that executes nothing, as in docs/guides/web-frameworks.md.

Runs that are due at one instant are stored with the store's own `submit`, because a delay counts from each batch.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import onthedot as otd
from bench.peers.node import Node, main

if TYPE_CHECKING:  # the time until the first job counts, and a user's program does not import this
    from onthedot.stores.protocol import Store

JOB = "noop"


class Ours(Node):
    distribution = "onthedot"
    has_bulk = True
    _client: otd.Scheduler | None = None
    _worker: otd.Scheduler | None = None
    _memory: Store | None = None

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Store]:
        """The store itself: a new connection to it, or the one store in memory."""
        from onthedot.stores.connect import open_store

        if self.url == "memory:":
            self._memory = self._memory or await open_store(self.url)
            yield self._memory
        else:
            store = await open_store(self.url)
            yield store
            await store.close()

    async def _scheduler(self, settings: otd.Settings | None = None) -> otd.Scheduler:
        if self.url == "memory:":
            async with self._open():
                pass  # it is kept
        sched = otd.Scheduler(self._memory or self.url, settings=settings)
        self._function = sched.job(name=JOB)(self._run)
        await sched.start()
        return sched

    async def _run(self, number: int) -> None:
        self.note(number)

    async def prepare(self) -> None:
        async with self._open():
            pass  # it makes its tables

    async def connect(self) -> None:
        self._client = await self._scheduler(otd.Settings(roles=("planner",)))

    async def disconnect(self) -> None:
        if self._client is not None:
            await self._client.stop()
            self._client = None

    async def submit(self, number: int) -> None:
        sched = self._client or self._worker
        assert sched is not None
        await sched.submit(self._function.call(number))

    async def submit_bulk(self, numbers: Sequence[int]) -> None:
        assert self._client is not None
        await self._client.submit_many([self._function.call(number) for number in numbers])

    async def submit_at(self, numbers: Sequence[int], instant: int) -> None:
        from onthedot.ids import SeededIds
        from onthedot.model.job import Call, Job
        from onthedot.model.run import NewRun, submit_trigger

        ids, due = SeededIds(instant), instant // 1_000
        async with self._open() as store:
            job_id = (await store.put_job(Job(name=JOB, task=Call(handler=JOB)))).record.id
            await store.submit([
                NewRun(job_id, submit_trigger(ids.token()), due, json.dumps({"number": number})) for number in numbers
            ])  # fmt: skip

    async def start(self) -> None:
        await self.disconnect()  # one scheduler in the process is enough
        self._worker = await self._scheduler()

    async def stop(self) -> None:
        assert self._worker is not None
        await self._worker.stop()

    async def left(self) -> int:
        from onthedot.model.run import RunState

        async with self._open() as store:
            counts = await store.queries.count_runs()
        return sum(count for state, count in counts.items() if state is not RunState.SUCCEEDED)


if __name__ == "__main__":
    main(Ours)
