"""Measures the delay from the return of `submit` until the handler starts, on an idle node in the same process.

It is compared with the round trip of the store's smallest write: a committed heartbeat through the driver, on another
store of the same kind, in turn with the submits. A handler that starts before `submit` has returned counts as 0.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from statistics import median

import onthedot as otd
from bench.nodes import JOB, Where, check_executions, check_history, check_never_fenced, open_store, patiently, wall
from bench.results import Result
from bench.rounds import Plan, percentile
from bench.stores import STORES, places
from onthedot.clock import MILLISECOND, Micros
from onthedot.stores.protocol import Store
from onthedot.stores.values import Node

SUBMITS = 100
PAUSE = 0.015  # seconds, plus a random time of up to the same length, so that the node is idle each time

_LONG: Micros = 10**12


@dataclass(slots=True)
class Round:
    """The times of one round, in milliseconds."""

    trips: list[float] = field(default_factory=list)
    from_return: list[float] = field(default_factory=list)
    from_call: list[float] = field(default_factory=list)


def run(plan: Plan) -> list[Result]:
    """Measure on memory, SQLite, PostgreSQL and Redis."""
    return [_on(plan, store) for store in STORES]


def _on(plan: Plan, store: str) -> Result:
    what, count = f"submit {store}", plan.count(SUBMITS)
    with places(plan, store) as place:
        rounds = [
            asyncio.run(_round(what, place(str(number)), place(f"{number}.probe"), count, plan.seed + number))
            for number in range(plan.rounds)
        ]
    trip = median(median(r.trips) for r in rounds)
    waits = [median(r.from_return) for r in rounds]
    tail = median(percentile(r.from_return, 0.99) for r in rounds)
    whole = median(median(r.from_call) for r in rounds)
    return Result(
        name=f"submit {store}", ours=median(waits), bare=trip, measured=median(waits), unit="ms",
        measure="return to start, ms", spread=(min(waits), max(waits)), floor=3 * trip + 3, aim=2 * trip + 1,
        note=f"p99 {tail:.2f} ms, from the call {whole:.2f} ms, bare = a round trip",
    )  # fmt: skip


async def _round(what: str, where: Where, beside: Where, count: int, seed: int) -> Round:
    chance = random.Random(seed)
    store = await open_store(where)
    probe = await open_store(beside)
    await probe.register(Node("probe", "probe"), ttl=_LONG)
    starts: asyncio.Queue[tuple[int, Micros]] = asyncio.Queue()
    sched = otd.Scheduler(store)

    @sched.job(name=JOB)
    async def note(ctx: otd.Context) -> None:
        started_at = wall()
        starts.put_nowait((ctx.run_id, started_at))

    found = Round()
    asked: list[int] = []
    executed: list[int] = []
    async with sched:
        for _ in range(count):
            await asyncio.sleep(PAUSE * (1 + chance.random()))
            found.trips.append(await _round_trip(probe))
            called = wall()
            asked.append((await sched.submit(JOB)).id)
            returned = wall()
            run_id, started_at = await patiently(starts.get(), what)
            executed.append(run_id)
            found.from_return.append(max(0, started_at - returned) / MILLISECOND)
            found.from_call.append((started_at - called) / MILLISECOND)
    while not starts.empty():
        executed.append(starts.get_nowait()[0])
    check_executions(what, asked, executed)
    await check_history(what, store, count)
    await check_never_fenced(what, store)
    await store.close()
    await probe.close()
    return found


async def _round_trip(store: Store) -> float:
    began = time.perf_counter()
    await store.beat("probe", ttl=_LONG)
    return (time.perf_counter() - began) * 1_000
