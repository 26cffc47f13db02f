"""Runs a node in its own process, which `bench.sizing` measures.

    python -m bench.sizing_node <file.db> <seconds> <seed>

Its handler takes 10 ms to a minute, mostly short times, and notes how late it was called. It prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import sys
import time

import onthedot as otd
from bench.idle_node import resident
from bench.nodes import wall
from bench.results import BenchFailed
from onthedot.clock import SECOND, Micros, to_micros

SEATS = 500
SHORTEST, LONGEST = 0.01, 60.0  # seconds
SETTLING = 2.0


async def main(path: str, seconds: float, seed: int) -> None:
    """Run the node, measure it, stop it, and print the figures. Handlers that still run at the end are cut short."""
    chance = random.Random(seed)
    late: list[Micros] = []
    slots: list[tuple[int, Micros]] = []
    over = asyncio.Event()
    settings = otd.Settings(seats=SEATS, ahead=SEATS, grace=10 * SECOND)
    sched = otd.Scheduler(f"sqlite:///{path}", settings=settings)

    async def work(ctx: otd.Context) -> None:
        due_at = to_micros(ctx.scheduled_at)
        late.append(wall() - due_at)
        slots.append((ctx.run_id, due_at))
        length = math.exp(chance.uniform(math.log(SHORTEST), math.log(LONGEST)))
        try:
            await asyncio.wait_for(over.wait(), length)
        except TimeoutError:
            return

    sched.registry.add("sized", work)
    async with sched:
        await asyncio.sleep(SETTLING)
        settled, used, began = len(late), time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        used, took = time.process_time() - used, time.perf_counter() - began
        megabytes = resident()
        over.set()
    if min(late, default=0) < 0:
        raise BenchFailed(f"sizing: a run started {-min(late)} µs early")
    if len(set(slots)) != len(slots):
        raise BenchFailed(f"sizing: {len(slots)} starts of {len(set(slots))} runs")
    figures = {"late": late[settled:], "runs": len(slots), "megabytes": megabytes, "cpu_percent": 100 * used / took}
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
