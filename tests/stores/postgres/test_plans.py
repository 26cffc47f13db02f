"""How the server finds rows when there are many: hot statements go by their indexes, with plans made for any values."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import asyncpg
import psycopg
import pytest

from onthedot.clock import NEVER
from onthedot.stores.postgres import (
    PostgresStore,
    arming,
    finish,
    gates,
    nodes,
    passing,
    plan,
    reserve,
    submitting,
    upkeep,
)
from onthedot.stores.postgres.arrays import numbers, words
from tests.servers.shared import SharedPostgres

FILL = """
INSERT INTO onthedot.jobs (id, namespace, name, owner, state, revision, task, queue, route, priority, share, gated,
                           definition_hash, created_at, updated_at)
SELECT n, 'default', 'job' || n, '', 'active', 1, 'call:work', 'default', 'default', 1, '', false, '', 0, 0
FROM generate_series(1, 500) n;
INSERT INTO onthedot.schedules (job_id, schedule_id, bucket, origin, watermark, next_at)
SELECT n, 's', n % 1024, 0, 0, n FROM generate_series(1, 500) n;
INSERT INTO onthedot.runs (id, job_id, slot_at, due_at, ready_at, created_at, priority, delayed, route, queue, share,
                           trigger, target, state, lease_id, incarnation)
SELECT n, 1 + n % 500, n, n, n, 0, 1, false, 'default', 'default', '', 'submit:' || n, '',
       CASE WHEN n <= 1000 THEN 'running' ELSE 'scheduled' END, CASE WHEN n <= 1000 THEN 'lease' || n END,
       CASE WHEN n <= 1000 THEN 'one' END
FROM generate_series(1, 40000) n;
ANALYZE
"""

IDS = list(range(1, 501))
LEASES = [f"lease{n}" for n in IDS]
ONES = numbers([1] * 500)
VERDICTS = (
    numbers(IDS), words(LEASES), ONES, ONES, ONES, ["succeeded"], ["succeeded"], [""], [0], [0], [None], [None],
)  # fmt: skip

HOT = {
    "due": (reserve.LIST_DUE_RUNS, (NEVER, ["call:work"], [], 500, ["default"], [1], [0])),
    "ahead": (reserve.LIST_AHEAD, (0, ["call:work"], [], 64, ["default"], [1], [0], 10)),
    "lines": (reserve.LIST_LINES, (["default", "@one"], ["default\n", "@one\n"])),
    "later": (reserve.LIST_LATER, (["default"], [1], 0, 10, "one", ["call:work"], [])),
    "arm now": (reserve.ARM_NOW, (numbers(IDS), words(LEASES), ONES, "one", 0)),
    "arm": (arming.LOCK_ARMABLE, (IDS,)),
    "armed": (arming.ARM, (IDS, 0)),
    "gates": (arming.LOOK_AT_GATES, (LEASES, IDS, IDS, IDS, 0)),
    "older slots": (gates.FIND_OLDER, (1, 0)),
    "newer slots": (passing.FIND_NEWER.format(run="$1", now="$2"), (1, 0)),
    "heirs": (gates.LIST_HEIRS, (LEASES,)),
    "take gates": (gates.TAKE_GATES, (LEASES, IDS, [True] * 500)),
    "leave gates": (gates.LEAVE_GATES, (LEASES, IDS)),
    "block": (passing.BLOCK, (IDS, LEASES, NEVER, LEASES, [1] * 500, [True] * 500, LEASES)),
    "finish": (finish.FINISH, VERDICTS),
    "lock": (finish.LOCK_RUNS, (IDS,)),
    "submit": (submitting.LIST_LIVE, ([1] * 500, IDS, LEASES)),
    "due schedules": (plan.LIST_DUE, (NEVER, 0, 1024, 0, 0, "", 100)),
    "cancels": (nodes.LIST_CANCELS, ("one",)),
    "expire": (upkeep.LIST_MISSED, (0, 100)),
}


@pytest.fixture(scope="session")
def filled_url(postgres: SharedPostgres) -> Iterator[str]:
    """A database with many runs, most of them waiting. It is only looked at."""

    async def migrate() -> None:
        await (await PostgresStore.open(url)).close()

    url = postgres.create()
    asyncio.run(migrate())
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(FILL.encode())
    yield url
    postgres.drop(url)


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_reads_no_runs_or_schedules_but_its_own(name: str, filled_url: str):
    plan = asyncio.run(_explain(filled_url, *HOT[name]))
    assert not [line for line in plan if "Seq Scan on runs" in line or "Seq Scan on schedules" in line], plan


async def _explain(url: str, statement: str, values: tuple[object, ...]) -> list[str]:
    settings = {"search_path": "onthedot", "plan_cache_mode": "force_generic_plan"}
    db = await asyncpg.connect(url, server_settings=settings)
    try:
        return [row[0] for row in await db.fetch(f"EXPLAIN {statement}", *values)]
    finally:
        await db.close()
