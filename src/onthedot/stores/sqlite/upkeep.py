"""Putting right what nobody else will, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from onthedot import faults
from onthedot.clock import Micros
from onthedot.errors import StoreUnusable
from onthedot.run import Lease, RunRecord, RunState
from onthedot.stores.showing import shown
from onthedot.stores.sqlite.finish import check_moves, end_waiting, move_runs, record_attempts
from onthedot.stores.sqlite.gates import recount
from onthedot.stores.sqlite.history import SHOW_FINISHED
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.rates import FORGET_IDLE
from onthedot.stores.sqlite.runs import LEASES, Runs, completed
from onthedot.stores.sqlite.tables import lease_has_ended
from onthedot.stores.sqlite.triggers import with_slots
from onthedot.verdict import Finish, Verdict

# Steps from holder to holder through the index, so that it costs as much as there are living nodes, not as there
# are runs. A holder that nobody has registered is as good as dead.
LIST_ORPHANS = LEASES.format(
    with_="""
WITH RECURSIVE holders (incarnation) AS (
    SELECT min(incarnation) FROM runs WHERE incarnation IS NOT NULL
    UNION ALL
    SELECT (SELECT min(r.incarnation) FROM runs r WHERE r.incarnation > holders.incarnation)
    FROM holders WHERE holders.incarnation IS NOT NULL
)
""",
    source="""holders
LEFT JOIN nodes n ON n.incarnation = holders.incarnation
CROSS JOIN runs r INDEXED BY runs_held ON r.incarnation = holders.incarnation AND r.state = 'running'
CROSS JOIN jobs j ON j.id = r.job_id""",
    wanted="n.incarnation IS NULL OR n.ended OR n.lease_until <= :now ORDER BY r.id LIMIT :limit",
)

IS_RUNNING = "SELECT 1 FROM runs WHERE id = ? AND lease_id = ? AND incarnation = ? AND state = 'running'"

# For good: from here on this incarnation cannot renew its lease.
END_NODE = "UPDATE nodes SET ended = 1, reaped = reaped + 1 WHERE incarnation = ?"

LIST_MISSED = with_slots("""
SELECT id, CASE WHEN {is_no_slot} THEN 'expired'
                WHEN target = '' THEN 'missed'
                WHEN EXISTS (SELECT 1 FROM nodes n WHERE n.id = target AND n.ended = 0 AND n.lease_until > :now)
                THEN 'missed' ELSE 'node_gone' END
FROM runs INDEXED BY runs_expiring
WHERE expires_at <= :now AND (state = 'scheduled' OR (state = 'reserved' AND ready_at <= :now))
ORDER BY expires_at LIMIT :limit
""")


class Upkeep(Runs):
    """See `UpkeepSlice`."""

    async def orphans(self, *, limit: int, now: Micros | None = None) -> list[Lease]:
        def work(tx: Transaction) -> list[Lease]:
            rows = tx.db.execute(LIST_ORPHANS, {"now": self.read_clock(now), "limit": limit}).fetchall()
            return self.leases(tx.db, rows)

        return await self.look(work)

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], *, now: Micros | None = None) -> list[bool]:
        def work(tx: Transaction) -> list[bool]:
            at = self.read_clock(now)
            check_moves(verdict for _, verdict in verdicts)
            return [_reap(tx, completed(tx.db, Finish(lease, verdict, 0, at)), at) for lease, verdict in verdicts]

        return await self.write(work)

    async def recount_gates(self, *, now: Micros | None = None) -> int:
        def work(tx: Transaction) -> int:
            at = self.read_clock(now)
            tx.db.execute(FORGET_IDLE, (at,))
            return recount(tx, at)

        return await self.write(work)

    async def expire(self, *, limit: int, now: Micros | None = None) -> list[RunRecord]:
        def work(tx: Transaction) -> list[RunRecord]:
            at = self.read_clock(now)
            missed = tx.db.execute(LIST_MISSED, {"now": at, "limit": limit}).fetchall()
            faults.point("expire.in_transaction")
            return [_expire(tx, run_id, reason, at) for run_id, reason in missed]

        return await self.write(work)


def _reap(tx: Transaction, finish: Finish, now: Micros) -> bool:
    lease = finish.lease
    if tx.db.execute(IS_RUNNING, (lease.run_id, lease.lease_id, lease.incarnation)).fetchone() is None:
        return False
    if not lease_has_ended(tx.db, lease.incarnation, now):
        return False
    tx.db.execute(END_NODE, (lease.incarnation,))
    record_attempts(tx.db, [finish])
    faults.point("reap.in_transaction")
    return move_runs(tx, [finish])


def _expire(tx: Transaction, run_id: int, reason: str, now: Micros) -> RunRecord:
    end_waiting(tx, run_id, RunState.SKIPPED, reason, now)
    return _finished(tx.db, run_id)


def _finished(db: sqlite3.Connection, run_id: int) -> RunRecord:
    row = db.execute(SHOW_FINISHED, (run_id,)).fetchone()
    if row is None:
        raise StoreUnusable(f"run {run_id}: its job is missing; restore a backup")
    return shown(row)
