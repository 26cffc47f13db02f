"""Putting right what nobody else will, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onthedot import faults
from onthedot.clock import Micros
from onthedot.run import Lease, RunRecord, RunState
from onthedot.stores.postgres.finish import Held, check_moves, end_waiting, hold, move_runs
from onthedot.stores.postgres.gates import recount
from onthedot.stores.postgres.history import SHOW_THESE_FINISHED
from onthedot.stores.postgres.rates import FORGET_IDLE
from onthedot.stores.postgres.runs import LEASES, Runs
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.postgres.triggers import with_slots
from onthedot.stores.showing import shown
from onthedot.verdict import Finish, Verdict

# Incarnations whose lease has ended, and of which nobody knows yet that they run nothing. A lease that has ended gets
# no new runs before it is renewed, so one look at the runs is enough for each end. There is no index over held runs:
# the look goes through all live ones, but only when somebody has died.
LIST_DEAD = """
SELECT incarnation FROM nodes
WHERE (ended OR lease_until <= $1) AND empty_at IS DISTINCT FROM lease_until ORDER BY number
"""

# Nobody of them arms or beats meanwhile. One that somebody has locked, who may have been frozen, comes another time:
# the others do not wait for it.
LOCK_DEAD = LIST_DEAD + " FOR UPDATE SKIP LOCKED"

LIST_ORPHANS = LEASES.format(wanted="r.incarnation = ANY($1) AND r.state = 'running'") + " LIMIT $2"

NOTE_EMPTY = "UPDATE nodes SET empty_at = lease_until WHERE incarnation = ANY($1)"

LOCK_THESE_DEAD = """
SELECT incarnation FROM nodes WHERE incarnation = ANY($1) AND (ended OR lease_until <= $2) ORDER BY number
FOR UPDATE SKIP LOCKED
"""

# For good: from here on this incarnation cannot renew its lease.
END_NODE = "UPDATE nodes SET ended = true, reaped = reaped + $2 WHERE incarnation = $1"

LIST_MISSED = with_slots("""
SELECT id, CASE WHEN {is_no_slot} THEN 'expired'
                WHEN target = '' THEN 'missed'
                WHEN EXISTS (SELECT 1 FROM nodes n WHERE n.id = target AND NOT n.ended AND n.lease_until > $1)
                THEN 'missed' ELSE 'node_gone' END
FROM runs
WHERE expires_at <= $1 AND (state = 'scheduled' OR (state = 'reserved' AND ready_at <= $1))
ORDER BY expires_at, id LIMIT $2
""")

# One that was taken between two looks has not expired.
LOCK_MISSED = """
SELECT 1 FROM runs
WHERE id = $1 AND expires_at <= $2 AND (state = 'scheduled' OR (state = 'reserved' AND ready_at <= $2))
FOR UPDATE SKIP LOCKED
"""


class Upkeep(Runs):
    """See `UpkeepSlice`."""

    async def orphans(self, *, limit: int, now: Micros | None = None) -> list[Lease]:
        async def look(tx: Transaction) -> list[Any]:
            return await tx.rows(LIST_DEAD, await tx.clock(now))

        async def work(tx: Transaction) -> list[Lease]:
            dead = [incarnation for (incarnation,) in await tx.rows(LOCK_DEAD, await tx.clock(now))]
            rows = await tx.rows(LIST_ORPHANS, dead, limit)
            if not rows:
                await tx.do(NOTE_EMPTY, dead)
            return await self.leases(tx, rows)

        return await self.write(work) if await self.read(look) else []

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], *, now: Micros | None = None) -> list[bool]:
        async def work(tx: Transaction) -> list[bool]:
            at = await tx.clock(now)
            check_moves(verdict for _, verdict in verdicts)
            whose = sorted({lease.incarnation for lease, _ in verdicts})
            dead = {incarnation for (incarnation,) in await tx.rows(LOCK_THESE_DEAD, whose, at)}
            finishes = [Finish(lease, verdict, 0, at) for lease, verdict in verdicts]
            held = await hold(tx, finishes)
            taken: dict[int, Finish] = {}
            for finish in finishes:
                if finish.lease.incarnation in dead and _is_running(held, finish.lease):
                    taken.setdefault(finish.lease.run_id, finish)
            for incarnation in whose:
                count = sum(finish.lease.incarnation == incarnation for finish in taken.values())
                if count:
                    await tx.do(END_NODE, incarnation, count)
            faults.point("reap.in_transaction")
            await move_runs(tx, list(taken.values()), held)
            return [taken.get(finish.lease.run_id) is finish for finish in finishes]

        return await self.write(work)

    async def recount_gates(self, *, now: Micros | None = None) -> int:
        async def work(tx: Transaction) -> int:
            at = await tx.clock(now)
            await tx.do(FORGET_IDLE, at)
            return await recount(tx, at)

        return await self.write(work, limit=self.limits.long)

    async def expire(self, *, limit: int, now: Micros | None = None) -> list[RunRecord]:
        async def work(tx: Transaction) -> list[RunRecord]:
            at = await tx.clock(now)
            ended = []
            for run_id, reason in await tx.rows(LIST_MISSED, at, limit):
                if await tx.row(LOCK_MISSED, run_id, at) is not None:
                    await end_waiting(tx, run_id, RunState.SKIPPED, reason, at)
                    ended.append(run_id)
            faults.point("expire.in_transaction")
            rows = await tx.rows(SHOW_THESE_FINISHED, ended) if ended else []
            by_id = {row[0]: shown(row) for row in rows}
            return [by_id[run_id] for run_id in ended]

        return await self.write(work, limit=self.limits.long)


def _is_running(held: Held, lease: Lease) -> bool:
    return held.is_running(lease) and held.runs[lease.run_id]["incarnation"] == lease.incarnation
