"""Measures how fast runs with gates are drained, compared with the same runs without gates.

Overlap: a hundred jobs that do not overlap themselves, so a hundred runs at a time. Limit: one job with ten tenants,
ten runs at a time of each. One key: the same with one tenant, so that all other runs wait. Both sides are ours, from
`start()` until `stop()` has returned; bare has the same jobs and arguments, but no gates. A gate that lets too many
runs pass fails the bench. There is no budget yet: the figures are only printed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import onthedot as otd
from bench import drain
from bench.nodes import JOB, GatedCounter, Where, open_store, submit_all, wall
from bench.results import Result, ratio
from bench.rounds import Plan, alternate
from bench.stores import STORES, places
from onthedot.ids import SeededIds
from onthedot.model.job import Call, Job, JobRecord
from onthedot.model.run import NewRun, submit_trigger
from onthedot.stores.protocol import Store

RUNS = {"overlap": 5_000, "limit": 5_000, "one key": 2_000}
JOBS = 100
MOST = 10  # runs of a tenant at a time
TENANTS = {"limit": 10, "one key": 1}


def run(plan: Plan) -> list[Result]:
    """Measure every store with every kind of gate."""
    return [_on(plan, store, kind) for store in STORES for kind in RUNS]


def _on(plan: Plan, store: str, kind: str) -> Result:
    what, count = f"gated {store} {kind}", plan.count(RUNS[kind])

    def side(name: str, closed: bool) -> Callable[[int], float]:
        def measure(number: int) -> float:
            where = place(f"{kind} {name}{number}")
            return asyncio.run(_drain(f"{what}, {name}", where, kind, closed, count, plan.seed + number))

        return measure

    with places(plan, store) as place:
        pairs = alternate(plan, side("bare", closed=False), side("ours", closed=True))
    return ratio(what, pairs, unit="runs/s", note=f"{_WORDS[kind]}; bare = no gates")


_WORDS = {
    "overlap": f"{JOBS} jobs that wait for themselves",
    "limit": f"{TENANTS['limit']} tenants, {MOST} at a time of each",
    "one key": f"one tenant, {MOST} at a time",
}


async def _drain(what: str, where: Where, kind: str, closed: bool, count: int, seed: int) -> float:
    store = await open_store(where)
    run_ids = await _fill(store, kind, closed, count, seed)
    await store.close()
    store = store if where is None else await open_store(where)
    counter = GatedCounter(count)
    drained = await drain.drain(what, store, run_ids, counter=counter)
    await store.close()
    if closed:
        counter.check(what, 1 if kind == "overlap" else MOST)
    return drained.rate


def _jobs(kind: str, closed: bool) -> list[Job]:
    if kind in TENANTS:
        limit = otd.Limit(MOST, key="tenant") if closed else None
        return [Job(name=f"{JOB} limited", task=Call(handler=JOB), concurrency=limit)]
    overlap = otd.Overlap("wait" if closed else "allow")
    return [Job(name=f"{JOB} {number}", task=Call(handler=JOB), overlap=overlap) for number in range(JOBS)]


async def _fill(store: Store, kind: str, closed: bool, count: int, seed: int) -> list[int]:
    """Submit overdue runs, one after the other. Jobs and tenants alternate."""
    ids = SeededIds(seed)
    records = [(await store.put_job(job)).record for job in _jobs(kind, closed)]
    first = wall() - count - 1_000_000

    def new(number: int) -> NewRun:
        record: JobRecord = records[number % len(records)]
        group = number % TENANTS.get(kind, JOBS)
        return NewRun(record.id, submit_trigger(ids.token()), first + number, json.dumps({"tenant": group}))

    return await submit_all(store, [new(number) for number in range(count)])
