"""Lets a worker process of a crew talk to its parent.

    prints ready ── reads go ── starts, and repeatedly prints how many runs it has executed ── reads stop
    ── prints done when everything is written ── prints the ids of its runs and its CPU time

Each message is one line on standard input or output. `bench.crew` is the other side.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Protocol

EVERY = 0.01  # seconds between two reports of the count


class Worker(Protocol):
    """A worker that executes runs and notes their ids."""

    executed: list[int]

    async def start(self) -> asyncio.Task[None] | None:
        """Start to work, and return the task that does it, if it can fail."""

    async def stop(self) -> None:
        """Stop. Everything that was executed is written when this returns."""


async def run_worker(worker: Worker) -> None:
    """Run a worker from "go" until "stop", and print its progress and its result."""
    _print("ready")
    await _read()
    used = time.process_time()
    working = await worker.start()
    reporting = asyncio.create_task(_report(worker.executed))
    reading = asyncio.create_task(_read())
    while not reading.done():
        await asyncio.wait({task for task in (working, reading) if task}, return_when=asyncio.FIRST_COMPLETED)
        if working is not None and working.done():
            working.result()  # raises the error of a failed task
            working = None
    await worker.stop()
    used = time.process_time() - used
    reporting.cancel()
    _print("done")
    _print(json.dumps({"run_ids": worker.executed, "cpu_seconds": used}))


async def _report(executed: list[int]) -> None:
    reported = 0
    while True:
        await asyncio.sleep(EVERY)
        if len(executed) > reported:
            reported = len(executed)
            _print(str(reported))


def _print(line: str) -> None:
    print(line, flush=True)


async def _read() -> str:
    return await asyncio.to_thread(sys.stdin.readline)
