"""Measures drains on PostgreSQL. See `bench.drain_crews`."""

from __future__ import annotations

from bench import server
from bench.drain_crews import Kind, compare_drains
from bench.nodes import fill, wall
from bench.results import Result
from bench.rounds import Plan
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.sql.port import sql


def run(plan: Plan) -> list[Result]:
    """Measure with one process and with two."""
    with server.running() as postgres:
        return [compare_drains(plan, postgres, POSTGRES, processes) for processes in (1, 2)]


async def filled(url: str, count: int, seed: int) -> list[int]:
    """Fill a queue, make the partition of this month for history, and disconnect."""
    store = await PostgresStore.open(url)
    run_ids = await fill(store, count, seed=seed)
    await store.database.write(lambda tx: tx.make_room([wall()]))
    await store.database.write(lambda tx: tx.rows(sql("ANALYZE")))  # the server would do it later by itself
    await store.close()
    return run_ids


POSTGRES = Kind("postgres", filled, bare_registers=False)
