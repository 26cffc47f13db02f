"""Drain, on Redis: the same as `bench.drain`, with one and with two worker processes beside as many bare ones.

The queue is filled once; every round drains a copy of that database. The note says what a run has cost in CPU, workers
and server apart: on a busy machine that moves less than rates do.
"""

from __future__ import annotations

import asyncio

from bench import crew, valkey
from bench.crew import Done
from bench.drain_postgres import AIM, FLOOR, RUNS, cpu
from bench.nodes import check_executions, check_history, check_never_fenced, fill, open_store
from bench.results import Result, ratio
from bench.rounds import Plan, alternate


def run(plan: Plan) -> list[Result]:
    """With one process, and with two."""
    with valkey.running() as server:
        return [_on(plan, server, processes) for processes in (1, 2)]


def _on(plan: Plan, server: valkey.Server, processes: int) -> Result:
    what = name_of(processes)
    full = server.create()
    run_ids = asyncio.run(filled(full, plan.count(RUNS) * processes, plan.seed))
    pairs = alternate(
        plan,
        lambda number: drain(f"{what}, bare", server, full, run_ids, "bare", processes, plan.seed + number),
        lambda number: drain(what, server, full, run_ids, "ours", processes, plan.seed + number),
    )
    note = f"CPU µs a run, workers + server: {cpu([o for _, o in pairs])}, bare {cpu([b for b, _ in pairs])}"
    return ratio(what, [(b.rate, o.rate) for b, o in pairs], unit="runs/s", floor=FLOOR, aim=AIM, note=note)


def name_of(processes: int) -> str:
    return f"drain redis, {processes} process{'es' if processes > 1 else ''}"


async def filled(url: str, count: int, seed: int) -> list[int]:
    """Fill a queue, and leave the server."""
    store = await open_store(url)
    run_ids = await fill(store, count, seed=seed)
    await store.close()
    return run_ids


def drain(
    what: str, server: valkey.Server, full: str, run_ids: list[int], kind: str, processes: int, seed: int
) -> Done:
    """Let a crew drain a copy, and see that each run was executed once and is in history once."""
    url = server.create(full)
    done = crew.drain(what, server, crew.ours(kind, url, seed), processes, len(run_ids))
    check_executions(what, run_ids, done.executed)
    asyncio.run(_check(what, url, len(run_ids), processes))
    server.drop(url)
    return done


async def _check(what: str, url: str, count: int, nodes: int) -> None:
    store = await open_store(url)
    await check_history(what, store, count)
    await check_never_fenced(what, store, nodes)
    await store.close()
