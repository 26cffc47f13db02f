"""Mutants of placement, priorities and queues. See `mutants.py`."""

from __future__ import annotations

from onthedot.clock import SECOND
from onthedot.model.route import PLACED_ROUTES, route_name
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sql.port import Tx, sql
from tests.contract.sql_mutants import Mutant as Edit

LIST_LAPSED = sql("""
SELECT id, job_id FROM runs WHERE route >= $1 AND route < $2 AND state = 'scheduled' AND ready_at <= $3
""")
REROUTE = sql("UPDATE runs SET route = $1 WHERE id = $2")

# A former leader may still place runs.
PLACES_WITHOUT_TERM = (Edit("queues.assign", "await check_term(tx, term, at)", "pass"),)


class LapsedPlaceIsFree(MemoryStore):
    """A run whose worker did nothing with it for a second goes to the first worker that asks."""

    async def reserve(self, ask, *, now=None):
        at = self.clock.now() if now is None else now
        jobs = {record.id: record.job for record in await self.queries.list_jobs()}
        await self.database.write(self._take_away, jobs, at - SECOND)
        return await super().reserve(ask, now=now)

    @staticmethod
    async def _take_away(tx: Tx, jobs, since):
        for run_id, job_id in await tx.rows(LIST_LAPSED, *PLACED_ROUTES, since):
            job = jobs[job_id]
            await tx.do(REROUTE, route_name(job.queue, job.labels), run_id)


# Runs are taken by due instant, whatever their priority.
LEVEL_IGNORED = (
    Edit("submit.insert_runs", "job.route, job.priority, job.queue", "job.route, 1, job.queue"),
    Edit("jobs.REROUTE", "priority = $4", "priority = 1 + 0 * $4"),
)

# A paused queue stops `reserve`, but runs that are reserved already are armed.
PAUSED_QUEUE_IS_ARMED = (Edit("arm.LOCK_ARMABLE", "q.paused_at IS NOT NULL", "false"),)
