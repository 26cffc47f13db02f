"""Frequent statements use their indexes on tables with many rows, whatever statistics the server has.

Statistics can be older than the plan, and the plan older than its use. `runs` is full, drained and full again within
minutes, so each statement must keep its index in all of these states.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import psycopg
import pytest

from onthedot.stores.postgres import PostgresStore, fast_finish, fast_submit
from onthedot.stores.postgres.transaction import make_room
from onthedot.stores.sql import (
    after,
    arm,
    find,
    finish,
    gates,
    history,
    nodes,
    plan,
    prune,
    queues,
    reap,
    reserve,
    submit,
)
from tests.servers.shared import SharedPostgres
from tests.stores.postgres.plans import PlanNode, plan_of

JOBS = """
INSERT INTO onthedot.jobs (id, namespace, name, owner, state, revision, task, queue, route, priority, share, gated,
                           definition_hash, created_at, updated_at)
SELECT n, 'default', 'job' || n, '', 'active', 1, 'call:work', 'default', 'default', 1, '', false, '', 0, 0
FROM generate_series(1, 500) n;
INSERT INTO onthedot.schedules (job_id, schedule_id, bucket, origin, watermark, next_at)
SELECT n, 's', n % 1024, 0, 0, n FROM generate_series(1, 500) n;
INSERT INTO onthedot.history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, ended_at,
                              queue, priority, trigger, target, reason)
SELECT 1000000 + n, 1 + n % 500, 'succeeded', n, n, 1, 0, 0, 0, n, 'default', 1, 'submit:' || n, '', ''
FROM generate_series(1, 5000) n
"""

# One in forty runs holds a gate, expires, has a rank, or waits at a gate.
RUNS = """
INSERT INTO onthedot.runs (id, job_id, slot_at, due_at, ready_at, created_at, priority, delayed, route, queue, share,
                           trigger, target, state, lease_id, incarnation, expires_at, rank, blocked_on,
                           blocked_capacity, blocked_until_end)
SELECT n, 1 + n % 500, n, n, n, 0, 1, false, 'default', 'default', '', 'submit:' || n, '',
       CASE WHEN n <= 1000 THEN 'running' ELSE 'scheduled' END, CASE WHEN n <= 1000 THEN 'lease' || n END,
       CASE WHEN n <= 1000 THEN 'one' END, CASE WHEN n % 40 = 1 THEN n END, CASE WHEN n % 40 = 2 THEN n END,
       CASE WHEN n % 40 = 3 THEN 'gate' || n % 7 END, CASE WHEN n % 40 = 3 THEN 1 END,
       CASE WHEN n % 40 = 3 THEN true END
