"""Measures how many runs per second one caller can submit on PostgreSQL, one by one and 500 at a time.

Bare is a loop that takes ids and inserts as many rows with the driver's statement, one transaction each. There is no
budget yet: the figures are only printed.
"""

from __future__ import annotations

import asyncio
import time

import asyncpg

from bench import bare_postgres, server
from bench.bare import BATCH
from bench.nodes import JOB, open_store, wall
from bench.results import BenchFailed, Result, ratio
from bench.rounds import Plan, alternate
from onthedot.ids import SeededIds
from onthedot.model.job import Call, Job
from onthedot.model.run import NewRun, RunState, submit_trigger
from onthedot.stores.postgres.transaction import TAKE_NUMBERS
from onthedot.stores.protocol import Store
from onthedot.stores.sql.submit import INSERT_RUNS

RUNS = {1: 300, BATCH: 20_000}  # by the size of a batch


def run(plan: Plan) -> list[Result]:
    """Measure one by one and in bulk."""
    with server.running() as postgres:
        return [_on(plan, postgres, size) for size in RUNS]


def _on(plan: Plan, postgres: server.Server, size: int) -> Result:
    count = plan.count(RUNS[size])
    pairs = alternate(
        plan,
        lambda number: asyncio.run(_bare(postgres.create(), count, size, plan.seed + number)),
        lambda number: asyncio.run(submit_all(postgres.create(), count, size, plan.seed + number)),
    )
    return ratio(f"submitting postgres, {size} at a time", pairs, unit="runs/s")


async def submit_all(url: str, count: int, size: int, seed: int) -> float:
    """Submit runs through the store in batches, and return the runs per second."""
    store = await open_store(url)
    job_id = await put_job(store)
    ids = SeededIds(seed)
    began = time.perf_counter()
    for start in range(0, count, size):
        most = min(size, count - start)
        await store.submit([NewRun(job_id, submit_trigger(ids.token()), wall()) for _ in range(most)])
    seconds = time.perf_counter() - began
    await check(store, count)
    return count / seconds


async def _bare(url: str, count: int, size: int, seed: int) -> float:
    store = await open_store(url)
    job_id = await put_job(store)
    ids = SeededIds(seed)
    db = await bare_postgres.connect(url)
    began = time.perf_counter()
    for start in range(0, count, size):
        await insert(db, job_id, [submit_trigger(ids.token()) for _ in range(min(size, count - start))])
    seconds = time.perf_counter() - began
    await db.close()
    await check(store, count)
    return count / seconds


async def insert(db: asyncpg.Connection[asyncpg.Record], job_id: int, triggers: list[str]) -> None:
    """Store runs with the driver's own statements, in one transaction."""
    now, count = wall(), len(triggers)
    async with db.transaction():
        run_ids = [number for (number,) in await db.fetch(TAKE_NUMBERS, "run_ids", count)]
        due = [now] * count
        await db.fetch(
            INSERT_RUNS.postgres, run_ids, [job_id] * count, triggers, due, due, due, [None] * count, [None] * count,
            [False] * count, ["default"] * count, [1] * count, ["default"] * count, [""] * count,
            [""] * count, now,
        )  # fmt: skip


async def put_job(store: Store) -> int:
    """Store a job, and return its id."""
    return (await store.put_job(Job(name=JOB, task=Call(handler=JOB)))).record.id


async def check(store: Store, count: int) -> None:
    """Check that all runs are stored, and close the store."""
    found = await store.queries.count_runs()
    if found != {RunState.SCHEDULED: count}:
        raise BenchFailed(f"submitting: expected {count} scheduled runs in the store, found {found}")
    await store.close()
