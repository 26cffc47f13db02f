"""Drain, on PostgreSQL: the same as `bench.drain`, with one and with two worker processes beside as many bare ones.

The queue is filled once; every round drains a copy of that database. The note says what a run has cost in CPU, workers
and server apart: on a busy machine that moves less than rates do.
"""

from __future__ import annotations

import asyncio
from statistics import median

from bench import crew, server
from bench.crew import Done
from bench.nodes import check_executions, check_history, check_never_fenced, fill, open_store, wall
from bench.results import Result, ratio
from bench.rounds import Plan, alternate
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.partitions import make_room

RUNS = 20_000  # for each process
FLOOR, AIM = 0.35, 0.6


def run(plan: Plan) -> list[Result]:
    """With one process, and with two."""
    with server.running() as postgres:
        return [_on(plan, postgres, processes) for processes in (1, 2)]


def _on(plan: Plan, postgres: server.Server, processes: int) -> Result:
    what = name_of(processes)
    full = postgres.create()
    run_ids = asyncio.run(filled(full, plan.count(RUNS) * processes, plan.seed))
    pairs = alternate(
        plan,
        lambda number: drain(f"{what}, bare", postgres, full, run_ids, "bare", processes, plan.seed + number),
        lambda number: drain(what, postgres, full, run_ids, "ours", processes, plan.seed + number),
    )
    note = f"CPU µs a run, workers + server: {cpu([o for _, o in pairs])}, bare {cpu([b for b, _ in pairs])}"
    return ratio(what, [(b.rate, o.rate) for b, o in pairs], unit="runs/s", floor=FLOOR, aim=AIM, note=note)


def name_of(processes: int) -> str:
    return f"drain postgres, {processes} process{'es' if processes > 1 else ''}"


def cpu(all_done: list[Done]) -> str:
    """What a run has cost, as a median over rounds."""
    return f"{median(done.worker_cpu for done in all_done):.0f} + {median(done.server_cpu for done in all_done):.0f}"


async def filled(url: str, count: int, seed: int) -> list[int]:
    """Fill a queue, with this month's partitions for what will have been, and leave the database."""
    store = await PostgresStore.open(url)
    run_ids = await fill(store, count, seed=seed)
    await store.write(lambda tx: make_room(tx, [wall()]))
    await store.write(lambda tx: tx.rows("ANALYZE"))  # what the server would have done by itself after a while
    await store.close()
    return run_ids


def drain(
    what: str, postgres: server.Server, full: str, run_ids: list[int], kind: str, processes: int, seed: int
) -> Done:
    """Let a crew drain a copy, and see that each run was executed once and is in history once."""
    url = postgres.create(full)
    done = crew.drain(what, postgres, crew.ours(kind, url, seed), processes, len(run_ids))
    check_executions(what, run_ids, done.executed)
    asyncio.run(_check(what, url, len(run_ids), processes if kind == "ours" else 0))
    postgres.drop(url)
    return done


async def _check(what: str, url: str, count: int, nodes: int) -> None:
    store = await open_store(url)
    await check_history(what, store, count)
    await check_never_fenced(what, store, nodes)
    await store.close()
