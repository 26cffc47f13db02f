"""The audit sender: it sends every entry once and in order, despite failures, and one sender at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from onthedot.access import audit_sender
from onthedot.access.audit import Entry, Recorded, record_all
from onthedot.access.audit_sender import (
    AGAIN_AFTER,
    AGAIN_AT_MOST,
    CLAIM_FOR,
    LOOK_EVERY,
    Sender,
    SendFailed,
    read_position,
)
from onthedot.access.permissions import LOCAL
from onthedot.clock import SECOND
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from tests.access.clocks import ManualClock

PLACE = "https://siem.example.com/hooks/a-secret-in-the-path"


class Receiver:
    """A receiver of entries, which a test can take down or block."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.down = False
        self.at_once = 0
        self.asked = asyncio.Event()
        self.wait: asyncio.Event | None = None  # answers only after this is set

    async def take(self, entries: Sequence[Recorded]) -> None:
        self.at_once += 1
        self.asked.set()
        assert self.at_once == 1, "only one sender at a time may send"
        try:
            await asyncio.sleep(0)
            if self.wait is not None:
                await self.wait.wait()
            if self.down:
                raise SendFailed("it is down")
            self.taken += [entry.object for entry in entries]
        finally:
            self.at_once -= 1


async def record(store: Store, *objects: str, size: int = 0) -> None:
    entries = [Entry(who=LOCAL, verb="jobs.pause", object=one, after={"x": "y" * size}) for one in objects]
    await record_all(store, entries)


def sender(
    store: Store, clock: ManualClock, receiver: Receiver, told: list[str] | None = None, *, first: int = 0
) -> Sender:
    return Sender(store, clock, PLACE, receiver.take, (told if told is not None else []).append, first=first)


async def test_every_entry_is_sent_in_order_and_a_new_sender_continues(stores: tuple[Store, Store], clock: ManualClock):
    one, other = stores
    receiver = Receiver()
    await record(one, "a", "b")
    first = sender(one, clock, receiver)
    assert (await first.tick(), await first.tick()) == (0, LOOK_EVERY)
    await record(one, "c")
    again = sender(other, clock, receiver)
    assert (await again.tick(), await again.tick()) == (0, LOOK_EVERY)
    assert receiver.taken == ["a", "b", "c"]


async def test_entries_are_sent_when_a_failed_receiver_is_back(clock: ManualClock):
    store, receiver, told = MemoryStore(), Receiver(), list[str]()
    one = sender(store, clock, receiver, told)
    receiver.down = True
    await record(store, "a")
    waits = []
    for number in range(9):
        waits.append(await one.tick())
        await record(store, f"b{number}")
    assert waits[:3] == [AGAIN_AFTER, 2 * AGAIN_AFTER, 4 * AGAIN_AFTER]
    assert waits[-1] == AGAIN_AT_MOST
    assert told[0] == "not sent: it is down; tried again in 1 s"
    receiver.down = False
    assert await one.tick() == 0
    assert receiver.taken == ["a", *(f"b{number}" for number in range(9))]


async def test_a_receiver_that_does_not_answer_is_retried_later(clock: ManualClock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(audit_sender, "SEND_WITHIN", SECOND // 100)
    store, receiver, told = MemoryStore(), Receiver(), list[str]()
    receiver.wait = asyncio.Event()
    await record(store, "a")
    assert await sender(store, clock, receiver, told).tick() == AGAIN_AFTER
    assert "no answer within" in told[0]
    receiver.wait = None
    assert await sender(store, clock, receiver).tick() == 0  # its claim was released
    assert receiver.taken == ["a"]


async def test_several_senders_send_each_entry_once_and_in_order(stores: tuple[Store, Store], clock: ManualClock):
    receiver, objects = Receiver(), [str(number) for number in range(1000)]
    await record(stores[0], *objects)
    senders = [sender(stores[number % 2], clock, receiver) for number in range(4)]

    async def go(one: Sender) -> None:
        while len(receiver.taken) < len(objects):
            await one.tick()
            await asyncio.sleep(0)  # a store in memory answers at once

    async with asyncio.timeout(60):
        await asyncio.gather(*map(go, senders))
    assert receiver.taken == objects


async def test_another_sender_takes_over_after_a_kill(clock: ManualClock):
    store, receiver = MemoryStore(), Receiver()
    await record(store, "a")
    receiver.wait = asyncio.Event()
    killed = asyncio.create_task(sender(store, clock, receiver).tick())
    await receiver.asked.wait()
    killed.cancel()
    await asyncio.gather(killed, return_exceptions=True)
    receiver.wait = None
    other = sender(store, clock, receiver)
    assert (await other.tick(), receiver.taken) == (LOOK_EVERY, [])
    clock.turn(CLAIM_FOR / SECOND + 1)
    assert (await other.tick(), receiver.taken) == (0, ["a"])


async def test_a_sender_that_was_frozen_does_not_move_the_position_back(clock: ManualClock):
    store, slow, quick, told = MemoryStore(), Receiver(), Receiver(), list[str]()
    await record(store, "a")
    slow.wait = asyncio.Event()
    frozen = asyncio.create_task(sender(store, clock, slow, told).tick())
    await slow.asked.wait()
    clock.turn(CLAIM_FOR / SECOND + 1)
    await record(store, "b")
    assert await sender(store, clock, quick).tick() == 0
    before = await read_position(store, PLACE)
    slow.wait.set()
    await frozen
    assert await read_position(store, PLACE) == before
    assert (slow.taken, quick.taken) == (["a"], ["a", "b"])
    assert "another sender has taken over" in told[0]


async def test_the_first_entry_to_send_can_be_chosen_only_once(clock: ManualClock):
    store, receiver = MemoryStore(), Receiver()
    await record(store, "a", "b")
    await sender(store, clock, receiver, first=1).tick()
    await record(store, "c")
    await sender(store, clock, receiver, first=1).tick()
    assert receiver.taken == ["b", "c"]


async def test_large_entries_are_sent_in_small_batches_and_the_address_is_not_stored(clock: ManualClock):
    store, receiver = MemoryStore(), Receiver()
    await record(store, *map(str, range(100)), size=20_000)
    one, ticks = sender(store, clock, receiver), 0
    while await one.tick() == 0:
        ticks += 1
    assert (len(receiver.taken), ticks) == (100, 4)
    [document] = await store.documents.list_documents(audit_sender.SENT)
    assert "siem" not in document.id + document.body
