"""Measures a drain of Redis with a full history (100,000 finished runs), as a share of the drain without any.

One worker process drains. With a full history every verdict also removes the oldest finished run. A million runs would
need 600 MB of the server's memory; the store keeps fewer. The finished runs come from earlier drains by the bare loop.
"""

from __future__ import annotations

import asyncio
import time

from bench import crew, valkey
from bench.bare_redis import Bare
from bench.drain_crews import RUNS
from bench.drain_redis import filled
from bench.history import AIM
from bench.nodes import check_executions, check_never_fenced, open_store
from bench.results import BenchFailed, Result, ratio
from bench.rounds import Plan, alternate
from onthedot.model.run import RunState
from onthedot.stores.redis.connections import MOST_FINISHED


def run(plan: Plan) -> list[Result]:
    """Measure on Redis."""
    kept, count = plan.count(MOST_FINISHED), plan.count(RUNS)
    with valkey.running() as server:
        behind, empty = server.create(), server.create()
        began = time.perf_counter()
        asyncio.run(_make(f"{behind}?history={kept}", kept, count, plan.seed))
        took = time.perf_counter() - began
        waiting = asyncio.run(filled(empty, count, plan.seed))
        ids = {behind: asyncio.run(filled(behind, count, plan.seed)), empty: waiting}

        def drain(full: str, what: str, left: int) -> float:
            url = f"{server.create(full)}?history={kept}"
            done = crew.drain(what, server, crew.ours("ours", url, plan.seed), 1, count)
            check_executions(what, ids[full], done.executed)
            asyncio.run(_check(what, url, left))
            server.drop(url)
            return done.rate

        pairs = alternate(
            plan,
            lambda _: drain(empty, "drain without history", min(count, kept)),
            lambda _: drain(behind, "drain with history", kept),
        )
    note = f"{kept:,} finished runs in history, made in {took:.0f} s; bare = empty"
    return [ratio("history redis drain", pairs, unit="runs/s", aim=AIM, note=note)]


async def _make(url: str, kept: int, batch: int, seed: int) -> None:
    for number in range(-(-kept // batch)):
        await filled(url, batch, seed + 1_000 + number)
        bare = await Bare.connect(url)
        await bare.drain([], seed, f"bare-{number}")
        await bare.close()
    store = await open_store(url)
    await store.leave(f"bare-{number}")
    await store.prune_nodes(2**62)  # forget the node of the bare loop
    await store.close()


async def _check(what: str, url: str, left: int) -> None:
    store = await open_store(url)
    found = await store.queries.count_runs()
    if found != {RunState.SUCCEEDED: left}:
        raise BenchFailed(f"{what}: expected {left} succeeded runs in the store, found {found}")
    await check_never_fenced(what, store)
    await store.close()
