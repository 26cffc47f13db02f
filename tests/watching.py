"""Lets a test wait for events of a scheduler instead of sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import onthedot as otd
from onthedot.model.events import Event


class Watch:
    """Collects all events of a scheduler, and waits for certain ones."""

    def __init__(self, scheduler: otd.Scheduler) -> None:
        self.events: list[Event] = []
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        scheduler.subscribe(self._note)

    def _note(self, event: Event) -> None:
        self.events.append(event)
        self._loop.call_soon_threadsafe(self._news.set)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, found: Callable[[], object]) -> None:
        """Wait until `found` returns something true. It is called again after every event."""
        async with asyncio.timeout(20):
            while not found():
                self._news.clear()
                await self._news.wait()

    async def until_count(self, kind: type, count: int) -> list[Any]:
        await self.until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)
