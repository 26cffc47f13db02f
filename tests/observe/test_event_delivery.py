"""Event delivery: subscribers get events in order on their own threads, and never delay the engine."""

from __future__ import annotations

import threading

import pytest

from onthedot.clock import SECOND, Micros, SystemClock
from onthedot.model.events import DrainBegun, Event, EventsLeftOut
from onthedot.observe.event_delivery import Delivery, EventBuffer, deliver_rest
from tests.observe.sample_events import NOON

TIMEOUT = 10 * SECOND


class Noon:
    """A clock that always shows noon."""

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


def test_lost_events_are_counted_at_their_place(clock: Noon):
    mailbox = EventBuffer(clock, most=2)
    for number in range(1, 6):
        mailbox.take(DrainBegun(number))
    assert mailbox.get() == (NOON, DrainBegun(1))
    mailbox.take(DrainBegun(6))
    assert taken(mailbox) == [2, EventsLeftOut(3), 6]
    assert mailbox.left_out == 3


def test_lost_events_at_the_end_are_counted(clock: Noon):
    mailbox = EventBuffer(clock, most=1)
    mailbox.take(DrainBegun(1))
    mailbox.take(DrainBegun(2))
    mailbox.close()
    assert not mailbox.ended
    assert taken(mailbox) == [1, EventsLeftOut(1)]
    assert mailbox.ended


def test_a_waiting_reader_is_woken_by_an_event_and_by_the_end(clock: Noon):
    mailbox, found = EventBuffer(clock), []

    def read() -> None:
        while (entry := mailbox.get(TIMEOUT)) is not None:
            found.append(entry[1])

    reader = threading.Thread(target=read)
    reader.start()
    mailbox.take(DrainBegun(1))
    mailbox.close()
    reader.join(10)
    assert not reader.is_alive()
    assert found == [DrainBegun(1)]


CLOCK = SystemClock()


def test_all_events_are_delivered_in_order_before_the_end():
    told: list[Event] = []
    delivery = Delivery(told.append, CLOCK)
    delivery.open()
    for number in range(1_000):
        delivery.take(DrainBegun(number))
    deliver_rest([delivery], CLOCK)
    assert told == [DrainBegun(number) for number in range(1_000)]


def test_a_slow_subscriber_is_told_how_many_events_it_missed():
    told: list[Event] = []
    reached, go_on = threading.Event(), threading.Event()

    def slow(event: Event) -> None:
        reached.set()
        assert go_on.wait(10)
        told.append(event)

    delivery = Delivery(slow, CLOCK, most=2)
    delivery.open()
    delivery.take(DrainBegun(0))
    assert reached.wait(10)
    for number in range(1, 6):
        delivery.take(DrainBegun(number))  # would wait for ever if it waited for the subscriber
    go_on.set()
    deliver_rest([delivery], CLOCK, patience=10 * SECOND)
    assert told == [DrainBegun(0), DrainBegun(1), DrainBegun(2), EventsLeftOut(3)]


def test_a_subscriber_that_hangs_does_not_delay_the_end():
    release = threading.Event()

    def hang(event: Event) -> None:
        release.wait(30)

    delivery = Delivery(hang, CLOCK)
    delivery.open()
    delivery.take(DrainBegun(1))
    deliver_rest([delivery], CLOCK, patience=1_000)
    assert not release.is_set()
    release.set()


def test_repeated_errors_of_a_subscriber_are_logged_less_and_less(caplog: pytest.LogCaptureFixture):
    class Broken:
        def __call__(self, event: Event) -> None:
            raise ValueError("no")

    delivery = Delivery(Broken(), CLOCK)
    delivery.open()
    for number in range(25):
        delivery.take(DrainBegun(number))
    deliver_rest([delivery], CLOCK, patience=10 * SECOND)
    assert delivery.failures == 25
    first, second = (record.getMessage() for record in caplog.records)
    assert "Broken raised ValueError at DrainBegun (1 so far)" in first
    assert "(10 so far)" in second
