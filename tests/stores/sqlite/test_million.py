"""A million schedules and a million waiting runs: the queries of each tick read only their own range."""

from __future__ import annotations

import sqlite3

import pytest

from onthedot.clock import SECOND
from onthedot.ids import LeaseIds
from onthedot.model.job import Call, Job
from onthedot.model.route import PRIORITIES
from onthedot.model.run import NewRun, submit_trigger
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import Node, ReserveRequest

NOW = 1_780_000_000 * SECOND
MILLION = 1_000_000

NUMBERS = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)"

FILL_SCHEDULES = f"""
INSERT INTO schedules (job_id, schedule_id, bucket, origin, watermark, next_at)
{NUMBERS} SELECT 1, 's' || n, n % 1024, 0, 0, :now + 60000000 + n FROM numbers
"""  # noqa: S608 - constants of this file

FILL_RUNS = f"""
INSERT INTO runs (id, job_id, state, route, priority, queue, share, slot_at, due_at, ready_at, attempt, failures,
                  recoveries, delayed, created_at, trigger, target, reason)
{NUMBERS}
SELECT 1000000 + n, 1, 'scheduled', 'default', 0, 'default', '', :now - n, :now - n, :now - n, 0, 0, 0, 0, 0,
       'submit:' || n, '', '' FROM numbers
"""  # noqa: S608 - constants of this file


async def crowded(path, count: int) -> SqliteStore:
    store = await SqliteStore.open(path)
    for priority in PRIORITIES:
        await store.put_job(Job(name=priority, task=Call(handler="work"), priority=priority), now=NOW)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN")
    db.execute(FILL_SCHEDULES, {"count": count, "now": NOW})
    db.execute(FILL_RUNS, {"count": count, "now": NOW})
    db.execute("UPDATE meta SET value = 3000000 WHERE name = 'run'")
    db.execute("COMMIT")
    db.close()
    return store


async def steps(store: SqliteStore, work) -> int:
    """Returns how many hundreds of instructions SQLite executes for a call."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    await store.database.writer.run(lambda tx: tx.db.set_progress_handler(count, 100))
    await work()
    await store.database.writer.run(lambda tx: tx.db.set_progress_handler(None, 100))
    return taken


async def costs(path, count: int) -> dict[str, int]:
    store = await crowded(path, count)
    try:
        await store.register(Node("n", "i"), ttl=3600 * SECOND, now=NOW)
        ids = iter(range(10_000))

        async def reserve() -> None:
            ask = ReserveRequest(
                "i", LeaseIds(f"l{next(ids)}", 20), 10, 10, horizon=2 * SECOND, tasks=frozenset({"call:work"})
            )
            got = await store.reserve(ask, now=NOW)
            assert len(got.armed) == 10

        async def due() -> None:
            assert (await store.due_schedules(until=NOW + 30 * SECOND, limit=500)).schedules == []

        found = {"reserve": await steps(store, reserve), "due schedules": await steps(store, due)}
        critical = await store.queries.get_job("critical")
        assert critical is not None
        [urgent] = await store.submit([NewRun(critical.id, submit_trigger("urgent"), NOW)], now=NOW)
        ask = ReserveRequest("i", LeaseIds("urgent", 1), 1, tasks=frozenset({"call:work"}))
        [lease] = (await store.reserve(ask, now=NOW)).armed
        assert lease.run_id == urgent, "expected the urgent run before all others"
        return found
    finally:
        await store.close()


@pytest.mark.slow
@pytest.mark.parametrize("count", [MILLION // 5, pytest.param(MILLION, marks=pytest.mark.soak)])
async def test_a_tick_costs_the_same_with_a_million_rows_as_with_a_thousand(tmp_path, count: int):
    few = await costs(tmp_path / "few.db", 1_000)
    many = await costs(tmp_path / "many.db", count)
    for question, cost in many.items():
        assert cost <= few[question] * 1.2 + 2, f"{question}: {cost} with {count} rows, {few[question]} with a thousand"