FROM generate_series(1, 10000) n;
INSERT INTO onthedot.gate_holders (key, run_id, until_end) SELECT 'gate' || n, n, true FROM generate_series(1, 1000) n
"""

DRAIN = "DELETE FROM onthedot.runs; DELETE FROM onthedot.gate_holders"
DRAIN_MOST = "DELETE FROM onthedot.runs WHERE id > 50; DELETE FROM onthedot.gate_holders WHERE run_id > 50"

STATES = {
    "never analysed": [JOBS, RUNS],
    "analysed when empty": ["ANALYZE", JOBS, RUNS],
    "analysed now": [JOBS, RUNS, "ANALYZE"],
    "analysed when full, nearly empty now": [JOBS, RUNS, "ANALYZE", DRAIN_MOST],
    # The server keeps a plan from then.
    "nearly empty, and cut short": [JOBS, RUNS, "ANALYZE", DRAIN_MOST, "VACUUM ANALYZE"],
    "analysed when drained, full now": [JOBS, RUNS, "ANALYZE", DRAIN, "ANALYZE", RUNS],
    "vacuumed when drained, full now": [JOBS, RUNS, "ANALYZE", DRAIN, "VACUUM (TRUNCATE off)", RUNS],
    "vacuumed when drained, never analysed": [JOBS, RUNS, DRAIN, "VACUUM (TRUNCATE off)", RUNS],
}

HOT: dict[str, tuple[str | None, set[str]]] = {
    # name: (statement, the indexes by which it finds runs, jobs, schedules and holders of gates)
    "due": (reserve.LIST_DUE.postgres, {"runs_ready", "jobs_pkey"}),
    "ahead": (reserve.LIST_AHEAD.postgres, {"runs_ready", "jobs_pkey"}),
    "lines": (reserve.LIST_LINES.postgres, {"runs_ready"}),
    "later": (reserve.LIST_LATER.postgres, {"runs_ready", "jobs_pkey"}),
    "ranked": (reserve.LIST_RANKED.postgres, {"runs_ranked", "jobs_pkey"}),
    "ranked routes": (reserve.LIST_RANKED_ROUTES.postgres, {"runs_ranked"}),
    "ranked later": (reserve.LIST_RANKED_LATER.postgres, {"runs_ranked", "jobs_pkey"}),
    "unranked": (queues.LIST_UNRANKED.postgres, {"runs_ready"}),
    "set ranks": (queues.SET_RANKS.bulk, {"runs_pkey"}),
    "arm now": (reserve.ARM_NOW.postgres, {"runs_pkey"}),
    "hold": (reserve.HOLD.postgres, {"runs_pkey"}),
    "release": (reserve.RELEASE.postgres, {"runs_pkey"}),
    "arm": (arm.LOCK_ARMABLE.postgres, {"runs_pkey", "jobs_pkey"}),
    "armed": (arm.ARM.bulk, {"runs_pkey"}),
    "look at gates": (
        arm.LOOK.postgres,
        {"runs_pkey", "runs_key", "runs_blocked", "schedules_pkey", "gate_holders_pkey", "gate_holders_run"},
    ),
    "look at runs": (arm.LOOK_AT_RUNS.postgres, {"gate_holders_run"}),
    "block": (arm.BLOCK.bulk, {"runs_pkey"}),
    "delay": (arm.DELAY.bulk, {"runs_pkey"}),
    "slots that hold a gate": (arm.LIST_HOLDING_SLOTS.postgres, {"runs_pkey", "gate_holders_pkey"}),
    "slots that wait at a gate": (arm.LIST_WAITING_SLOTS.postgres, {"runs_blocked"}),
    "newer slots at a gate": (arm.FIND_NEWER_AT_GATE.postgres, {"runs_blocked", "runs_pkey", "gate_holders_pkey"}),
    "older slots": (gates.FIND_OLDER.postgres, {"runs_pkey", "runs_key", "gate_holders_run"}),
    "idle holders": (gates.LIST_IDLE.postgres, {"runs_pkey", "jobs_pkey", "gate_holders_pkey"}),
    "who waits": (gates.LIST_WAITING.postgres, {"runs_blocked", "jobs_pkey"}),
    "gates of runs": (gates.LIST_KEYS_OF_RUNS.postgres, {"runs_pkey", "gate_holders_run"}),
    "places of runs": (gates.LIST_PLACES.postgres, {"gate_holders_run"}),
    "heirs": (gates.LIST_HEIRS.postgres, {"runs_blocked", "runs_blocked_most", "gate_holders_pkey"}),
    "take gates": (gates.TAKE.bulk, set()),
    "leave gates": (gates.LEAVE.bulk, {"gate_holders_pkey"}),
    "unblock": (gates.UNBLOCK.postgres, {"runs_pkey"}),
    "finish": (fast_finish.FINISH.postgres, {"runs_pkey", "gate_holders_run"}),
    "lock": (finish.LOCK_RUNS.postgres, {"runs_pkey"}),
    "record attempts": (finish.RECORD_ATTEMPT.bulk, {"runs_pkey"}),
    "end runs": (finish.INTO_HISTORY.bulk, {"runs_pkey"}),
    "delete ended runs": (finish.DELETE_ENDED.postgres, {"runs_pkey"}),
    "end a waiting run": (finish.END_WAITING.postgres, {"runs_pkey"}),
    "try again": (finish.TRY_AGAIN.postgres, {"runs_pkey"}),
    "submit": (submit.LIVE.postgres, {"runs_key"}),
    "submit new runs": (fast_submit.SUBMIT.postgres, {"jobs_pkey"}),
    "submit, asked again": (submit.ENDED.postgres, set()),
    "due schedules": (plan.list_due_in(range(1024)).postgres, {"schedules_due", "jobs_pkey"}),
    "who waits for a place": (queues.LIST_WAITING.postgres, {"runs_ready", "jobs_pkey"}),
    "who runs after a job": (after.LIST_CHILDREN.postgres, {"jobs_pkey"}),
    "cancels": (nodes.LIST_CANCELS.postgres, {"runs_unwanted"}),
    "expire": (prune.LIST_MISSED.postgres, {"runs_expiring"}),
    "held": (reserve.LIST_HELD.postgres, {"runs_pkey", "jobs_pkey"}),
    "orphans": (reap.LIST_ORPHANS.postgres, {"runs_pkey", "jobs_pkey"}),
    "runs": (history.SHOW_LIVE.postgres, {"runs_pkey", "jobs_pkey"}),
    "live runs": (find.LIVE_LINE.list.postgres, {"runs_due", "jobs_pkey"}),
    "where to stop in live runs": (find.LIVE_LINE.stop.postgres, {"runs_due"}),
}
IN_ORDER = {"due", "ahead", "lines", "later", "ranked", "ranked routes", "unranked", "due schedules", "live runs"}
WHOLE = {"held", "orphans"}  # these read all live runs, but only when a node restarts or has died

FIRST_COLUMN = {
    "runs_pkey": "id", "runs_key": "job_id", "runs_ready": "route", "runs_ranked": "route", "runs_due": "due_at",
    "runs_blocked": "blocked_on", "runs_blocked_most": "blocked_on", "runs_expiring": "expires_at",
    "runs_unwanted": "incarnation", "jobs_pkey": "id", "schedules_due": "next_at", "schedules_pkey": "job_id",
    "gate_holders_pkey": "key", "gate_holders_run": "run_id",
}  # fmt: skip


@pytest.fixture(scope="module", params=STATES)
def filled_url(request: pytest.FixtureRequest, postgres: SharedPostgres) -> Iterator[str]:
    """A database with many runs, most of them waiting, and different statistics. Tests only read it."""

    async def migrate() -> None:
        store = await PostgresStore.open(url)
        await store.database.write(make_room, [1])
        await store.close()

    url = postgres.create()
    asyncio.run(migrate())
    with psycopg.connect(url, autocommit=True) as db:
        tables = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'onthedot'").fetchall()
        for (table,) in tables:
            if table not in ("history", "attempts"):  # the partitions have the rows
                db.execute(f"ALTER TABLE onthedot.{table} SET (autovacuum_enabled = off)".encode())
        for step in STATES[request.param]:
            for statement in step.split(";"):
                db.execute(statement.encode())
    yield url
    postgres.drop(url)


async def test_each_hot_statement_keeps_its_indexes(filled_url: str):
    store = await PostgresStore.open(filled_url)
    try:
        odd = {name: _oddities(name, await plan_of(store, str(statement))) for name, (statement, _) in HOT.items()}
    finally:
        await store.close()
    assert {name: found for name, found in odd.items() if found} == {}


def _oddities(name: str, plan: list[PlanNode]) -> list[str]:
    """Returns what is wrong with a plan."""
    reads = [node for node in plan if _is_read(node)]
    ours = [node for node in reads if node["Relation Name"] in ("runs", "jobs", "schedules", "gate_holders")]
    found = [f"a scan of all {node['Relation Name']}" for node in reads if node["Node Type"] == "Seq Scan"]
    used = {node["Index Name"] for node in ours if "Index Name" in node}
    if used != HOT[name][1]:
        found.append(f"the indexes {sorted(used)}")
    if name not in WHOLE:
        found += [f"all of {node['Index Name']}" for node in ours if "Index Name" in node and not _is_range(node)]
    if name in IN_ORDER:
        found += [str(node["Node Type"]) for node in plan if "Sort" in node["Node Type"]]
    return found


def _is_read(node: PlanNode) -> bool:
    """Whether this node reads a table that may be large. An UPDATE finds its rows by their place."""
    large = ("runs", "jobs", "schedules", "history", "attempts", "gate_holders", "dependencies")
    kind = node["Node Type"]
    return str(node.get("Relation Name", "")).startswith(large) and kind.endswith("Scan") and kind != "Tid Scan"


def _is_range(node: PlanNode) -> bool:
    """Whether this node reads one range of its index, not all of it."""
    return re.search(rf"\b{FIRST_COLUMN.get(node['Index Name'], '')}\b", node.get("Index Cond", "")) is not None
