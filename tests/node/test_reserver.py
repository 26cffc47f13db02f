"""The reserver asks for as many runs as the node has room for, not too far ahead, and without delay."""

import pytest

import onthedot as otd
from onthedot.clock import MILLISECOND, SECOND
from onthedot.model.events import AttemptStarted
from onthedot.model.run import NewRun
from onthedot.node.reserver import MOST_EMPTY
from onthedot.stores.values import ReserveRequest
from onthedot.testing import Harness, run_virtual
from tests.node.one_node import START, program, states, submit


def test_only_the_next_k_runs_are_held_in_memory():
    sched, _ = program(otd.Settings(ahead=3))

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await submit(harness, *[1.0] * 10)
        await harness.advance("500ms")
        assert (await states(harness)).count("reserved") == 3
        await harness.advance("600ms")
        assert set(await states(harness)) == {"succeeded"}
        await harness.stop()

    run_virtual(scenario())


def test_nothing_is_reserved_beyond_the_horizon():
    sched, _ = program(otd.Settings())

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await submit(harness, 10.0)
        await harness.advance("7.9s")
        assert await states(harness) == ["scheduled"]
        await harness.advance("200ms")
        assert await states(harness) == ["reserved"]
        await harness.stop()
        assert await states(harness) == ["scheduled"]  # given back by the drain

    run_virtual(scenario())


def test_a_submit_starts_at_once_without_waiting_for_a_poll():
    sched, _ = program(otd.Settings(poll_every=60 * SECOND))

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await harness.advance("10s")
        await submit(harness, 0.0)
        await harness.advance("1ms")
        [event] = [event for event in harness.events if isinstance(event, AttemptStarted)]
        assert event.started_at - event.lease.due_at < MILLISECOND
        await harness.stop()

    run_virtual(scenario())


def watch_asks(harness: Harness, asks: list[ReserveRequest], monkeypatch: pytest.MonkeyPatch) -> None:
    """Note each look for work. Call it before the first one."""
    reserve = harness.store.reserve

    async def watched(ask, **named):
        asks.append(ask)
        return await reserve(ask, **named)

    monkeypatch.setattr(harness.store, "reserve", watched)


@pytest.mark.parametrize(("rate", "is_quick"), [(None, True), (otd.Rate(1_000, "1s", burst=1_000), False)])
def test_a_node_asks_beyond_its_seats_only_for_runs_without_gates(monkeypatch, rate, is_quick):
    """The store reads and locks as many runs as the node asks for. Runs with gates are never taken beyond the seats."""
    sched = otd.Scheduler("memory:")
    asks: list[ReserveRequest] = []
    sched.job(name="work", rate=rate)(lambda: None)

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        watch_asks(harness, asks, monkeypatch)
        await submit(harness, 0.0)
        await harness.advance("1s")
        await submit(harness, 0.0)
        await harness.advance("1s")
        await harness.stop()

    run_virtual(scenario())
    assert any(ask.extra for ask in asks) == is_quick


def test_many_runs_for_others_cost_few_looks_and_ones_own_run_starts_soon(monkeypatch):
    sched, started = program(otd.Settings(queues=("default",)))
    sched.command("elsewhere", ["true"], queue="mail")
    asks: list[ReserveRequest] = []

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        watch_asks(harness, asks, monkeypatch)
        await harness.advance("1s")
        asks.clear()
        record = await harness.store.queries.get_job("elsewhere")
        assert record is not None
        for number in range(100):  # 20 ms
            await harness.store.submit([NewRun(record.id, f"submit:{number}", harness.clock.now())])
            await harness.advance("200us")
        assert MOST_EMPTY < len(asks) < 20
        [own] = await submit(harness, 0.0)
        await harness.advance("2ms")
        assert started == [own]
        await harness.stop()

    run_virtual(scenario())
