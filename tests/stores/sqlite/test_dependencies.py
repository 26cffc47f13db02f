"""Jobs that run after others, in SQLite: one transaction for everything, and almost no cost for other jobs."""

from __future__ import annotations

import pytest

from onthedot import fault_points
from onthedot.model.after import After
from onthedot.model.errors import StateError
from onthedot.model.run import RunState
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import Parent
from onthedot_verify.contract.dependencies import begin, end, followers
from onthedot_verify.contract.workbench import Workbench, at


@pytest.fixture
async def bench(tmp_path):
    store = await SqliteStore.open(tmp_path / "otd.db")
    yield Workbench(store)
    await store.close()


async def test_a_crash_after_the_insert_of_a_child_run_undoes_everything(bench, monkeypatch):
    """The end of the parent, the run of the child and the cleared set of parents are one write."""
    a, b = await bench.define("a"), await bench.define("b")
    child = await bench.define("child", after=After("a", "b"))
    noted = await end(bench, a)
    lease = await begin(bench, b)
    reached = []

    def fail_at_the_point(name: str) -> None:
        if name == "finish.followed":
            reached.append(name)
            raise StateError("the process dies here")

    with monkeypatch.context() as broken:
        broken.setattr(fault_points, "point", fail_at_the_point)
        async with bench.nothing_written():
            with pytest.raises(StateError, match="dies here"):
                await bench.finish(lease)
    assert reached == ["finish.followed"]
    assert await bench.store.queries.parents_of(child.id) == [Parent("a", noted, at(0)), Parent("b")]
    assert await bench.finish(lease)
    assert len(await followers(bench)) == 1


async def test_two_processes_cannot_make_a_cycle(bench, tmp_path):
    """The check is part of the transaction of the put, on any connection."""
    await bench.define("a")
    await bench.define("b", after=After("a"))
    other = await SqliteStore.open(tmp_path / "otd.db")
    with pytest.raises(ValueError, match="a → b → a"):
        await Workbench(other).define("a", after=After("b"))
    await other.close()


async def test_a_batch_of_ends_without_dependents_takes_one_extra_query(bench):
    """The number of runs in the batch does not matter."""
    record = await bench.define()
    for _ in range(20):
        await bench.submit(record)
    leases = await bench.take(await bench.node(), seats=20)
    asked: list[str] = []
    await bench.store.database.writer.run(lambda tx: tx.db.set_trace_callback(asked.append))
    assert all(await bench.store.finish([bench.finished(lease) for lease in leases], now=bench.now))
    await bench.store.database.writer.run(lambda tx: tx.db.set_trace_callback(None))
    [look] = [one for one in asked if "dependencies" in one]
    assert "SELECT EXISTS (SELECT 1 FROM dependencies)" in look
    assert (await bench.store.queries.count_runs())[RunState.SUCCEEDED] == 20
