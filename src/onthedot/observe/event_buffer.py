"""A mailbox: events on their way from the engine to whoever takes their time over them.

The engine's thread only puts events in, and never waits. When the box is full, events are left out and counted, and
in their place the reader finds one event that says how many: so a reader that is slow, or stopped, costs neither
memory nor the node's lease, and knows what it has missed.
"""

from __future__ import annotations

import threading
from collections import deque

from onthedot.clock import SECOND, Clock, Micros
from onthedot.model.events import Event, EventsLeftOut

MOST = 10_000
"""How many events wait at most."""


class EventBuffer:
    """Takes events on any thread, and gives them out in order, with the instant at which each happened."""

    def __init__(self, clock: Clock, *, most: int = MOST) -> None:
        self.left_out = 0  # events, since the beginning
        self._clock = clock
        self._most = most
        self._entries: deque[tuple[Micros, Event]] = deque()
        self._gap = 0  # events left out after the last entry
        self._closed = False
        self._news = threading.Condition()

    def take(self, event: Event) -> None:
        """Put an event in, or count it as left out: never waits."""
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
        """The next one; None when there is none within `timeout`, or when the box is closed and empty."""
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
        """Whether the box is closed, and everything was taken out."""
        with self._news:
            return self._closed and not self._entries and not self._gap

    def close(self) -> None:
        """Nothing more will come: a `get` that finds it empty does not wait."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def reopen(self) -> None:
        """More will come after all."""
        with self._news:
            self._closed = False
