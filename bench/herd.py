"""Measures ten thousand runs that are due at one instant: how late the last one starts, compared with bare timers.

The node is ready before the instant. Every run must start once, none early, all must be in history, and the node must
keep its lease. There is no budget yet: the figures are only printed.
"""

from __future__ import annotations

import asyncio

from bench import bare
from bench.nodes import (
    TimedCounter,
    Where,
    check_executions,
    check_history,
    check_never_fenced,
    fill,
    open_store,
    patiently,
    wall,
)
from bench.results import BenchFailed, Result, above
from bench.rounds import Plan, alternate
from bench.stores import STORES, places
from onthedot.clock import MILLISECOND, SECOND, Micros

RUNS = 10_000
LEAD: Micros = 3 * SECOND  # to fill the queue and to start the node
SHORT_LEAD: Micros = 2 * SECOND  # for few runs


def run(plan: Plan) -> list[Result]:
    """Measure on memory, SQLite, PostgreSQL and Redis."""
    return [_on(plan, store) for store in STORES]


def _on(plan: Plan, store: str) -> Result:
    count = plan.count(RUNS)
    lead = LEAD if plan.size >= 1 else SHORT_LEAD

    with places(plan, store) as place:
        pairs = alternate(
            plan,
            lambda _: asyncio.run(_bare(count)),
            lambda number: asyncio.run(_ours(f"herd {store}", place(str(number)), count, lead, plan.seed + number)),
        )
    return above(f"herd {store} last start", pairs, unit="ms", note=f"{count:,} runs at one instant; bare = timers")


async def _bare(count: int) -> float:
    late = await bare.timers([wall() + SECOND // 5] * count)
    return max(late) / MILLISECOND


async def _ours(what: str, where: Where, count: int, lead: Micros, seed: int) -> float:
    store = await open_store(where)
    due_at = wall() + lead
    run_ids = await fill(store, count, seed=seed, due_at=due_at)
    counter = TimedCounter(count)
    sched = counter.scheduler(store)
    await sched.start()
    try:
        if wall() > due_at - lead // 10:
            raise BenchFailed(f"{what}: the node was not ready before the instant; the machine is too busy")
        await patiently(counter.all_started.wait(), what)
    finally:
        await sched.stop()
    if min(counter.starts) < due_at:
        raise BenchFailed(f"{what}: a run started {due_at - min(counter.starts)} µs early")
    check_executions(what, run_ids, counter.run_ids)
    await check_history(what, store, count)
    await check_never_fenced(what, store)
    await store.close()
    return (max(counter.starts) - due_at) / MILLISECOND
