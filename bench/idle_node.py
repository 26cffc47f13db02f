"""Runs a node with five small jobs in its own process, which `bench.schedules` measures.

    python -m bench.idle_node <store's URL> <seconds>

It measures itself, from when it has settled, and prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from pathlib import Path

import onthedot as otd

ACTIVE = 5
SETTLING = 1.5  # seconds


async def main(url: str, seconds: float) -> None:
    """Run the node, measure it, stop it, and print the figures."""
    runs = 0
    sched = otd.Scheduler(url)

    async def tick() -> None:
        nonlocal runs
        runs += 1

    for number in range(ACTIVE):
        sched.job(name=f"active-{number}", schedule=otd.every("1s"))(tick)
    async with sched:
        await asyncio.sleep(SETTLING)
        began, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        took, used = time.perf_counter() - began, time.process_time() - used
        megabytes = resident()
    print(json.dumps({"megabytes": megabytes, "cpu_percent": 100 * used / took, "runs": runs}))


def resident() -> float:
    """Return the resident memory in MB: the present one, or the highest one if the system has no /proc."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
