"""dramatiq, on Redis: eight threads, 500 messages per fetch, and no middleware (time limits, retries, results)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any

os.environ["dramatiq_queue_prefetch"] = "500"  # noqa: SIM112 - its own name; read when it is imported

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.node import BlockingNode, main

THREADS = 8


class Dramatiq(BlockingNode):
    distribution = "dramatiq"

    def __init__(self, url: str, options: Sequence[str]) -> None:
        super().__init__(url, options)
        self._broker: Any = RedisBroker(url=url, middleware=[])
        self._noop: Any = dramatiq.actor(self.note, broker=self._broker, actor_name="noop")
        self._worker: Any = None

    def submit_now(self, number: int) -> None:
        self._noop.send(number)

    async def submit_at(self, numbers: Sequence[int], instant: int) -> None:
        for number in numbers:
            delay = instant / 1e6 - time.time() * 1_000
            self._noop.send_with_options(args=(number,), delay=round(delay))

    async def start(self) -> None:
        self._worker = dramatiq.Worker(self._broker, worker_threads=THREADS)
        self._worker.start()

    async def stop(self) -> None:
        """Wait until everything is acknowledged. The threads end with the process."""
        await asyncio.to_thread(self._worker.join)

    async def left(self) -> int:
        client = self._broker.client
        return int(client.hlen("dramatiq:default.msgs")) + int(client.hlen("dramatiq:default.DQ.msgs"))


if __name__ == "__main__":
    main(Dramatiq)
