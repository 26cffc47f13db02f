"""Drain, on PostgreSQL: see `bench.drain_crews`."""

from __future__ import annotations

from bench import server
from bench.drain_crews import Kind, drained
from bench.nodes import fill, wall
from bench.results import Result
from bench.rounds import Plan
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.sql.port import sql


def run(plan: Plan) -> list[Result]:
    """With one process, and with two."""
    with server.running() as postgres:
        return [drained(plan, postgres, POSTGRES, processes) for processes in (1, 2)]


async def filled(url: str, count: int, seed: int) -> list[int]:
    """Fill a queue, with this month's partitions for what will have been, and leave the database."""
    store = await PostgresStore.open(url)
    run_ids = await fill(store, count, seed=seed)
    await store.database.write(lambda tx: tx.make_room([wall()]))
    await store.database.write(lambda tx: tx.rows(sql("ANALYZE")))  # as the server does by itself after a while
    await store.close()
    return run_ids


POSTGRES = Kind("postgres", filled, bare_registers=False)
