"""The assigner: finds places for runs whose worker the leader chooses (`assignment: leader`).

It ticks on the leader, and the leader's term fences its writes. Runs that are due soon go to the workers with the
fewest runs. If the worker dies, or does not start the run within a second, the assigner chooses another worker. Without
a leader such runs wait for the next one: up to two term time-outs.
"""

from __future__ import annotations

from onthedot.clock import MILLISECOND, Micros
from onthedot.loop import Service
from onthedot.model.errors import TermLost
from onthedot.model.events import Events, RunsPlaced
from onthedot.node.leadership import Leadership
from onthedot.operations.cluster import live_workers
from onthedot.rules.placement import assign
from onthedot.settings import Settings
from onthedot.stores.hints import Hint
from onthedot.stores.protocol import Store
from onthedot.stores.values import Placement

EVERY: Micros = 500 * MILLISECOND


class Assigner(Service):
    """Assigns runs to workers while this node is the leader."""

    name = "assigner"

    def __init__(self, store: Store, leadership: Leadership, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._leadership = leadership
        self._settings = settings
        self._events = events
        self._idle = 0

    async def tick(self, now: Micros) -> Micros:
        """Run one round. If there are no such runs, as in most clusters, the rounds become rarer."""
        term = self._leadership.term
        if term is None:
            return self._settings.renew_every
        settings = self._settings
        waiting = await self._store.queries.list_unassigned(until=now + settings.horizon, limit=settings.batch)
        if not waiting:
            self._idle += 1
            return EVERY if self._idle < 20 else settings.poll_every
        self._idle = 0
        places = await live_workers(self._store, now, await self._store.queries.count_loads())
        runs = [(run.run_id, run.record.job, run.place) for run in waiting]
        chosen = [Placement(*one) for one in assign(runs, places, most=settings.assign_most)]
        if chosen:
            try:
                placed = await self._store.assign(term, chosen)
            except TermLost:
                self._leadership.lost(term)
                return settings.renew_every
            self._events.emit(RunsPlaced(sum(placed), len(waiting) - len(chosen)))
        return EVERY

    def wants(self, hint: Hint) -> bool:
        """Return whether this hint is a reason to look now."""
        return hint.kind == "runs" and self._idle < 20 and self._leadership.term is not None
