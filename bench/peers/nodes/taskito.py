"""taskito, on SQLite and PostgreSQL: 16 threads, 200 jobs claimed at a time, and a poll every millisecond.

On SQLite it sets `synchronous` to NORMAL, which users cannot change: a power failure takes the last commits.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

from taskito import Queue

from bench.peers.node import BlockingNode, main

THREADS, CLAIMED, LOOK_EVERY_MS = 16, 200, 1


class Taskito(BlockingNode):
    distribution = "taskito"
    has_bulk = True

    def __init__(self, url: str, options: Sequence[str]) -> None:
        super().__init__(url, options)
        place: Any = {"db_path": self.path}
        if not url.startswith("sqlite:"):
            place = {"backend": "postgres", "db_url": url}
        self._queue = Queue(
            workers=THREADS, scheduler_batch_size=CLAIMED, scheduler_poll_interval_ms=LOOK_EVERY_MS,
            push_dispatch=True, **place,
        )  # fmt: skip
        self._noop: Any = self._queue.task(name="noop")(self._run)
        self._thread: Any = None

    def _run(self, number: int) -> None:
        self.note(number)

    def submit_now(self, number: int) -> None:
        self._noop.delay(number)

    async def submit_bulk(self, numbers: Sequence[int]) -> None:
        self._queue.enqueue_many("noop", [(number,) for number in numbers])

    async def submit_at(self, numbers: Sequence[int], instant: int) -> None:
        self._queue.enqueue_many("noop", [(number,) for number in numbers], delay=instant / 1e9 - time.time())

    async def start(self) -> None:
        self._thread = threading.Thread(target=self._queue.run_worker, daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        self._queue.shutdown()
        await asyncio.to_thread(self._thread.join)

    async def left(self) -> int:
        counts = self._queue.stats()
        return int(counts["pending"] + counts["running"])


if __name__ == "__main__":
    main(Taskito)
