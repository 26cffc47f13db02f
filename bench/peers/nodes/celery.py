"""Celery, on Redis: eight threads, 64 messages prefetched for each, and no results, gossip, mingle or heartbeats."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import celery
from celery.worker import WorkController
from celery.worker import state as worker_state

from bench.peers.node import AT_ONCE, BlockingNode, main

THREADS, FETCHED = 8, 64


class Celery(BlockingNode):
    distribution = "celery"

    def __init__(self, url: str, options: Sequence[str]) -> None:
        super().__init__(url, options)
        self._app: Any = celery.Celery("bench", broker=url, set_as_current=True)
        self._app.conf.update(
            task_ignore_result=True, broker_pool_limit=AT_ONCE, worker_prefetch_multiplier=FETCHED,
            worker_hijack_root_logger=False,
        )  # fmt: skip

        @self._app.task(name="noop")
        def noop(number: int) -> None:
            self.note(number)

        self._noop: Any = noop
        self._worker: Any = None
        self._thread: Any = None

    def submit_now(self, number: int) -> None:
        self._noop.delay(number)

    async def submit_at(self, numbers: Sequence[int], instant: int) -> None:
        due = datetime.fromtimestamp(instant / 1e9, UTC)
        for number in numbers:
            self._noop.apply_async((number,), eta=due)

    async def start(self) -> None:
        self._worker = WorkController(
            app=self._app, pool_cls="threads", concurrency=THREADS, without_gossip=True, without_mingle=True,
            without_heartbeat=True, loglevel="ERROR", hostname=f"bench@{id(self)}",
        )  # fmt: skip
        self._thread = threading.Thread(target=self._worker.start, daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """A warm shutdown, as by SIGTERM."""
        worker_state.should_stop = 0
        await asyncio.to_thread(self._thread.join)

    async def left(self) -> int:
        with self._app.connection_for_read() as connection:
            client = connection.default_channel.client
            return int(client.llen("celery")) + int(client.hlen("unacked"))


if __name__ == "__main__":
    main(Celery)
