"""Wakes callers of `result()`: on a hint, and by polling every second."""

from __future__ import annotations

import asyncio

from onthedot.clock import Micros
from onthedot.loop import Service
from onthedot.model.run import TERMINAL, RunRecord
from onthedot.settings import Settings
from onthedot.stores.hints import Hint
from onthedot.stores.protocol import Store


class Ends(Service):
    """Reads the store once for all waiting callers, and not at all while there are none."""

    name = "result waiters"

    def __init__(self, store: Store, settings: Settings) -> None:
        super().__init__()
        self._store = store
        self._settings = settings
        self._waiting: dict[int, list[asyncio.Future[RunRecord | None]]] = {}

    async def wait(self, run_id: int) -> RunRecord | None:
        """Wait until a run has ended, and return it. Return None if the run is not stored, or not any more."""
        ended: asyncio.Future[RunRecord | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run_id, []).append(ended)
        self.wake()
        try:
            return await ended
        finally:
            self._leave(run_id, ended)

    def _leave(self, run_id: int, ended: asyncio.Future[RunRecord | None]) -> None:
        others = [one for one in self._waiting.get(run_id, ()) if one is not ended]
        if others:
            self._waiting[run_id] = others
        else:
            self._waiting.pop(run_id, None)

    def wants(self, hint: Hint) -> bool:
        """Return whether this hint is a reason to read the store now."""
        return hint.kind == "ends" and bool(self._waiting)

    async def tick(self, now: Micros) -> Micros | None:
        """Wake the callers whose runs have ended."""
        del now
        waited_for = list(self._waiting)
        for first in range(0, len(waited_for), self._settings.batch):
            some = waited_for[first : first + self._settings.batch]
            found = {run.id: run for run in await self._store.queries.get_runs(some)}
            for run_id in some:
                run = found.get(run_id)
                if run is None or run.state in TERMINAL:
                    self._tell(run_id, run)
        return self._settings.poll_every if self._waiting else None

    def _tell(self, run_id: int, run: RunRecord | None) -> None:
        for ended in self._waiting.pop(run_id, ()):
            if not ended.done():
                ended.set_result(run)
