"""Deliveries: each subscriber of a program gets events on its own thread, so that none can harm the engine.

A slow subscriber misses events, and learns how many. One that raises gets the next event all the same. Its error goes
to the logger `onthedot.subscribers`: the first time, the 10th, the 100th, and so on.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from onthedot.clock import SECOND, Clock, Micros
from onthedot.model.events import Event, Subscriber
from onthedot.observe.event_buffer import MOST, EventBuffer

PATIENCE: Micros = 2 * SECOND
"""How long the end of a node waits, at most, for subscribers to hear the rest."""


class Delivery:
    """One subscriber, its mailbox and its thread."""

    def __init__(self, subscriber: Subscriber, clock: Clock, *, most: int = MOST) -> None:
        self.failures = 0
        self.subscriber = subscriber
        self._mailbox = EventBuffer(clock, most=most)
        self._thread: threading.Thread | None = None

    def take(self, event: Event) -> None:
        """Called by the engine for every event: never waits."""
        self._mailbox.take(event)

    def open(self) -> None:
        """Begin to deliver."""
        self._mailbox.reopen()
        self._thread = threading.Thread(target=self._serve, name="onthedot subscriber", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nothing more will come: deliver the rest, and end."""
        self._mailbox.close()

    def wait(self, patience: Micros) -> None:
        """Until the rest is delivered, at most so long."""
        if self._thread is not None:
            self._thread.join(max(0, patience) / SECOND)

    # ── on the subscriber's thread ───────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        while (entry := self._mailbox.get()) is not None:
            try:
                self.subscriber(entry[1])
            except Exception as error:  # noqa: BLE001 - whatever it raises: the next event may be one that it can bear
                self.failures += 1
                if _is_news(self.failures):
                    _tell(self.subscriber, entry[1], error, self.failures)


def deliver_rest(deliveries: Sequence[Delivery], clock: Clock, *, patience: Micros = PATIENCE) -> None:
    """Let all subscribers take what is left, for at most `patience`."""
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
