"""A mailbox never makes the engine wait, and tells its reader what is missing, and where."""

from __future__ import annotations

import threading

import pytest

from onthedot.clock import SECOND, Micros
from onthedot.model.events import DrainBegun, EventsLeftOut
from onthedot.observe.event_buffer import EventBuffer
from tests.observe.sample_events import NOON

PATIENCE = 10 * SECOND


class Noon:
    """It is always noon."""

    def now(self) -> Micros:
        return NOON

    def steady(self) -> Micros:
        return 0


@pytest.fixture
def clock() -> Noon:
    return Noon()


def taken(mailbox: EventBuffer) -> list[object]:
    found: list[object] = []
    while (entry := mailbox.get(0)) is not None:
        event = entry[1]
        found.append(event.running if isinstance(event, DrainBegun) else event)
    return found


def test_events_come_out_in_order_with_their_instants(clock: Noon):
    mailbox = EventBuffer(clock)
    mailbox.take(DrainBegun(1))
    mailbox.take(DrainBegun(2))
    assert mailbox.get() == (NOON, DrainBegun(1))
    assert mailbox.get() == (NOON, DrainBegun(2))
    assert mailbox.get(0) is None


def test_what_does_not_fit_is_left_out_and_told_in_its_place(clock: Noon):
    mailbox = EventBuffer(clock, most=2)
    for number in range(1, 6):
        mailbox.take(DrainBegun(number))
    assert mailbox.get() == (NOON, DrainBegun(1))
    mailbox.take(DrainBegun(6))
    assert taken(mailbox) == [2, EventsLeftOut(3), 6]
    assert mailbox.left_out == 3


def test_a_gap_at_the_end_is_told_as_well(clock: Noon):
    mailbox = EventBuffer(clock, most=1)
    mailbox.take(DrainBegun(1))
    mailbox.take(DrainBegun(2))
    mailbox.close()
    assert not mailbox.ended
    assert taken(mailbox) == [1, EventsLeftOut(1)]
    assert mailbox.ended


def test_who_waits_is_woken_by_an_event_and_by_the_end(clock: Noon):
    mailbox, found = EventBuffer(clock), []

    def read() -> None:
        while (entry := mailbox.get(PATIENCE)) is not None:
            found.append(entry[1])

    reader = threading.Thread(target=read)
    reader.start()
    mailbox.take(DrainBegun(1))
    mailbox.close()
    reader.join(10)
    assert not reader.is_alive()
    assert found == [DrainBegun(1)]
