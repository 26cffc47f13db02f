"""What people ask for, from SQLite: always on the reading connection."""

from __future__ import annotations

import json
from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.run import AttemptRecord, RunRecord, RunState
from onthedot.stores.showing import by_id, counted, shown
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.tables import Tables

# Who holds it, or had it last: attempts are recorded once they have ended.
LIVE_NODE = """
CASE WHEN r.incarnation IS NULL THEN coalesce(a.node, '')
     ELSE coalesce((SELECT o.id FROM nodes o WHERE o.incarnation = r.incarnation), '') END
"""

LIVE = f"""
SELECT r.id, j.name, j.namespace, r.trigger, r.slot_at, r.due_at, r.state, r.reason, r.attempt, r.failures,
       r.recoveries, r.created_at, r.armed_at, NULL, NULL, NULL, NULL, r.queue, r.priority, r.target,
       (SELECT n.progress FROM notes n WHERE n.run_id = r.id AND n.progress IS NOT NULL ORDER BY n.attempt DESC LIMIT 1)
       AS progress, r.args, '', j.owner, {LIVE_NODE}, coalesce(r.revision, a.revision, 0), j.id
FROM {{source}} LEFT JOIN attempts a ON a.run_id = r.id AND a.attempt = r.attempt
WHERE {{wanted}}
"""  # noqa: S608 - constants of this file

FINISHED = """
SELECT h.id, j.name, j.namespace, h.trigger, h.slot_at, h.due_at, h.state, h.reason, h.attempts, h.failures,
       h.recoveries, h.created_at, h.armed_at, h.started_at, h.ended_at, h.error, h.result,
       h.queue, h.priority, h.target,
       (SELECT n.progress FROM notes n WHERE n.run_id = h.id AND n.progress IS NOT NULL ORDER BY n.attempt DESC LIMIT 1)
       AS progress, h.args, coalesce(h.settled, ''), j.owner, coalesce(a.node, ''), coalesce(a.revision, 0),
       j.id
FROM {source} LEFT JOIN attempts a ON a.run_id = h.id AND a.attempt = h.attempts
WHERE {wanted}
"""

SHOW_LIVE = LIVE.format(source="runs r JOIN jobs j ON j.id = r.job_id", wanted="r.id = ?")

SHOW_FINISHED = FINISHED.format(source="history h JOIN jobs j ON j.id = h.job_id", wanted="h.id = ?")

_OF_THESE = "json_each(:ids) wanted CROSS JOIN {runs} ON {id} = wanted.value JOIN jobs j ON j.id = {job}"

SHOW_THESE_LIVE = LIVE.format(source=_OF_THESE.format(runs="runs r", id="r.id", job="r.job_id"), wanted="true")

SHOW_THESE_FINISHED = FINISHED.format(
    source=_OF_THESE.format(runs="history h", id="h.id", job="h.job_id"), wanted="true"
)

# A job's history is bounded by its retention: read as a whole, it needs no index of its own.
LIST_RUNS_OF_SLOTS = """
SELECT slot_at, state FROM runs
WHERE job_id = :job_id AND slot_at BETWEEN :first AND :last AND trigger = :trigger
UNION ALL
SELECT slot_at, state FROM history INDEXED BY history_job_ended
WHERE job_id = :job_id AND slot_at BETWEEN :first AND :last AND trigger = :trigger
ORDER BY slot_at, state
"""

LIST_ATTEMPTS = """
SELECT run_id, attempt, lease_id, fence, node, revision, outcome, error, due_at, reserved_at, armed_at, started_at,
       ended_at
FROM attempts WHERE run_id = ? ORDER BY attempt
"""

COUNT_RUNS = """
SELECT state, count(*) FROM runs GROUP BY state UNION ALL SELECT state, count(*) FROM history GROUP BY state
"""


class History(Tables):
    """See `HistorySlice`."""

    async def get_run(self, run_id: int) -> RunRecord | None:
        def work(tx: Transaction) -> RunRecord | None:
            row = tx.db.execute(SHOW_LIVE, (run_id,)).fetchone() or tx.db.execute(SHOW_FINISHED, (run_id,)).fetchone()
            return None if row is None else shown(row)

        return await self.read(work)

    async def get_runs(self, run_ids: Sequence[int]) -> list[RunRecord]:
        values = {"ids": json.dumps(sorted(set(run_ids)))}

        def work(tx: Transaction) -> list[RunRecord]:
            rows = [*tx.db.execute(SHOW_THESE_LIVE, values), *tx.db.execute(SHOW_THESE_FINISHED, values)]
            return by_id(rows)

        return await self.read(work)

    async def runs_of_slots(
        self, job_id: int, trigger: str, *, first: Micros, last: Micros
    ) -> list[tuple[Micros, RunState]]:
        values = {"job_id": job_id, "trigger": trigger, "first": first, "last": last}
        rows = await self.read(lambda tx: tx.db.execute(LIST_RUNS_OF_SLOTS, values).fetchall())
        return [(slot_at, RunState(state)) for slot_at, state in rows]

    async def list_attempts(self, run_id: int) -> list[AttemptRecord]:
        return await self.read(lambda tx: [AttemptRecord(*row) for row in tx.db.execute(LIST_ATTEMPTS, (run_id,))])

    async def count_runs(self) -> dict[RunState, int]:
        rows = dict(await self.read(lambda tx: tx.db.execute(COUNT_RUNS).fetchall()))
        return counted(rows)
