"""The finisher: verdicts on their way to the store.

Written at once; what arrives while a write is in flight is the next batch. So a lone finish waits for nothing, and
a flood of them shares commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from onthedot import fault_points
from onthedot.clock import Micros
from onthedot.model.events import AttemptEnded, Events, LeaseLost
from onthedot.model.verdict import Finish
from onthedot.runners.attempt_notes import Desk
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class Finisher:
    """Writes verdicts in batches. A write whose answer was lost is repeated with the same leases."""

    name = "finisher"

    def __init__(self, store: Store, settings: Settings, events: Events, desk: Desk | None = None) -> None:
        self._store = store
        self._desk = desk
        self._settings = settings
        self._events = events
        self.on_accepted: Callable[[list[Finish]], None] | None = None
        self._waiting: list[Finish] = []
        self._all_written = asyncio.Event()
        self._all_written.set()

    def add(self, finishes: list[Finish]) -> None:
        """Take these along with the next write."""
        self._waiting.extend(finishes)
        self._all_written.clear()

    async def flushed(self) -> None:
        """Wait until the store has acknowledged every verdict."""
        await self._all_written.wait()

    def lease_ids(self) -> list[str]:
        """The leases of verdicts that the store has not acknowledged."""
        return [finish.lease.lease_id for finish in self._waiting]

    async def tick(self, now: Micros) -> Micros | None:
        """Write one batch; it leaves the list only when the store has answered."""
        del now
        batch = self._waiting[: self._settings.batch]
        if not batch:
            return None
        if self._desk is not None:  # what they told last: their leases end with this write
            await self._desk.write([finish.lease.lease_id for finish in batch])
        fault_points.point("finish.before_write")
        answers = await self._store.finish(batch)
        fault_points.point("finish.after_write")
        del self._waiting[: len(batch)]
        if self._events.wanted or not all(answers):
            for finish, accepted in zip(batch, answers, strict=True):
                self._events.emit(AttemptEnded(finish) if accepted else LeaseLost(finish))
        if self.on_accepted is not None:
            self.on_accepted([finish for finish, accepted in zip(batch, answers, strict=True) if accepted])
        if self._waiting:
            return 0
        self._all_written.set()
        return None
