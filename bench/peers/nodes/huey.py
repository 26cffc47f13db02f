"""huey, on SQLite and Redis, without results.

On SQLite it has one thread, polls every 2 ms, and uses fsync unless the option `no-fsync` is given. On Redis it has
eight threads, which block until a job comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from huey import RedisHuey, SqliteHuey
from huey.consumer import Consumer

from bench.peers.node import BlockingNode, main

WORKERS = {"sqlite": 1, "redis": 8}
LOOK_EVERY = 0.002


class QuietConsumer(Consumer):
    """One that leaves signals alone."""

    def _set_signal_handlers(self) -> None:
        pass


class Huey(BlockingNode):
    distribution = "huey"

    def __init__(self, url: str, options: Sequence[str]) -> None:
        super().__init__(url, options)
        self._huey: Any
        if url.startswith("sqlite:"):
            self._huey = SqliteHuey(
                filename=self.path, fsync="no-fsync" not in options, results=False, utc=False, timeout=30
            )
        else:
            self._huey = RedisHuey(url=url, blocking=True, read_timeout=1, results=False, utc=False)
        self._noop = self._huey.task(name="noop")(self.note)
        self._consumer: Any = None

    def submit_now(self, number: int) -> None:
        self._noop(number)

    async def submit_at(self, numbers: Sequence[int], instant: int) -> None:
        due = datetime.fromtimestamp(instant / 1e9)  # noqa: DTZ006 - huey's own way, with utc=False
        for number in numbers:
            self._noop.schedule((number,), eta=due)

    async def start(self) -> None:
        self._consumer = QuietConsumer(
            self._huey, workers=WORKERS[self.url.partition(":")[0]], periodic=False, initial_delay=LOOK_EVERY,
            backoff=1.0, max_delay=LOOK_EVERY, check_worker_health=False,
        )  # fmt: skip
        self._consumer.start()

    async def stop(self) -> None:
        await asyncio.to_thread(self._consumer.stop, graceful=True)

    async def left(self) -> int:
        return int(self._huey.pending_count() + self._huey.scheduled_count())


if __name__ == "__main__":
    main(Huey)
