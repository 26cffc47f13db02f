"""procrastinate, on PostgreSQL with psycopg's binary build: uvloop, LISTEN, 32 jobs at a time, and 16 connections.

It keeps finished jobs, as by default; deleting them was not faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import procrastinate

from bench.peers.node import Node, main

CONCURRENCY = 32
CONNECTIONS = 16


class Procrastinate(Node):
    distribution = "procrastinate"
    has_bulk = True
    uses_uvloop = True

    def __init__(self, url: str, options: Sequence[str]) -> None:
        super().__init__(url, options)
        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=CONNECTIONS)
        self._app = procrastinate.App(connector=connector)
        self._is_open = False
        self._task: Any = None

        @self._app.task(name="noop")
        async def noop(number: int) -> None:
            self.note(number)

        self._noop = noop

    async def _open(self) -> None:
        if not self._is_open:
            await self._app.open_async()
            self._is_open = True

    async def prepare(self) -> None:
        await self._open()
        await self._app.schema_manager.apply_schema_async()

    async def connect(self) -> None:
        await self._open()

    async def submit(self, number: int) -> None:
        await self._noop.defer_async(number=number)

    async def submit_bulk(self, numbers: Sequence[int]) -> None:
        await self._noop.batch_defer_async(*({"number": number} for number in numbers))

    async def submit_at(self, numbers: Sequence[int], instant: int) -> None:
        due = self._noop.configure(schedule_at=datetime.fromtimestamp(instant / 1e9, UTC))
        await due.batch_defer_async(*({"number": number} for number in numbers))

    async def start(self) -> None:
        await self._open()
        working = self._app.run_worker_async(
            concurrency=CONCURRENCY, install_signal_handlers=False, listen_notify=True,
            fetch_job_polling_interval=1.0,
        )  # fmt: skip
        self._task = asyncio.create_task(working)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def left(self) -> int:
        await self._open()
        jobs = await self._app.connector.execute_query_all_async(
            "SELECT count(*) AS count FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        )
        return int(jobs[0]["count"])


if __name__ == "__main__":
    main(Procrastinate)
