"""The plans of the most frequent statements, on a full queue with fresh statistics."""

from __future__ import annotations

from typing import Any

import pytest

from bench.nodes import fill
from onthedot.clock import SECOND
from onthedot.ids import SeededIds
from onthedot.model.job import Call, Job
from onthedot.model.run import NewRun
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.fast_finish import FINISH
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.sql.port import sql
from onthedot.stores.sql.reserve import ARM_NOW, LIST_DUE
from onthedot.stores.values import Node, ReserveRequest
from tests.stores.postgres.plans import plan_of

PLANNED = {"due": LIST_DUE.postgres, "arm": ARM_NOW.postgres, "finish": FINISH.postgres}


@pytest.fixture
async def full(store: PostgresStore) -> PostgresStore:
    """Three thousand due runs, and a server with fresh statistics."""
    await fill(store, 3_000, seed=1)
    await store.database.write(lambda tx: tx.rows(sql("ANALYZE")))
    return store


async def test_due_runs_are_read_in_index_order_without_a_sort(full: PostgresStore):
    nodes = await plan_of(full, PLANNED["due"])
    assert "Sort" not in {node["Node Type"] for node in nodes}
    assert "runs_ready" in {node.get("Index Name") for node in nodes}


@pytest.mark.parametrize("name", ["arm", "finish"])
async def test_runs_are_found_only_by_the_primary_key(full: PostgresStore, name: str):
    nodes = await plan_of(full, PLANNED[name])
    reads = [node for node in nodes if node.get("Relation Name") == "runs" and "Scan" in str(node["Node Type"])]
    assert reads
    assert "Seq Scan" not in {node["Node Type"] for node in reads}
    assert {node["Index Name"] for node in nodes if str(node.get("Index Name", "")).startswith("runs")} == {"runs_pkey"}


async def test_verdicts_are_joined_to_deleted_rows_by_a_hash(full: PostgresStore):
    kinds = [str(node["Node Type"]) for node in await plan_of(full, PLANNED["finish"])]
    assert {kind for kind in kinds if "Join" in kind or kind == "Nested Loop"} == {"Hash Join"}


async def test_a_reserve_reads_only_as_many_runs_as_it_can_take(full: PostgresStore, monkeypatch):
    """It locks each run that it reads, and others have to skip these."""
    looked: list[int] = []
    scan = Transaction.scan

    async def count(self: Transaction, statement: Any, *values: Any) -> list[Any]:
        found = await scan(self, statement, *values)
        looked.extend([sum(len(list(line)) for line in found)] if statement is LIST_DUE else [])
        return found

    monkeypatch.setattr(Transaction, "scan", count)
    await full.register(Node("a", "a"), ttl=60 * SECOND)
    ids, tasks = SeededIds(1), frozenset({"call:noop"})
    first = await full.reserve(ReserveRequest("a", ids.leases(64), 64, tasks=tasks))
    quick = frozenset({first.armed[0].record.id})
    second = await full.reserve(ReserveRequest("a", ids.leases(500), 64, extra=436, quick=quick, tasks=tasks))
    assert (len(first.armed), len(second.armed)) == (64, 500)
    assert looked == [65, 501]


async def test_quick_runs_behind_a_backlog_are_found_by_a_second_query(store: PostgresStore):
    slow, quick = [(await store.put_job(Job(name=name, task=Call(handler="noop")))).record for name in "ab"]
    now = await store.tell_time()
    await store.submit([NewRun(slow.id, f"submit:{n}", now - 1_000 + n) for n in range(20)])
    await store.submit([NewRun(quick.id, f"submit:{n}", now - 500 + n) for n in range(5)])
    await store.register(Node("a", "a"), ttl=60 * SECOND)
    ask = ReserveRequest(
        "a", SeededIds(1).leases(20), 2, extra=18, quick=frozenset({quick.id}), tasks=frozenset({"call:noop"})
    )
    armed = [lease.record.id for lease in (await store.reserve(ask)).armed]
    assert armed == [slow.id] * 2 + [quick.id] * 5
