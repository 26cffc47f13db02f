"""The armer holds reservations for later and arms each one shortly before its instant."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

import onthedot as otd
from onthedot.clock import MILLISECOND
from onthedot.model.job import Call, Job, JobRecord, JobState
from onthedot.model.run import Lease
from onthedot.node.armer import ArmLead, Reservations
from onthedot.stores.memory import MemoryStore
from onthedot.testing import Harness, run_virtual
from tests.node.one_node import START, program, states, submit

RECORD = JobRecord(1, 1, Job(name="j", task=Call(handler="j")), JobState.ACTIVE, 0, 0)


def lease(run_id: int, due_at: int, lease_id: str = "") -> Lease:
    return Lease(lease_id or f"lease-{run_id}", run_id, RECORD, "submit:x", due_at, due_at, None, 1, 0, 0, "inc", 0, 0)


def test_reservations_are_taken_earliest_first_up_to_the_limit():
    held = Reservations()
    held.add([lease(1, 30), lease(2, 10), lease(3, 20)])
    assert held.next_due() == 10
    assert [one.run_id for one in held.take(25, 9)] == [2, 3]
    assert [one.run_id for one in held.take(99, 0)] == []
    assert [one.run_id for one in held.take_all()] == [1]
    assert held.next_due() is None


def test_the_same_run_may_be_held_under_two_leases():
    """The same worker reserved a run again after its reservation lapsed. The old lease is still in the heap."""
    held = Reservations()
    held.add([lease(1, 10, "old"), lease(1, 10, "new"), lease(1, 10, "newest")])
    assert sorted(held.lease_ids()) == ["new", "newest", "old"]
    assert len(held.take(10, 9)) == 3


def test_a_reservation_can_be_postponed():
    held = Reservations()
    held.add([lease(1, 10)])
    [first] = held.take(10, 1)
    held.add_at(15, first)
    assert (held.next_due(), held.take(14, 9)) == (15, [])
    assert held.take(15, 9) == [first]


def test_the_lead_time_follows_the_slowest_recent_arms_within_bounds():
    lead = ArmLead(5_000, 500_000)
    assert lead.micros == 50_000
    lead.note(100)
    assert lead.micros == 5_000
    lead.note(20_000)
    assert lead.micros == 40_000
    lead.note(9_000_000)
    assert lead.micros == 500_000
    for _ in range(100):
        lead.note(3_000)
    assert lead.micros == 6_000


def test_a_run_is_armed_before_its_instant_and_starts_at_it():
    sched, _ = program(otd.Settings())

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await submit(harness, 5.0)
        await harness.advance("6s")
        [run] = await harness.runs("work")
        assert run.armed_at is not None
        assert run.due_at - 500 * MILLISECOND <= run.armed_at < run.due_at
        assert run.started_at == run.due_at
        await harness.stop()

    run_virtual(scenario())


def test_a_last_moment_edit_does_not_make_a_run_late():
    """A run that was reserved under the old definition is released and reserved again under the new one.

    The simulator found this with seed 100266.
    """
    sched, _ = program(otd.Settings())

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await submit(harness, 5.0)
        await harness.advance("4s")
        assert await states(harness) == ["reserved"]
        record = await harness.store.queries.get_job("work")
        assert record is not None
        await harness.store.put_job(replace(record.job, timeout=timedelta(seconds=9)), expected=record.revision)
        await harness.advance("2s")
        [run] = await harness.runs("work")
        assert run.started_at is not None
        assert 0 <= run.started_at - run.due_at < 100 * MILLISECOND
        assert run.revision == 2
        await harness.stop()

    run_virtual(scenario())


@pytest.mark.parametrize("seconds", [0.3, 1.5, 3.0])
def test_runs_with_a_limit_start_even_if_the_store_is_slow(seconds):
    """A reservation lapses 0.5 s after its instant. A worker must not reserve its own again while it arms them."""

    class SlowToArm(MemoryStore):
        async def arm(self, *args, **options):
            await asyncio.sleep(seconds)
            return await super().arm(*args, **options)

    sched = otd.Scheduler("memory:")

    @sched.job(name="work", concurrency=5)
    async def work() -> None: ...

    async def scenario():
        harness = Harness(START, store=SlowToArm)
        await harness.start(sched)
        await submit(harness, *[0.0] * 20)
        await harness.advance(12 * seconds)
        assert set(await states(harness)) == {"succeeded"}
        await harness.stop()

    run_virtual(scenario())


def test_a_reservation_is_released_if_no_seat_is_free():
    sched, started = program(otd.Settings(seats=1, ahead=1), seconds=2.0)

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        first, second = await submit(harness, 0.0, 1.0)
        await harness.advance("1.1s")
        assert started == [first]
        assert await states(harness) == ["running", "scheduled"]
        await harness.advance("1s")
        assert started == [first, second]
        await harness.advance("5s")
        await harness.stop()

    run_virtual(scenario())
