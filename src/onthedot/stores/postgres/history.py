"""What people ask for, from PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.run import AttemptRecord, RunRecord, RunState
from onthedot.stores.postgres.tables import Tables
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.showing import by_id, counted

_PROGRESS_OF = """
(SELECT n.progress FROM notes n WHERE n.run_id = {id} AND n.progress IS NOT NULL ORDER BY n.attempt DESC LIMIT 1)
"""

# The attempt that ended last. With LIMIT it is looked up for each run: else attempts may be read as a whole.
_TRIED = """
LEFT JOIN LATERAL (SELECT a.node, a.revision FROM attempts a WHERE a.run_id = {id} AND a.attempt = {attempt} LIMIT 1) a
ON true
"""

# Who holds it, or had it last: attempts are recorded once they have ended.
LIVE_NODE = """
CASE WHEN r.incarnation IS NULL THEN coalesce(a.node, '')
     ELSE coalesce((SELECT o.id FROM nodes o WHERE o.incarnation = r.incarnation), '') END
"""

LIVE = f"""
SELECT r.id, j.name, j.namespace, r.trigger, r.slot_at, r.due_at, r.state, r.reason, r.attempt, r.failures,
       r.recoveries, r.created_at, r.armed_at, NULL::bigint, NULL::bigint, NULL::text, NULL::text,
       r.queue, r.priority, r.target, {_PROGRESS_OF.format(id="r.id")}, r.args, '',
       j.owner, {LIVE_NODE}, coalesce(r.revision, a.revision, 0), j.id
FROM runs r JOIN jobs j ON j.id = r.job_id {_TRIED.format(id="r.id", attempt="r.attempt")}
WHERE {{wanted}}
"""  # noqa: S608 - constants of this file

FINISHED = f"""
SELECT h.id, j.name, j.namespace, h.trigger, h.slot_at, h.due_at, h.state, h.reason, h.attempts, h.failures,
       h.recoveries, h.created_at, h.armed_at, h.started_at, h.ended_at, h.error, h.result,
       h.queue, h.priority, h.target, {_PROGRESS_OF.format(id="h.id")}, h.args, coalesce(h.settled, ''),
       j.owner, coalesce(a.node, ''), coalesce(a.revision, 0), j.id
FROM history h JOIN jobs j ON j.id = h.job_id {_TRIED.format(id="h.id", attempt="h.attempts")}
WHERE {{wanted}}
"""  # noqa: S608

SHOW_THESE_LIVE = LIVE.format(wanted="r.id = ANY($1)")

SHOW_THESE_FINISHED = FINISHED.format(wanted="h.id = ANY($1)")

# A job's history is bounded by its retention: read as a whole, it needs no index of its own.
LIST_RUNS_OF_SLOTS = """
SELECT slot_at, state FROM runs WHERE job_id = $1 AND slot_at BETWEEN $2 AND $3 AND trigger = $4
UNION ALL
SELECT slot_at, state FROM history WHERE job_id = $1 AND slot_at BETWEEN $2 AND $3 AND trigger = $4
ORDER BY slot_at, state
"""

LIST_ATTEMPTS = """
SELECT run_id, attempt, lease_id, fence, node, revision, outcome, error, due_at, reserved_at, armed_at, started_at,
       ended_at
FROM attempts WHERE run_id = $1 ORDER BY attempt
"""

COUNT_RUNS = """
SELECT state, count(*) FROM runs GROUP BY state UNION ALL SELECT state, count(*) FROM history GROUP BY state
"""


class History(Tables):
    """See `HistorySlice`."""

    async def get_run(self, run_id: int) -> RunRecord | None:
        runs = await self.get_runs([run_id])
        return runs[0] if runs else None

    async def get_runs(self, run_ids: Sequence[int]) -> list[RunRecord]:
        wanted = sorted(set(run_ids))

        async def work(tx: Transaction) -> list[RunRecord]:
            rows = [*await tx.rows(SHOW_THESE_LIVE, wanted), *await tx.rows(SHOW_THESE_FINISHED, wanted)]
            return by_id(rows)

        return await self.show(work)

    async def runs_of_slots(
        self, job_id: int, trigger: str, *, first: Micros, last: Micros
    ) -> list[tuple[Micros, RunState]]:
        rows = await self.show(lambda tx: tx.rows(LIST_RUNS_OF_SLOTS, job_id, first, last, trigger))
        return [(slot_at, RunState(state)) for slot_at, state in rows]

    async def list_attempts(self, run_id: int) -> list[AttemptRecord]:
        return [AttemptRecord(*row) for row in await self.show(lambda tx: tx.rows(LIST_ATTEMPTS, run_id))]

    async def count_runs(self) -> dict[RunState, int]:
        rows = dict(await self.show(lambda tx: tx.rows(COUNT_RUNS)))
        return counted(rows)
