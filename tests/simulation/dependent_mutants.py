"""Mutants of jobs that run after others. See `mutants.py`."""

from __future__ import annotations

from onthedot.stores.memory import MemoryStore
from onthedot.stores.sql.after import Ended, follow
from tests.contract.sql_mutants import Mutant as Edit
from tests.simulation.store_state import repeated

_FOLLOWED = "Ended(one.run_id, one.record.id, verdict.state, at) for one, verdict, _, at in ending"

# The end of a run that needed a second attempt starts no child: its trigger was bound to the first.
RETRIED_PARENT_FORGOTTEN = (Edit("finish.move_runs", _FOLLOWED, f"{_FOLLOWED} if one.attempt < 2"),)

# A job that waits for all parents runs after each.
ALL_IS_ANY = (Edit("after._completes", "if await tx.value(IS_INCOMPLETE, child_id):", "if False:"),)


class FollowedTwice(MemoryStore):
    """A repeated finish starts its children again, at another instant."""

    async def finish(self, finishes, *, now=None):
        again = await repeated(self, finishes)
        answers = await super().finish(finishes, now=now)
        for lease in [finish.lease for finish in again]:
            run = await self.queries.get_run(lease.run_id)
            if run is not None and run.ended_at is not None:
                ended = Ended(run.id, lease.record.id, run.state, self.clock.now())
                await self.database.write(follow, [ended])
        return answers


# Only a finish starts children: if the parent is lost, a child that waits for a failure waits for ever. Verdicts of
# the reaper have no start.
REAPER_FORGETS_DEPENDENTS = (
    Edit("finish.move_runs", _FOLLOWED, f"{_FOLLOWED.replace('verdict, _, at', 'verdict, began, at')} if began"),
)

# A complete set is not cleared: after that, each parent's next run starts the child.
SET_KEPT_WHEN_USED = (Edit("after._completes", "await tx.do(CLEAR_SET, child_id)", "pass"),)
