"""The hot path's plans: those that the server makes once and keeps, on a full queue that it knows."""

from __future__ import annotations

import json

import asyncpg
import pytest

from bench.nodes import fill
from onthedot.clock import SECOND
from onthedot.ids import SeededIds
from onthedot.job import Call, Job
from onthedot.run import NewRun
from onthedot.stores.base import Ask, Node
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.finish import FINISH
from onthedot.stores.postgres.reserve import ARM_NOW, LIST_DUE_RUNS
from onthedot.stores.postgres.transaction import Transaction

PLANNED = {
    "due": (LIST_DUE_RUNS, "9000000000000000, '{call:noop}', '{}', 500, '{default}', '{1}', '{0}'"),
    "arm": (ARM_NOW, "'{1,2}', '{a,b}', '{1,1}', 'somebody', 1"),
    "finish": (
        FINISH,
        "'{1,2}', '{a,b}', '{1,1}', '{2,2}', '{1,1}',"
        " '{succeeded}', '{succeeded}', '{\"\"}', '{0}', '{0}', '{NULL}', '{NULL}'",
    ),
}


@pytest.fixture
async def full(store: PostgresStore) -> PostgresStore:
    """Three thousand runs that are due, and a server that has looked at its tables."""
    await fill(store, 3_000, seed=1)
    await store.write(lambda tx: tx.rows("ANALYZE"))
    return store


async def plan_of(store: PostgresStore, name: str) -> list[dict[str, object]]:
    """All nodes of the generic plan of a statement."""
    statement, values = PLANNED[name]
    db = await asyncpg.connect(store.address.dsn, server_settings={"search_path": store.address.schema})
    try:
        await db.execute("SET plan_cache_mode = force_generic_plan")
        await db.execute(f"PREPARE {name} AS {statement}")
        [[text]] = await db.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE {name} ({values})")
    finally:
        await db.close()
    return nodes_of(json.loads(text)[0]["Plan"])


def nodes_of(plan: dict[str, object]) -> list[dict[str, object]]:
    below = plan.get("Plans", [])
    assert isinstance(below, list)
    return [plan, *(node for child in below for node in nodes_of(child))]


async def test_what_is_due_is_read_in_the_order_of_the_index_and_never_sorted(full: PostgresStore):
    nodes = await plan_of(full, "due")
    assert "Sort" not in {node["Node Type"] for node in nodes}
    assert "runs_ready" in {node.get("Index Name") for node in nodes}


@pytest.mark.parametrize("name", ["arm", "finish"])
async def test_runs_are_found_by_the_primary_key_alone(full: PostgresStore, name: str):
    nodes = await plan_of(full, name)
    reads = [node for node in nodes if node.get("Relation Name") == "runs" and "Scan" in str(node["Node Type"])]
    assert reads
    assert "Seq Scan" not in {node["Node Type"] for node in reads}
    assert {node["Index Name"] for node in nodes if str(node.get("Index Name", "")).startswith("runs")} == {"runs_pkey"}


async def test_verdicts_are_joined_to_what_was_deleted_by_a_hash(full: PostgresStore):
    kinds = [str(node["Node Type"]) for node in await plan_of(full, "finish")]
    assert {kind for kind in kinds if "Join" in kind or kind == "Nested Loop"} == {"Hash Join"}


async def test_a_reserve_looks_at_no_more_runs_than_it_has_room_for(full: PostgresStore, monkeypatch):
    """Each run that it looks at it locks, and others have to step over it."""
    looked: list[int] = []
    rows = Transaction.rows

    async def count(self: Transaction, statement: str, *values: object) -> list[object]:
        found = await rows(self, statement, *values)
        looked.extend([len(found)] if statement == LIST_DUE_RUNS else [])
        return found

    monkeypatch.setattr(Transaction, "rows", count)
    await full.register(Node("a", "a"), ttl=60 * SECOND)
    ids, tasks = SeededIds(1), frozenset({"call:noop"})
    first = await full.reserve(Ask("a", ids.leases(64), 64, tasks=tasks))
    quick = frozenset({first.armed[0].record.id})
    second = await full.reserve(Ask("a", ids.leases(500), 64, extra=436, quick=quick, tasks=tasks))
    assert (len(first.armed), len(second.armed)) == (64, 500)
    assert looked == [65, 501]


async def test_quick_runs_behind_a_backlog_are_found_by_a_second_look(store: PostgresStore):
    slow, quick = [(await store.put_job(Job(name=name, task=Call(handler="noop")))).record for name in "ab"]
    now = await store.tell_time()
    await store.submit([NewRun(slow.id, f"submit:{n}", now - 1_000 + n) for n in range(20)])
    await store.submit([NewRun(quick.id, f"submit:{n}", now - 500 + n) for n in range(5)])
    await store.register(Node("a", "a"), ttl=60 * SECOND)
    ask = Ask("a", SeededIds(1).leases(20), 2, extra=18, quick=frozenset({quick.id}), tasks=frozenset({"call:noop"}))
    armed = [lease.record.id for lease in (await store.reserve(ask)).armed]
    assert armed == [slow.id] * 2 + [quick.id] * 5
