"""The reaper: takes runs from nodes whose lease has ended, and lets the job's guarantee decide what becomes of them."""

from __future__ import annotations

from onthedot import fault_points
from onthedot.clock import Micros
from onthedot.loop import Service
from onthedot.model.events import Events, RunRecovered
from onthedot.node.heartbeat import Membership
from onthedot.rules import recovery
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class Reaper(Service):
    """Recovers orphans. Ticks on every node: each take is guarded in the store, so two reapers do no harm."""

    name = "reaper"

    def __init__(self, store: Store, membership: Membership, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._membership = membership
        self._settings = settings
        self._events = events

    async def tick(self, now: Micros) -> Micros:
        """Recover orphans once."""
        if not self._membership.trusted:
            return self._settings.reap_every  # our own lease may have ended: the heartbeat must check first
        own = self._membership.incarnation  # this node lives: a clock that was set forward
        found = await self._store.orphans(limit=self._settings.batch)
        orphans = [lease for lease in found if lease.incarnation != own]
        if not orphans:
            return self._settings.reap_every
        verdicts = [
            (
                lease,
                recovery.decide(
                    lease.record.job,
                    recoveries=lease.recoveries,
                    now=now,
                    why="its node's lease ended",
                    due_at=lease.due_at,
                ),
            )
            for lease in orphans
        ]
        fault_points.point("reap.before_write")
        for taken, (lease, verdict) in zip(await self._store.reap(verdicts), verdicts, strict=True):
            if taken:
                self._events.emit(RunRecovered(lease, verdict))
        return 0 if len(orphans) == self._settings.batch else self._settings.reap_every
