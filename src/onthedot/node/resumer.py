"""The resumer: resumes jobs whose pause has reached its end."""

from __future__ import annotations

from onthedot.clock import Clock, Micros
from onthedot.loop import Service
from onthedot.model.errors import UnknownJob
from onthedot.model.events import Events, JobResumed
from onthedot.operations.put_job import resume_job
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class Resumer(Service):
    """Resumes jobs whose pause is over, without the slots of the pause. Ticks on every node: resuming twice is
    harmless."""

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
