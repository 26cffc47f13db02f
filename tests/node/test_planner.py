"""The planner distrusts clocks that jump, and recomputes slots after an update of the zone data."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.events import ClockStepped, SlotsSkipped
from onthedot.model.job import Cron
from onthedot.node.planner import LARGEST_STEP, Replanner, StepGuard
from onthedot.schedules import next_after
from onthedot.simulate.virtual_loop import run_virtual
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import Node
from onthedot.testing.harness import Harness
from onthedot_verify.contract.workbench import Workbench, at, window


class Clocks:
    def __init__(self) -> None:
        self.wall = 1_000 * SECOND
        self.boot = 0

    def now(self) -> int:
        return self.wall

    def steady(self) -> int:
        return self.boot

    def passes(self, length: int) -> int:
        self.wall += length
        self.boot += length
        return self.wall


def test_a_large_step_is_accepted_after_three_readings():
    clocks = Clocks()
    guard = StepGuard(clocks)
    assert guard.jump(clocks.now()) == 0
    clocks.wall += LARGEST_STEP + 1
    assert [guard.jump(clocks.passes(SECOND)) for _ in range(4)] == [LARGEST_STEP + 1, LARGEST_STEP + 1, 0, 0]


def test_the_planner_does_not_wait_after_small_or_backward_steps_or_sleep():
    clocks = Clocks()
    guard = StepGuard(clocks)
    for step in (0, LARGEST_STEP, -3600 * SECOND, 0):
        clocks.wall += step
        assert guard.jump(clocks.passes(SECOND)) == 0
    assert guard.jump(clocks.passes(10 * 3600 * SECOND)) == 0, "expected sleep not to count as a step"


def test_no_slot_is_skipped_if_a_step_is_taken_back():
    """The clock is set an hour ahead by mistake, and back two seconds later."""
    sched = otd.Scheduler("memory:")

    @sched.job(schedule=otd.every("10s"))
    async def tick() -> None: ...

    async def scenario():
        harness = Harness(datetime(2026, 6, 1, 12, tzinfo=UTC))
        await harness.start(sched)
        await asyncio.sleep(24)
        harness.clock.step(3600 * SECOND)
        await asyncio.sleep(2)
        harness.clock.step(-3600 * SECOND)
        await asyncio.sleep(60)
        await harness.stop()
        return harness.events

    told = run_virtual(scenario())
    assert not [event for event in told if isinstance(event, SlotsSkipped)]
    assert {event.ahead for event in told if isinstance(event, ClockStepped)} == {3600 * SECOND}


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


async def test_a_term_with_other_zone_data_recomputes_next_slots(bench: Workbench):
    old = await term_of(bench, "old", "2024a")
    wrong, right = 7_777, next_after(RULE, at(60), origin=at(0))
    records = [
        (await bench.put(bench.job(RULE, name=f"job{n}"), window(0, 60, [10, 50], next_at=wrong))).record
        for n in range(5)
    ]
    replanner = Replanner(bench.store, otd.Settings(batch=2))
    assert await replanner.step(old), "expected nothing to recompute with the same zone data"
    await bench.store.resign(old, now=bench.now)
    new = await term_of(bench, "new", "2025b")
    bench.store.clock.now = lambda: bench.now  # type: ignore[method-assign,union-attr]
    assert [await replanner.step(new) for _ in range(4)] == [False, False, True, True]
    for record in records:
        state = await bench.schedule(record)
        assert (state.watermark, state.next_at) == (at(60), right)
        assert await bench.slots(record) == [10, 50]
    assert [term.zones for term in await bench.store.queries.list_terms()] == ["2025b"]


async def test_a_planner_that_takes_over_halfway_recomputes_all_slots(bench: Workbench):
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
