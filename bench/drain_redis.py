"""Measures drains on Redis. See `bench.drain_crews`."""

from __future__ import annotations

from bench import valkey
from bench.drain_crews import Kind, compare_drains
from bench.nodes import fill, open_store
from bench.results import Result
from bench.rounds import Plan


def run(plan: Plan) -> list[Result]:
    """Measure with one process and with two."""
    with valkey.running() as server:
        return [compare_drains(plan, server, REDIS, processes) for processes in (1, 2)]


async def filled(url: str, count: int, seed: int) -> list[int]:
    """Fill a queue and disconnect."""
    store = await open_store(url)
    run_ids = await fill(store, count, seed=seed)
    await store.close()
    return run_ids


REDIS = Kind("redis", filled, bare_registers=True)
