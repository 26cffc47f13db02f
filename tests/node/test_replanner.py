"""Zone data that changes: next slots are computed anew before anything is planned, and runs stay."""

from __future__ import annotations

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.job import Cron
from onthedot.node.replanner import Replanner
from onthedot.schedules import next_after
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import Node
from onthedot_verify.contract.workbench import Workbench, at, window

RULE = Cron(expression="0 3 * * *", tz="Europe/Berlin", id="s")
TTL = 1000 * SECOND


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else await SqliteStore.open(tmp_path / "otd.db", inline=True)
    yield Workbench(store)
    await store.close()


async def term_of(bench: Workbench, name: str, tzdata: str):
    await bench.store.register(Node(name, name, tzdata=tzdata), ttl=TTL, now=bench.now)
    term = await bench.store.campaign(name, ttl=TTL, now=bench.now)
    assert term is not None
    return term


async def test_a_term_with_other_zone_data_computes_next_slots_anew(bench: Workbench):
    old = await term_of(bench, "old", "2024a")
    wrong, right = 7_777, next_after(RULE, at(60), origin=at(0))
    records = [
        (await bench.put(bench.job(RULE, name=f"job{n}"), window(0, 60, [10, 50], next_at=wrong))).record
        for n in range(5)
    ]
    replanner = Replanner(bench.store, otd.Settings(batch=2))
    assert await replanner.step(old), "its own are right"
    await bench.store.resign(old, now=bench.now)
    new = await term_of(bench, "new", "2025b")
    bench.store.clock.now = lambda: bench.now  # type: ignore[method-assign,union-attr]
    assert [await replanner.step(new) for _ in range(4)] == [False, False, True, True]
    for record in records:
        state = await bench.schedule(record)
        assert (state.watermark, state.next_at) == (at(60), right)
        assert await bench.slots(record) == [10, 50]
    assert [term.zones for term in await bench.store.queries.list_terms()] == ["2025b"]


async def test_who_takes_over_in_the_middle_begins_anew(bench: Workbench):
    await bench.put(bench.job(RULE), window(0, 60, next_at=7_777))
    await bench.put(bench.job(RULE, name="second"), window(0, 60, next_at=7_777))
    bench.store.clock.now = lambda: bench.now  # type: ignore[method-assign,union-attr]
    first = await term_of(bench, "one", "2025b")
    assert not await Replanner(bench.store, otd.Settings(batch=1)).step(first)
    await bench.store.resign(first, now=bench.now)
    second = await term_of(bench, "two", "2025b")
    assert second.zones == ""
    replanner = Replanner(bench.store, otd.Settings(batch=5))
    assert await replanner.step(second)
    assert await bench.due(until=1) == []
