"""Places, priorities and queues with one thing left out. See `mutants.py`."""

from __future__ import annotations

from onthedot.clock import SECOND
from onthedot.route import placed_incarnation, route_name
from onthedot.run import RunState
from onthedot.stores.memory import MemoryStore


class PlacesWithoutTerm(MemoryStore):
    """Whoever has led once may give runs their places."""

    async def place(self, term, placements, *, now=None):
        now = self.read_clock(now)
        return [self._place_one(placement, now) for placement in placements]


class LapsedPlaceIsAnybodys(MemoryStore):
    """A run whose worker did nothing with it for a second goes to whoever asks first."""

    async def reserve(self, ask, *, now=None):
        at = self.read_clock(now)
        for run in self.runs.values():
            waits = run.state is RunState.SCHEDULED and run.ready_at + SECOND <= at
            if waits and placed_incarnation(run.route) is not None:
                job = self.jobs[run.key.job_id].job
                run.route = route_name(job.queue, job.labels)
                self.line_up(run)
        return await super().reserve(ask, now=now)


class LevelIgnored(MemoryStore):
    """First come, first served, whatever the priority."""

    def line_up(self, run):
        run.level = 1
        super().line_up(run)


class PausedQueueIsArmed(MemoryStore):
    """A pause of a queue stops `reserve`, and what is reserved already is armed."""

    arming = False

    def is_paused(self, queue):
        return not self.arming and super().is_paused(queue)

    async def arm(self, leases, *, gates=None, now=None):
        self.arming = True
        try:
            return await super().arm(leases, gates=gates, now=now)
        finally:
            self.arming = False
