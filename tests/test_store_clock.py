"""A node's estimate of the store's time is never ahead, however wrong the node's own clock is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onthedot.clock import MILLISECOND, SECOND
from onthedot.store_clock import DRIFT, StoreClock, clock_of
from onthedot.stores.memory import MemoryStore
from tests.node.elsewhere import Elsewhere, Machine


def call(machine: Machine, clock: StoreClock, there: int, back: int) -> None:
    sent = machine.steady()
    machine.passes(there)
    stamped = machine.store_now
    machine.passes(back)
    clock.note(sent, stamped)


def test_before_the_first_answer_the_machines_clock_is_used():
    machine = Machine(off=5)
    assert StoreClock(machine).now() == machine.now()
    assert StoreClock(machine).uncertainty == 0


def test_a_wrong_clock_of_the_machine_has_no_effect():
    machine = Machine(off=-300 * SECOND)
    clock = StoreClock(machine)
    call(machine, clock, 200, 200)
    assert clock.now() == machine.store_now - 200
    machine.off = 900 * SECOND  # the clock of the machine is set
    machine.passes(SECOND)
    assert clock.now() == machine.store_now - 200 - DRIFT
    assert clock.offset == 900 * SECOND
    assert clock.uncertainty == 2 * (200 + DRIFT)


@given(
    ppm=st.integers(-DRIFT + 1, DRIFT - 1),
    calls=st.lists(
        st.tuples(st.integers(0, 2 * SECOND), st.integers(0, 2 * SECOND), st.integers(0, 30 * SECOND)), min_size=1
    ),
)
def test_the_estimate_is_never_ahead_and_behind_by_at_most_its_uncertainty(ppm, calls):
    """This holds for any duration of the messages, and for any drift of the steady clock."""
    machine = Machine(ppm, off=-90 * SECOND)
    clock = StoreClock(machine)
    for there, back, pause in calls:
        call(machine, clock, there, back)
        for _ in range(3):
            behind = machine.store_now - clock.now()
            assert -2 <= behind <= clock.uncertainty + 2 + (there + back) * DRIFT // 1_000_000
            machine.passes(pause)


def test_the_fastest_answer_is_used_until_it_is_old():
    machine = Machine()
    clock = StoreClock(machine)
    call(machine, clock, 100, 100)
    call(machine, clock, 50 * MILLISECOND, 0)
    assert machine.store_now - clock.now() < MILLISECOND, "expected the earlier fast answer to be used"
    machine.passes(600 * SECOND)
    call(machine, clock, 10 * MILLISECOND, 10 * MILLISECOND)
    assert machine.store_now - clock.now() <= 11 * MILLISECOND, (
        "expected the slow answer to be used, because the fast one is old"
    )


def test_a_step_of_the_stores_clock_is_accepted_at_once():
    machine = Machine()
    clock = StoreClock(machine)
    call(machine, clock, 100, 100)
    for step in (3600 * SECOND, -7200 * SECOND):
        machine.store_now += step
        call(machine, clock, 5 * MILLISECOND, 5 * MILLISECOND)
        assert abs(machine.store_now - clock.now()) <= 11 * MILLISECOND


async def test_a_process_without_a_node_asks_a_remote_store_for_its_time():
    machine = Machine(off=600 * SECOND)
    clock = await clock_of(Elsewhere(machine), machine)
    assert 0 <= machine.store_now - clock.now() <= 21 * MILLISECOND


async def test_a_store_on_this_machine_shares_its_clock():
    store, machine = MemoryStore(), Machine()
    assert await clock_of(store, machine) is store.clock
