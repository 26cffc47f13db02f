"""How things stand, in PostgreSQL."""

from __future__ import annotations

from onthedot.route import placed_incarnation, waits_for_leader
from onthedot.stores.base import Held, Owned, Standing
from onthedot.stores.postgres.tables import Tables
from onthedot.stores.postgres.transaction import Transaction

COUNT_HELD_APART = """
SELECT incarnation, count(*) FILTER (WHERE state = 'reserved'), count(*) FILTER (WHERE state = 'running')
FROM runs WHERE incarnation IS NOT NULL GROUP BY incarnation
"""

COUNT_OWNED = """
SELECT (SELECT count(*) FROM jobs
        WHERE owner = $1 AND state <> 'deleted' AND namespace = coalesce($2::text, namespace)),
       (SELECT count(*) FROM jobs j JOIN runs r ON r.job_id = j.id
        WHERE j.owner = $1 AND j.state <> 'deleted' AND j.namespace = coalesce($2::text, j.namespace))
"""

FIND_STANDING = """
SELECT r.expires_at, coalesce(n.id, ''), coalesce(r.incarnation, ''), r.reserved_at, coalesce(r.fence, 0),
       coalesce(r.blocked_on, ''), r.granted_at, r.cancel_wanted, r.route
FROM runs r LEFT JOIN nodes n ON n.incarnation = r.incarnation WHERE r.id = $1
"""

LIST_HOLDERS_OF = "SELECT run_id FROM gate_holders WHERE key = $1 ORDER BY run_id"


class Standings(Tables):
    """See `StandingSlice`."""

    async def count_held(self) -> dict[str, Held]:
        rows = await self.show(lambda tx: tx.rows(COUNT_HELD_APART))
        return {incarnation: Held(reserved, running) for incarnation, reserved, running in rows}

    async def count_owned(self, owner: str, *, namespace: str | None = None) -> Owned:
        return Owned(*await self.show(lambda tx: tx.row(COUNT_OWNED, owner, namespace)))

    async def standing(self, run_id: int) -> Standing | None:
        async def work(tx: Transaction) -> Standing | None:
            row = await tx.row(FIND_STANDING, run_id)
            if row is None:
                return None
            expires_at, node, incarnation, reserved_at, fence, gate, granted_at, cancel_wanted, route = row
            holders = tuple(holder for (holder,) in await tx.rows(LIST_HOLDERS_OF, gate)) if gate else ()
            return Standing(
                run_id, expires_at, node, incarnation, reserved_at, fence, gate, holders, granted_at,
                waits_for_leader(route), placed_incarnation(route) or "", cancel_wanted,
            )  # fmt: skip

        return await self.show(work)
