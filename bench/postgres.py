"""PostgreSQL: a drain of no-op runs beside a bare loop of the same batched statements.

The server is ours, from the wheel, with fsync on, on the same cores. Bare uses the driver's own statements on one plain
connection: take and arm a batch in one transaction, one no-op task per run, and the batch's verdicts in one statement.
Ours is the whole scheduler as users have it, as in `drain.py`. Each side has a fresh copy of the same full database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import asyncpg

from bench.bare import BATCH, TASKS, perform
from bench.drain import AIM, FLOOR, RUNS, Drained, drain
from bench.nodes import check_executions, check_history, fill, wall
from bench.results import Result, ratio
from bench.rounds import Plan, alternate
from onthedot.clock import Micros
from onthedot.ids import SeededIds
from onthedot.route import BONUS
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.finish import FINISH
from onthedot.stores.postgres.partitions import make_room
from onthedot.stores.postgres.reserve import ARM_NOW, LIST_DUE_RUNS
from tests.servers.postgres import PostgresServer, name_of

INCARNATION = "bare"


def run(plan: Plan) -> list[Result]:
    """One server for all rounds."""
    with PostgresServer(fsync=True) as server:
        return [_drain(plan, server)]


def _drain(plan: Plan, server: PostgresServer) -> Result:
    count = plan.count(RUNS)
    full = server.create_database()
    run_ids = asyncio.run(_fill(full, count, plan.seed))

    def copied() -> str:
        return server.create_database(template=name_of(full))

    pairs = alternate(
        plan,
        lambda number: asyncio.run(_bare(copied(), run_ids, plan.seed + number)),
        lambda _: asyncio.run(_ours(copied(), run_ids)),
    )
    commits = [ours.commits or 0 for _, ours in pairs]
    note = f"{min(commits)}–{max(commits)} transactions, bare {2 * -(-count // BATCH)}"
    return ratio("drain postgres", [(b.rate, o.rate) for b, o in pairs], unit="runs/s", floor=FLOOR, aim=AIM, note=note)


async def _fill(url: str, count: int, seed: int) -> list[int]:
    store = await PostgresStore.open(url)
    run_ids = await fill(store, count, seed=seed)
    await store.close()
    await _settle(url)
    return run_ids


async def _settle(url: str) -> None:
    """What autovacuum would know after a while."""
    db = await asyncpg.connect(url)
    await db.execute("ANALYZE")
    await db.close()


async def _ours(url: str, run_ids: list[int]) -> Drained:
    store = await PostgresStore.open(url)
    before = store.commits
    drained = await drain("drain postgres", store, run_ids)
    await store.close()
    return Drained(drained.rate, store.commits - before)


async def _bare(url: str, run_ids: list[int], seed: int) -> Drained:
    store = await PostgresStore.open(url)
    await store.write(lambda tx: make_room(tx, [wall()]))
    db = await asyncpg.connect(url, server_settings={"search_path": "onthedot"}, statement_cache_size=100)
    ids, executed = SeededIds(seed), list[int]()
    began = time.perf_counter()
    while taken := await _take(db, ids.leases(BATCH)):
        started_at, ended_at = await perform([run_id for run_id, _ in taken], executed)
        await _finish(db, taken, started_at, ended_at)
    seconds = time.perf_counter() - began
    await db.close()
    check_executions("drain postgres, bare", run_ids, executed)
    await check_history("drain postgres, bare", store, len(run_ids))
    await store.close()
    return Drained(len(run_ids) / seconds)


async def _take(db: asyncpg.Connection[asyncpg.Record], lease_ids: Sequence[str]) -> list[tuple[int, str]]:
    now = time.time_ns() // 1_000
    async with db.transaction():
        rows = await db.fetch(LIST_DUE_RUNS, now, sorted(TASKS), [], len(lease_ids), ["default"], [1], [BONUS[1]])
        taken = [(row[1], lease_id) for row, lease_id in zip(rows, lease_ids, strict=False)]
        if taken:
            columns = [run_id for run_id, _ in taken], [lease_id for _, lease_id in taken], [row[3] for row in rows]
            await db.fetch(ARM_NOW, *columns, INCARNATION, now)
    return taken


async def _finish(
    db: asyncpg.Connection[asyncpg.Record], taken: list[tuple[int, str]], started_at: Micros, ended_at: Micros
) -> None:
    count = len(taken)
    rows = await db.fetch(
        FINISH, [run_id for run_id, _ in taken], [lease_id for _, lease_id in taken], ["succeeded"] * count,
        ["succeeded"] * count, [""] * count, [0] * count, [0] * count, [started_at] * count, [ended_at] * count,
        [None] * count, [None] * count,
    )  # fmt: skip
    assert len(rows) == count, "a bare loop has no rivals"
