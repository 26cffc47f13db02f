"""APScheduler 3, in memory and on SQLite (by SQLAlchemy, with a write-ahead log). It runs coroutines on the event loop.

There is no misfire grace time, because it would skip jobs that wait. One process both submits and works, because a
worker in another process would not notice new jobs.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from bench.peers.node import Node, main

_nodes: list[APScheduler3] = []


async def noop(number: int) -> None:
    """Job stores keep the name of this function."""
    _nodes[0].note(number)


class APScheduler3(Node):
    distribution = "apscheduler"

    def __init__(self, url: str, options: Sequence[str]) -> None:
        super().__init__(url, options)
        _nodes.append(self)
        self._scheduler: Any = None

    def _open(self) -> Any:
        """The scheduler, which is started, and paused until it is to work: jobs are stored from then on."""
        if self._scheduler is None:
            store = MemoryJobStore() if self.url == "memory:" else SQLAlchemyJobStore(url=self.url)
            self._scheduler = AsyncIOScheduler(
                jobstores={"default": store}, executors={"default": AsyncIOExecutor()}, timezone=UTC,
                job_defaults={"misfire_grace_time": None},
            )  # fmt: skip
            self._scheduler.add_listener(self._acknowledged, EVENT_JOB_EXECUTED)
            self._scheduler.start(paused=True)
        return self._scheduler

    def _acknowledged(self, _: object) -> None:
        self.ended = time.time_ns()

    async def prepare(self) -> None:
        if self.url != "memory:":
            with contextlib.closing(sqlite3.connect(self.path)) as db:
                db.execute("PRAGMA journal_mode = WAL")

    async def connect(self) -> None:
        self._open()

    async def submit(self, number: int) -> None:
        self._scheduler.add_job(noop, args=(number,))

    async def submit_at(self, numbers: Sequence[int], instant: int) -> None:
        due = datetime.fromtimestamp(instant / 1e9, UTC)
        for number in numbers:
            self._scheduler.add_job(noop, "date", run_date=due, args=(number,))

    async def start(self) -> None:
        scheduler = self._open()
        self.began = time.time_ns()
        scheduler.resume()

    async def stop(self) -> None:
        self._scheduler.pause()

    async def left(self) -> int:
        return len(self._open().get_jobs())


if __name__ == "__main__":
    main(APScheduler3)
