"""The store protocol's slice for forgetting; a part of `stores.base`, whose rules hold here as well."""

from __future__ import annotations

from typing import Protocol

from onthedot.clock import Micros
from onthedot.retention import Crowded, Cut, DailyCount, Mark, Pruned, PrunedNodes


class RetentionSlice(Protocol):
    """Forgetting what is old. Two who prune at once do no harm: a row goes, and is counted, in one write."""

    async def prune_runs(
        self, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Micros | None = None
    ) -> Pruned:
        """Remove finished runs, with their attempts, and count each by job, UTC day of its end, and state, in the
        same write.

        Looks at the finished runs behind `after` up to the cut, in the order in which they ended, and at no more than
        `limit` of them. Those in the cut's states go; but a slot's run only if its slot lies in the past and at or
        below its schedule's watermark (or the schedule is gone): no planner will come upon it again. What is live is
        never touched.

        With a run goes all that is known of it: its keys (submitted again, they give a new run) and which leases its
        attempts were made under (a `finish` that is repeated is refused). W of `put_job` stays what it was.
        """
        ...

    async def find_crowded(self, keep: int, *, after: int = 0, limit: int = 100_000) -> Crowded:
        """Jobs with more than `keep` finished runs, by id from `after` on, with the newest run beyond those. Looks no
        further when it has counted `limit` runs."""
        ...

    async def prune_skips(self, until: Micros, *, limit: int = 500) -> int:
        """Remove ranges of skipped slots that were recorded by then, oldest first, unless they reach beyond their
        schedule's watermark. In the same write their slots are counted as skipped, on the day of the record."""
        ...

    async def prune_nodes(self, until: Micros, *, limit: int = 500) -> PrunedNodes:
        """Remove incarnations whose lease had ended by then and who hold no live run; `beat` then says `NodeExpired`.
        And what is kept of terms that began by then, except each shard's newest: their numbers go on growing."""
        ...

    async def list_daily_counts(
        self, *, job: str | None = None, namespace: str = "default", limit: int = 1000
    ) -> list[DailyCount]:
        """What was pruned, newest day first, then by job and state. Together with the runs and ranges that are still
        there, it is all that ever was."""
        ...
