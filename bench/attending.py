"""What a process of a crew says and hears: nothing of ours is imported, so that a peer's process can use it.

    says ready ── hears go ── starts, and says now and then how many runs it has executed ── hears stop
    ── says done, when all is written ── says which runs, and what that has cost it

One line each, on its standard input and output. `bench.crew` is the other side.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Protocol

EVERY = 0.01  # seconds between two looks at the count


class Worker(Protocol):
    """One that executes runs, and notes which."""

    executed: list[int]

    async def start(self) -> asyncio.Task[None] | None:
        """Begin to work; the task that does it, if it can fail."""

    async def stop(self) -> None:
        """End it: all that was executed is written when this returns."""


async def attend(worker: Worker) -> None:
    """Let a worker work as it is told."""
    _say("ready")
    await _hear()
    used = time.process_time()
    working = await worker.start()
    telling = asyncio.create_task(_tell(worker.executed))
    hearing = asyncio.create_task(_hear())
    while not hearing.done():
        await asyncio.wait({task for task in (working, hearing) if task}, return_when=asyncio.FIRST_COMPLETED)
        if working is not None and working.done():
            working.result()  # raises what went wrong
            working = None
    await worker.stop()
    used = time.process_time() - used
    telling.cancel()
    _say("done")
    _say(json.dumps({"run_ids": worker.executed, "cpu_seconds": used}))


async def _tell(executed: list[int]) -> None:
    told = 0
    while True:
        await asyncio.sleep(EVERY)
        if len(executed) > told:
            told = len(executed)
            _say(str(told))


def _say(line: str) -> None:
    print(line, flush=True)


async def _hear() -> str:
    return await asyncio.to_thread(sys.stdin.readline)
