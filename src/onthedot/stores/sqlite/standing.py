"""How things stand, in SQLite: always on the reading connection."""

from __future__ import annotations

from onthedot.route import placed_incarnation, waits_for_leader
from onthedot.stores.base import Held, Owned, Standing
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.tables import Tables

COUNT_HELD_APART = """
SELECT incarnation, sum(state = 'reserved'), sum(state = 'running')
FROM runs INDEXED BY runs_held WHERE incarnation IS NOT NULL GROUP BY incarnation
"""

COUNT_OWNED = """
SELECT (SELECT count(*) FROM jobs INDEXED BY jobs_owner
        WHERE owner = :owner AND state <> 'deleted' AND namespace = coalesce(:namespace, namespace)),
       (SELECT count(*) FROM jobs j INDEXED BY jobs_owner CROSS JOIN runs r INDEXED BY runs_key ON r.job_id = j.id
        WHERE j.owner = :owner AND j.state <> 'deleted' AND j.namespace = coalesce(:namespace, j.namespace))
"""

FIND_STANDING = """
SELECT r.expires_at, coalesce(n.id, ''), coalesce(r.incarnation, ''), r.reserved_at, coalesce(r.fence, 0),
       coalesce(r.blocked_on, ''), r.granted_at, r.cancel_wanted, r.route
FROM runs r LEFT JOIN nodes n ON n.incarnation = r.incarnation WHERE r.id = ?
"""

LIST_HOLDERS_OF = "SELECT run_id FROM gate_holders WHERE key = ? ORDER BY run_id"


class Standings(Tables):
    """See `StandingSlice`."""

    async def count_held(self) -> dict[str, Held]:
        rows = await self.read(lambda tx: tx.db.execute(COUNT_HELD_APART).fetchall())
        return {incarnation: Held(reserved, running) for incarnation, reserved, running in rows}

    async def count_owned(self, owner: str, *, namespace: str | None = None) -> Owned:
        asked = {"owner": owner, "namespace": namespace}
        return Owned(*await self.read(lambda tx: tx.db.execute(COUNT_OWNED, asked).fetchone()))

    async def standing(self, run_id: int) -> Standing | None:
        def work(tx: Transaction) -> Standing | None:
            row = tx.db.execute(FIND_STANDING, (run_id,)).fetchone()
            if row is None:
                return None
            expires_at, node, incarnation, reserved_at, fence, gate, granted_at, cancel_wanted, route = row
            holders = tuple(holder for (holder,) in tx.db.execute(LIST_HOLDERS_OF, (gate,))) if gate else ()
            return Standing(
                run_id, expires_at, node, incarnation, reserved_at, fence, gate, holders, granted_at,
                waits_for_leader(route), placed_incarnation(route) or "", cancel_wanted,
            )  # fmt: skip

        return await self.read(work)
