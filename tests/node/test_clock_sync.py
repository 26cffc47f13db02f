"""A node keeps its estimate of the store's time accurate, so that starts wait no longer than needed."""

from __future__ import annotations

from onthedot.clock import MILLISECOND, SECOND, SystemClock
from onthedot.ids import SeededIds
from onthedot.model.events import ClockOff, Events
from onthedot.node.clock_sync import ClockSync
from onthedot.node.heartbeat import Membership
from onthedot.settings import Settings
from onthedot.store_clock import StoreClock
from onthedot.stores.memory import MemoryStore
from tests.node.elsewhere import Elsewhere, Machine

SETTINGS = Settings()
WAY = 200


def keeper(store: MemoryStore, clock: StoreClock | SystemClock, events: Events) -> ClockSync:
    return ClockSync(store, Membership(store, clock, SeededIds(1), SETTINGS, events), clock, SETTINGS)


async def test_the_estimate_stays_within_half_a_millisecond():
    machine = Machine(off=-300 * SECOND)
    store, clock = Elsewhere(machine, WAY), StoreClock(machine)
    keeping = keeper(store, clock, Events())
    for _ in range(20):
        again_in = await keeping.tick(0)
        assert again_in == SECOND // 4
        machine.passes(again_in)
        assert machine.store_now - clock.now() <= MILLISECOND // 2
    assert store.asked == 40


async def test_a_slow_first_answer_does_not_worsen_the_estimate():
    """The first answer after a pause takes ten times as long. The node asks again at once and uses the second one."""
    machine = Machine()
    store, clock = Elsewhere(machine, 10 * WAY), StoreClock(machine)
    keeping = keeper(store, clock, Events())
    tell_time = store.tell_time

    async def wake_up() -> int:
        told = await tell_time()
        store._way = WAY
        return told

    store.tell_time = wake_up  # type: ignore[method-assign]
    await keeping.tick(0)
    assert machine.store_now - clock.now() <= 2 * WAY


async def test_a_clock_that_is_minutes_off_is_reported_once():
    told: list[object] = []
    events = Events([told.append])
    machine = Machine(off=-300 * SECOND)
    keeping = keeper(Elsewhere(machine, WAY), StoreClock(machine), events)
    for _ in range(3):
        await keeping.tick(0)
    [off] = told
    assert isinstance(off, ClockOff)
    assert off.offset == -300 * SECOND


async def test_a_node_does_not_ask_if_it_shares_the_stores_clock():
    store = Elsewhere(Machine())
    assert await keeper(store, SystemClock(), Events()).tick(0) is None
    assert store.asked == 0
