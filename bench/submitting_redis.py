"""Measures how many runs per second one caller can submit on Redis, one by one and 500 at a time.

Bare is a loop that sends as many to the driver's script. There is no budget yet: the figures are only printed.
"""

from __future__ import annotations

import asyncio
import time

from bench import valkey
from bench.bare import BATCH
from bench.bare_redis import Bare
from bench.nodes import open_store, wall
from bench.results import Result, ratio
from bench.rounds import Plan, alternate
from bench.submitting_postgres import check, put_job, submit_all
from onthedot.ids import SeededIds
from onthedot.model.run import submit_trigger

RUNS = {1: 2_000, BATCH: 20_000}  # by the size of a batch


def run(plan: Plan) -> list[Result]:
    """Measure one by one and in bulk."""
    with valkey.running() as server:
        return [_on(plan, server, size) for size in RUNS]


def _on(plan: Plan, server: valkey.Server, size: int) -> Result:
    count = plan.count(RUNS[size])
    pairs = alternate(
        plan,
        lambda number: asyncio.run(_bare(server.create(), count, size, plan.seed + number)),
        lambda number: asyncio.run(submit_all(server.create(), count, size, plan.seed + number)),
    )
    return ratio(f"submitting redis, {size} at a time", pairs, unit="runs/s")


async def _bare(url: str, count: int, size: int, seed: int) -> float:
    store = await open_store(url)
    job_id = await put_job(store)
    ids = SeededIds(seed)
    bare = await Bare.connect(url)
    began = time.perf_counter()
    for start in range(0, count, size):
        await insert(bare, job_id, [submit_trigger(ids.token()) for _ in range(min(size, count - start))])
    seconds = time.perf_counter() - began
    await bare.close()
    await check(store, count)
    return count / seconds


async def insert(bare: Bare, job_id: int, triggers: list[str]) -> None:
    """Store runs with the driver's own script, in one call."""
    now = wall()
    await bare.call("submit", runs=[{"job_id": job_id, "trigger": one, "slot": now, "due": now} for one in triggers])
