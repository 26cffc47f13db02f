"""A bounded buffer of events between the engine and a slow reader.

The engine's thread puts events in, and never waits. If the buffer is full, events are dropped and counted, and the
reader gets one event with the count in their place. So a slow or stopped reader costs neither memory nor the node's
lease, and it knows how much it has missed.
"""

from __future__ import annotations

import threading
from collections import deque

from onthedot.clock import SECOND, Clock, Micros
from onthedot.model.events import Event, EventsLeftOut

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
        """Whether the buffer is closed and empty."""
        with self._news:
            return self._closed and not self._entries and not self._gap

    def close(self) -> None:
        """No more events will come: `get` does not wait for them."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def reopen(self) -> None:
        """Events may come again."""
        with self._news:
            self._closed = False
