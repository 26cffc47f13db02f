"""Sweeps: small repairs that each node makes every few seconds. Two nodes that make the same one do no harm.

Expiry          skips runs that no worker started in time
Resumer         resumes jobs whose pause has reached its end
GateRecount     takes limit places from runs that no worker can start, and frees runs at open gates: a safety net
"""

from __future__ import annotations

from onthedot import fault_points
from onthedot.clock import Clock, Micros
from onthedot.loop import Service
from onthedot.model.errors import UnknownJob
from onthedot.model.events import Events, GatesRecounted, JobResumed, RunMissed
from onthedot.operations.put_job import resume_job
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class Expiry(Service):
    """Skips expired runs as skipped(missed), and emits an event for each."""

    name = "expiry"

    def __init__(self, store: Store, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._settings = settings
        self._events = events

    async def tick(self, now: Micros) -> Micros:
        """Skip expired runs once."""
        del now
        fault_points.point("expire.before_write")
        missed = await self._store.expire(limit=self._settings.batch)
        for run in missed:
            self._events.emit(RunMissed(run))
        return 0 if len(missed) == self._settings.batch else self._settings.expire_every


class Resumer(Service):
    """Resumes jobs whose pause is over, without the slots of the pause."""

    name = "resumer"

    def __init__(self, store: Store, clock: Clock, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._settings = settings
        self._events = events

    async def tick(self, now: Micros) -> Micros:
        """One look."""
        del now
        for record in await self._store.queries.due_resumes():
            try:
                resumed = await resume_job(
                    self._store, record.id, missed="none", clock=self._clock, settings=self._settings, overdue=True
                )
            except UnknownJob:
                continue  # it was deleted meanwhile
            skipped = sum(skip.count for skip in resumed.skips)
            self._events.emit(JobResumed(record.job.name, len(resumed.slots), skipped, resumed.released))
        return self._settings.poll_every


class GateRecount(Service):
    """Gives unusable places to other runs, and frees runs that wait at an open gate. A run that waits at an open gate
    shows a bug, so an event reports it.
    """

    name = "gate recount"

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
