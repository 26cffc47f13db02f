"""How things stand, in dictionaries."""

from __future__ import annotations

from collections import Counter

from onthedot.job import JobState
from onthedot.route import placed_incarnation, waits_for_leader
from onthedot.run import RunState
from onthedot.stores.values import Held, Owned, Standing
from tests.review.dictionaries.tables import Tables


class Standings(Tables):
    """See `Store`."""

    async def count_held(self) -> dict[str, Held]:
        counts = Counter((run.lease.incarnation, run.state) for run in self.runs.values() if run.lease)
        return {
            incarnation: Held(counts[incarnation, RunState.RESERVED], counts[incarnation, RunState.RUNNING])
            for incarnation, _ in counts
        }

    async def count_owned(self, owner: str, *, namespace: str | None = None) -> Owned:
        jobs = [
            one.id
            for one in self.jobs.values()
            if one.job.owner == owner and one.state is not JobState.DELETED and namespace in (None, one.job.namespace)
        ]
        return Owned(len(jobs), sum(len(self.of_job.get(job_id, ())) for job_id in jobs))

    async def standing(self, run_id: int) -> Standing | None:
        run = self.runs.get(run_id)
        if run is None:
            return None
        lease, gate = run.lease, run.blocked_on
        return Standing(
            run_id,
            expires_at=run.expires_at,
            node=self.nodes[lease.incarnation].node.id if lease else "",
            incarnation=lease.incarnation if lease else "",
            reserved_at=lease.reserved_at if lease else None,
            fence=lease.fence if lease else 0,
            gate=gate.key if gate else "",
            holders=tuple(sorted(self.holders.get(gate.key, ()))) if gate else (),
            granted_at=run.granted_at,
            for_leader=waits_for_leader(run.route),
            place=placed_incarnation(run.route) or "",
            cancel_wanted=run.cancel_wanted,
        )
