"""A program whose handlers are in its main module: `python worker.py <file.db> <folder>`.

It also runs as `python -m tests.runners.children.worker`. It prints its events as JSON, and stops when its input ends.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

import onthedot as otd
from onthedot.clock import SystemClock
from onthedot.observe.json_fields import json_line

sched = otd.Scheduler(f"sqlite:///{sys.argv[1]}" if len(sys.argv) > 1 else "memory:")


@sched.job(isolation="process")
def sleeper(folder: str) -> None:
    path = Path(folder) / "pids"
    path.with_suffix(".part").write_text(f"{os.getpid()} {os.getppid()}")
    path.with_suffix(".part").rename(path)
    time.sleep(60)


@sched.job(isolation="process")
def hello() -> str:
    return f"hello from {__name__}"


async def main(folder: str) -> None:
    sched.subscribe(lambda event: print(json_line(event, SystemClock().now()), flush=True))
    async with sched:
        await sched.submit("hello")
        if folder:
            await sched.submit("sleeper", {"folder": folder})
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2] if len(sys.argv) > 2 else ""))
