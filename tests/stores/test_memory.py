"""The store in memory: its cost, its clean-up, and what an error leaves behind."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from onthedot import fault_points
from onthedot.ids import SeededIds
from onthedot.model.errors import KeyConflict, StoreUnusable
from onthedot.model.job import Call, Job, Limit, ability_of
from onthedot.model.run import Armed, Gate, GateAsk, NewRun, OnBusy, RunState
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.stores.memory import MemoryStore
from onthedot.stores.transactions import run_now
from onthedot.stores.values import Node, ReserveRequest
from onthedot_verify.contract import Workbench
from tests.behind import Instructions, behind

SECOND = 1_000_000


@pytest.mark.parametrize("waiting", [10, 2_000])
async def test_passing_a_gate_to_the_next_run_costs_the_same_however_many_wait(waiting):
    store, ids = MemoryStore(), SeededIds(1)
    job = Job(name="job", task=Call(handler="job"), concurrency=Limit(1))
    put = await store.put_job(job)
    await store.submit([NewRun(put.record.id, f"submit:{n}", n) for n in range(waiting + 1)])
    await store.register(Node("n", "inc"), ttl=60 * SECOND)
    ask = ReserveRequest(
        "inc", ids.leases(waiting + 1), waiting + 1, lapse=60 * SECOND, tasks=frozenset({ability_of(job)})
    )
    leases = (await store.reserve(ask)).held
    gates = {lease.lease_id: GateAsk((Gate("gate", 1),), OnBusy("wait")) for lease in leases}
    first, *_ = answers = await store.arm(leases, gates=gates)
    assert [isinstance(answer, Armed) for answer in answers] == [True] + [False] * waiting
    assert isinstance(first, Armed)
    with Instructions(store) as instructions:
        finish = Finish(leases[0], Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED), 1, 2)
        assert await store.finish([finish]) == [True]
    assert instructions.count < 2_000 + 20 * waiting  # about one word of the index for each waiting run
    assert behind(store, "SELECT id FROM runs WHERE blocked_on IS NULL") == [(leases[1].run_id,)]


async def test_a_repeated_call_prepares_no_statements():
    """The queries for all priorities use the same prepared statements."""
    store = MemoryStore()
    bench = Workbench(store)
    for level in ("low", "normal", "high", "critical"):
        record = await bench.define(level, priority=level)
        for _ in range(4):
            await bench.submit(record)
    node, prepared = await bench.node(), 0

    def note_preparing(*action: object) -> int:
        nonlocal prepared
        prepared += 1
        return sqlite3.SQLITE_OK

    store.database.db.set_authorizer(note_preparing)
    for _ in range(2):
        prepared = 0
        [lease] = await bench.take(node)
        assert await bench.finish(lease)
    assert prepared == 0


async def test_a_call_that_raises_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    store = MemoryStore()
    bench = Workbench(store)
    record = await bench.define()
    await store.submit([NewRun(record.id, "submit:a", 1, "1", key="a")])
    heard: list[object] = []
    store.hints.listen(heard.append)
    async with bench.nothing_written():
        with pytest.raises(KeyConflict):
            await store.submit([NewRun(record.id, "submit:b", 1), NewRun(record.id, "submit:a", 1, "2", key="a")])
        with monkeypatch.context() as patched:
            patched.setattr(fault_points, "point", {}.__getitem__)
            with pytest.raises(KeyError, match=r"put_job\.in_transaction"):
                await bench.define("other")
    assert heard == []
    assert (await bench.define("other")).id > record.id


async def test_an_error_of_the_database_becomes_one_of_our_errors():
    store = MemoryStore()
    behind(store, "DROP TABLE layouts")
    with pytest.raises(StoreUnusable, match="expected a database that can be read and written"):
        await store.queries.get_layout()
    with pytest.raises(StoreUnusable, match="no such table: layouts"):
        await store.set_shards(2)


async def test_an_error_of_the_handlers_database_is_raised_unchanged():
    """The run has not ended then."""

    class Deferred:
        undone = 0

        def commit(self) -> None:
            raise sqlite3.IntegrityError("FOREIGN KEY constraint failed")

        def rollback(self) -> None:
            self.undone += 1

    store = MemoryStore(connect=Deferred)
    bench = Workbench(store)
    run_id = await bench.submit(await bench.define())
    [lease] = await bench.take(await bench.node())
    transaction = await store.transactions.begin(lease)
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        await transaction.commit(bench.finished(lease))
    assert transaction.connection.undone == 1
    assert await bench.state(run_id) == RunState.RUNNING


async def test_two_stores_share_nothing():
    one, other = MemoryStore(), MemoryStore()
    await Workbench(one).define("mine")
    assert await other.queries.list_jobs() == []


async def test_an_unreferenced_store_is_freed():
    store = MemoryStore()
    gone = weakref.ref(store.database.records)
    await Workbench(store).define()
    del store
    gc.collect()
    assert gone() is None


def test_loops_of_several_threads_may_share_a_store():
    """The program's loop reads while the engine's loop writes."""
    store = MemoryStore()
    record = run_now(Workbench(store).define())

    def submit_many(name: str) -> list[int]:
        async def submit(number: int) -> int:
            [run_id] = await store.submit([NewRun(record.id, f"submit:{name}{number}", number)])
            assert len(await store.queries.get_runs([run_id])) == 1
            return run_id

        async def submit_all() -> list[int]:
            return [await submit(number) for number in range(200)]

        return asyncio.run(submit_all())

    with ThreadPoolExecutor(4) as threads:
        ids = [run_id for found in threads.map(submit_many, "abcd") for run_id in found]
    assert sorted(ids) == list(range(1, 801))
