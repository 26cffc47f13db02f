"""Measures how much memory of a Redis server a waiting and a finished run take. Less is better.

The runs have no arguments and results, and one attempt each. The figure is the growth of `INFO memory`.
"""

from __future__ import annotations

import asyncio

from bench import valkey
from bench.bare_redis import Bare
from bench.drain_redis import filled
from bench.results import Result
from bench.rounds import Plan

RUNS = 50_000
FLOORS = {"waiting": 650.0, "finished": 650.0}
AIMS = {"waiting": 500.0, "finished": 500.0}


def run(plan: Plan) -> list[Result]:
    """Measure a waiting run and a finished one."""
    count = plan.count(RUNS)
    with valkey.running() as server:
        url = server.create()
        before = server.memory()
        asyncio.run(filled(url, count, plan.seed))
        waiting = (server.memory() - before) / count
        asyncio.run(_drain(url, plan.seed))
        finished = (server.memory() - before) / count
    return [_line(name, value, count) for name, value in (("waiting", waiting), ("finished", finished))]


async def _drain(url: str, seed: int) -> None:
    bare = await Bare.connect(url)
    await bare.drain([], seed, "bare")
    await bare.close()


def _line(name: str, value: float, count: int) -> Result:
    return Result(
        name=f"memory redis, {name}", ours=value, bare=0.0, measured=value, spread=(value, value), unit="bytes",
        measure="bytes per run", floor=FLOORS[name], aim=AIMS[name], note=f"{count:,} runs",
    )  # fmt: skip
