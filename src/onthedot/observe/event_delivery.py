"""Delivers events to subscribers: a bounded buffer and a thread for each, so that none can slow the engine down.

The engine's thread puts events in, and never waits. If a buffer is full, events are dropped and counted, and the reader
gets one event with the count in their place. So a slow or stopped reader costs neither memory nor the node's lease, and
it knows how much it has missed.

A subscriber that raises still gets the next event. Its error goes to the logger `onthedot.subscribers`: the first time,
the 10th, the 100th, and so on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from onthedot.clock import SECOND, Clock, Micros
from onthedot.model.events import Event, EventsLeftOut, Subscriber

MOST = 10_000
"""The limit of waiting events."""


class EventBuffer:
    """Takes events on any thread, and returns them in order, each with its instant."""

    def __init__(self, clock: Clock, *, most: int = MOST) -> None:
        self.left_out = 0  # events, since the start
        self._clock = clock
        self._most = most
        self._entries: deque[tuple[Micros, Event]] = deque()
        self._gap = 0  # events left out after the last entry
        self._closed = False
        self._news = threading.Condition()

    def take(self, event: Event) -> None:
        """Put an event in, or count it as dropped. It never waits."""
        at = self._clock.now()
        with self._news:
            if len(self._entries) >= self._most:
                self._gap += 1
                self.left_out += 1
                return
            if self._gap:
                self._entries.append((at, self._gap_told()))
            self._entries.append((at, event))
            self._news.notify()

    def get(self, timeout: Micros | None = None) -> tuple[Micros, Event] | None:
        """The next event; None if there is none within `timeout`, or if the buffer is closed and empty."""
        with self._news:
            if not self._waiting():
                self._news.wait_for(self._waiting, None if timeout is None else timeout / SECOND)
            if self._entries:
                return self._entries.popleft()
            return (self._clock.now(), self._gap_told()) if self._gap else None

    def _waiting(self) -> bool:
        return bool(self._entries) or self._gap > 0 or self._closed

    def _gap_told(self) -> EventsLeftOut:
        gap, self._gap = self._gap, 0
        return EventsLeftOut(gap)

    @property
    def ended(self) -> bool:
        """Return whether the buffer is closed and empty."""
        with self._news:
            return self._closed and not self._entries and not self._gap

    def close(self) -> None:
        """Close the buffer: no more events come, and `get` does not wait for them."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def reopen(self) -> None:
        """Open the buffer again for new events."""
        with self._news:
            self._closed = False


PATIENCE: Micros = 2 * SECOND
"""How long the end of a node waits, at most, for subscribers to hear the rest."""


class Delivery:
    """One subscriber, its buffer and its thread."""

    def __init__(self, subscriber: Subscriber, clock: Clock, *, most: int = MOST) -> None:
        self.failures = 0
        self.subscriber = subscriber
        self._mailbox = EventBuffer(clock, most=most)
        self._thread: threading.Thread | None = None

    def take(self, event: Event) -> None:
        """Put an event into the buffer. It never waits."""
        self._mailbox.take(event)

    def open(self) -> None:
        """Begin to deliver."""
        self._mailbox.reopen()
        self._thread = threading.Thread(target=self._serve, name="onthedot subscriber", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the buffer: deliver the remaining events, then end the thread."""
        self._mailbox.close()

    def wait(self, patience: Micros) -> None:
        """Wait until the remaining events are delivered, but no longer than this."""
        if self._thread is not None:
            self._thread.join(max(0, patience) / SECOND)

    # ── on the subscriber's thread ───────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        while (entry := self._mailbox.get()) is not None:
            try:
                self.subscriber(entry[1])
            except Exception as error:  # noqa: BLE001 - it still gets the next event
                self.failures += 1
                if _is_news(self.failures):
                    _tell(self.subscriber, entry[1], error, self.failures)


def deliver_rest(deliveries: Sequence[Delivery], clock: Clock, *, patience: Micros = PATIENCE) -> None:
    """Deliver the remaining events to all subscribers, for at most `patience`."""
    give_up_at = clock.steady() + patience
    for delivery in deliveries:
        delivery.close()
    for delivery in deliveries:
        delivery.wait(give_up_at - clock.steady())


def _is_news(number: int) -> bool:
    """
    >>> [number for number in range(2_000) if _is_news(number)]
    [1, 10, 100, 1000]
    """
    return str(number).rstrip("0") == "1"


def _tell(subscriber: Subscriber, event: Event, error: Exception, failures: int) -> None:
    import logging

    name = getattr(subscriber, "__qualname__", type(subscriber).__qualname__)
    logging.getLogger("onthedot.subscribers").error(
        "subscriber %s raised %s at %s (%s so far); it is told of the next event all the same",
        name, type(error).__name__, type(event).__name__, failures, exc_info=error,
    )  # fmt: skip
