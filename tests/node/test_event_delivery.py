"""Subscribers on threads of their own: in order, never in the engine's way."""

from __future__ import annotations

import threading

import pytest

from onthedot.clock import SECOND, SystemClock
from onthedot.model.events import DrainBegun, Event, EventsLeftOut
from onthedot.node.event_delivery import Delivery, deliver_rest

CLOCK = SystemClock()


def test_every_event_is_delivered_in_order_before_the_end():
    told: list[Event] = []
    delivery = Delivery(told.append, CLOCK)
    delivery.open()
    for number in range(1_000):
        delivery.take(DrainBegun(number))
    deliver_rest([delivery], CLOCK)
    assert told == [DrainBegun(number) for number in range(1_000)]


def test_a_slow_one_is_told_how_much_it_has_missed():
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


def test_one_that_hangs_is_left_behind():
    release = threading.Event()

    def hang(event: Event) -> None:
        release.wait(30)

    delivery = Delivery(hang, CLOCK)
    delivery.open()
    delivery.take(DrainBegun(1))
    deliver_rest([delivery], CLOCK, patience=1_000)
    assert not release.is_set()
    release.set()


def test_errors_are_told_ever_more_rarely(caplog: pytest.LogCaptureFixture):
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
