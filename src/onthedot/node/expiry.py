"""Expiry: skips runs that nobody started in time, and emits an event for each."""

from __future__ import annotations

from onthedot import fault_points
from onthedot.clock import Micros
from onthedot.loop import Service
from onthedot.model.events import Events, RunMissed
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class Expiry(Service):
    """Moves runs past their expiry to skipped(missed)."""

    name = "expiry"

    def __init__(self, store: Store, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._settings = settings
        self._events = events

    async def tick(self, now: Micros) -> Micros:
        """One sweep."""
        del now
        fault_points.point("expire.before_write")
        missed = await self._store.expire(limit=self._settings.batch)
        for run in missed:
            self._events.emit(RunMissed(run))
        return 0 if len(missed) == self._settings.batch else self._settings.expire_every
