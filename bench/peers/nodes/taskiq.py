"""taskiq, on Redis streams with acknowledgements: uvloop, 100 tasks at a time, 500 messages per fetch, no results.

Its delays need another process that polls once a second, so there is no herd.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from taskiq.receiver import Receiver
from taskiq_redis import RedisStreamBroker

from bench.peers.node import AT_ONCE, Node, main

TASKS, FETCHED = 100, 500
CONNECTIONS = AT_ONCE + 8


class Taskiq(Node):
    distribution = "taskiq"
    uses_uvloop = True

    def __init__(self, url: str, options: Sequence[str]) -> None:
        super().__init__(url, options)
        self._broker: Any = RedisStreamBroker(
            url, consumer_id="0", xread_count=FETCHED, max_connection_pool_size=CONNECTIONS
        )

        @self._broker.task(task_name="noop")
        async def noop(number: int) -> None:
            self.note(number)

        self._noop: Any = noop
        self._stopped = asyncio.Event()
        self._task: Any = None

    async def prepare(self) -> None:
        await self._broker.startup()

    async def submit(self, number: int) -> None:
        await self._noop.kiq(number)

    async def start(self) -> None:
        self._broker.is_worker_process = True
        await self._broker.startup()
        receiver = Receiver(self._broker, max_async_tasks=TASKS, max_prefetch=FETCHED, run_startup=False)
        self._task = asyncio.create_task(receiver.listen(self._stopped))

    async def stop(self) -> None:
        """Stop, but not for ever: the receiver hangs now and then. `left` counts what is not acknowledged."""
        self._stopped.set()
        await asyncio.wait({self._task}, timeout=2.0)

    async def left(self) -> int:
        from redis.asyncio import Redis

        async with Redis.from_url(self.url) as db:
            [group] = await db.xinfo_groups("taskiq")
        return int(group["pending"]) + int(group["lag"] or 0)


if __name__ == "__main__":
    main(Taskiq)
