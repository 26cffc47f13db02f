"""The gate recount: takes places in limits from runs that no worker can start. A safety net under all gates."""

from __future__ import annotations

from onthedot.clock import Micros
from onthedot.loop import Service
from onthedot.model.events import Events, GatesRecounted
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class GateRecount(Service):
    """Passes on places that nobody can use, and frees runs that wait at an open gate. Ticks on every node. It emits an
    event if a run waited at an open gate, because that is a bug."""

    name = "gates"

    def __init__(self, store: Store, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._settings = settings
        self._events = events

    async def tick(self, now: Micros) -> Micros:
        """One look."""
        del now
        freed = await self._store.recount_gates()
        if freed:
            self._events.emit(GatesRecounted(freed))
        return self._settings.recount_every
