"""The leader seals what was recorded; others do not; two who believe to lead do no harm."""

from __future__ import annotations

import asyncio

import pytest

import onthedot as otd
from onthedot.access.audit import KIND, Entry, record
from onthedot.access.audit_seals import BATCH, SEALS, check
from onthedot.access.permissions import LOCAL
from onthedot.model.events import AuditSealed, Event, Events
from onthedot.node.audit_sealer import BREATH, SEAL_EVERY, AuditSealer
from onthedot.node.leadership import Leadership
from onthedot.stores.connect import open_store
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.values import Term
from tests.behind import behind

SETTINGS = otd.Settings()


class Led(Leadership):
    """Has the term, or not, as the test says."""

    def __init__(self, *, leads: bool = True) -> None:
        self.terms = {0: Term(0, 1, "node", 0)} if leads else {}


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    store = await open_store("memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'otd.db'}")
    yield store
    await store.close()


def sealing(store: Store, *, leads: bool = True) -> tuple[AuditSealer, list[Event]]:
    told: list[Event] = []
    return AuditSealer(store, Led(leads=leads), SETTINGS, Events([told.append])), told


async def settle(service: AuditSealer) -> int:
    """Tick until there is nothing left to do; how many ticks that took."""
    for ticks in range(1, 100):
        if await service.tick(0) == SEAL_EVERY:
            return ticks
    raise AssertionError("it is never done")


async def fill(store: Store, count: int) -> None:
    for number in range(count):
        await record(store, Entry(who=LOCAL, verb="v", object=str(number)))


async def test_what_was_recorded_is_sealed_and_told(store: Store):
    service, told = sealing(store)
    assert await settle(service) == 1  # nothing to do
    await fill(store, 3)
    await settle(service)
    checked = await check(store)
    assert (checked.sealed, checked.unsealed, checked.fault) == (3, 0, None)
    assert told == [AuditSealed(3, *checked.head)]
    await fill(store, 1)
    await settle(service)
    await settle(service)
    after = await check(store, known=checked.head)
    assert (after.sealed, after.head.number, after.fault) == (4, 2, None)
    assert told[1:] == [AuditSealed(1, *after.head)]


async def test_who_does_not_lead_seals_nothing(store: Store):
    service, told = sealing(store, leads=False)
    await fill(store, 1)
    assert await service.tick(0) == SETTINGS.renew_every
    assert (await check(store))[:2] == (0, 1)
    assert told == []


async def test_the_next_leader_goes_on_where_the_last_one_was(store: Store):
    first, _ = sealing(store)
    for _ in range(3):
        await fill(store, 2)
        await settle(first)
    second, told = sealing(store)
    await fill(store, 2)
    await settle(second)
    checked = await check(store)
    assert (checked.sealed, checked.head.number, checked.fault) == (8, 4, None)
    assert told == [AuditSealed(2, *checked.head)]  # what others have sealed, they have told


async def test_two_who_believe_to_lead_make_one_chain(store: Store):
    one, _ = sealing(store)
    other, _ = sealing(store)
    for _ in range(5):
        await fill(store, 2)
        await one.tick(0)
        await other.tick(0)
    await settle(one)
    await settle(other)
    checked = await check(store)
    assert (checked.sealed, checked.unsealed, checked.fault) == (10, 0, None)


async def test_many_entries_are_many_seals():
    store = MemoryStore()
    await fill(store, 2 * BATCH + 1)
    service, _ = sealing(store)
    assert await service.tick(0) == BREATH
    await settle(service)
    checked = await check(store)
    assert (checked.sealed, checked.head.number, checked.fault) == (2 * BATCH + 1, 3, None)


@pytest.mark.parametrize("body", ["{}", "[]", '{"previous": "", "entries": []}'])
async def test_a_seal_that_was_spoilt_stops_nobody_and_is_found(body: str):
    store = MemoryStore()
    service, _ = sealing(store)
    await fill(store, 2)
    await settle(service)
    behind(store, "UPDATE entries SET body = ? WHERE kind = ?", body, SEALS)
    successor, _ = sealing(store)
    await fill(store, 1)
    await settle(successor)
    assert str((await check(store)).fault) == "seal 1 cannot be read: it was changed"
    assert await settle(successor) == 1


async def test_seals_that_were_removed_stop_nobody_and_are_found():
    store = MemoryStore()
    service, _ = sealing(store)
    for _ in range(3):
        await fill(store, 2)
        await settle(service)
    behind(store, "DELETE FROM entries WHERE kind = ?", SEALS)
    await fill(store, 1)
    for _ in range(5):
        await settle(service)
    assert str((await check(store)).fault).startswith("seal 1 does not follow the beginning")
    assert len(await store.documents.list_appended(SEALS)) == 1
    await fill(store, 1)
    await settle(service)
    assert len(await store.documents.list_appended(SEALS)) == 2


async def test_a_seal_that_was_removed_and_left_its_key_stops_nobody():
    store = MemoryStore()
    service, _ = sealing(store)
    for _ in range(2):
        await fill(store, 2)
        await settle(service)
    behind(store, "DELETE FROM entries WHERE kind = ? AND number = 2", SEALS)
    successor, _ = sealing(store)
    await settle(successor)
    checked = await check(store)
    assert (checked.sealed, checked.unsealed, checked.head.number) == (4, 0, 2)


async def test_a_node_seals_by_itself(tmp_path):
    url = f"sqlite:///{tmp_path / 'otd.db'}"
    store = await open_store(url)
    await fill(store, 2)
    told: list[AuditSealed] = []
    sealed = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, AuditSealed):
            told.append(event)
            sealed.set()

    sched = otd.Scheduler(url)
    sched.subscribe(listen)
    async with sched:
        await asyncio.wait_for(sealed.wait(), 30)
    assert [(event.entries, event.seal) for event in told] == [(2, 1)]
    assert (await check(store))[:2] == (2, 0)
    assert len(await store.documents.list_appended(KIND)) == 2
    await store.close()
