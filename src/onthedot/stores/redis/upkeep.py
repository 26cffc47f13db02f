"""Putting right what nobody else will, and forgetting what is old, in Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.retention import Crowded, Cut, DailyCount, Mark, Pruned, PrunedNodes
from onthedot.run import Lease, RunRecord, RunState
from onthedot.stores.redis.rows import check_move, read_run, verdict_asked
from onthedot.stores.redis.runs import Runs
from onthedot.stores.redis.sweeps import STEP
from onthedot.verdict import Verdict


class Upkeep(Runs):
    """See `Store`."""

    async def orphans(self, *, limit: int, now: Micros | None = None) -> list[Lease]:
        found: dict[str, Lease] = {}  # a set that grows while it is read may show a run twice
        far: tuple[int, str] | None = (0, "0")
        while far is not None and len(found) < limit:
            after, cursor = far
            said, far = await self.look("orphans", now=now, after=after, cursor=cursor, rows=STEP)
            found.update((lease.lease_id, lease) for lease in await self.leases(said))
        return list(found.values())[:limit]

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], *, now: Micros | None = None) -> list[bool]:
        for _, verdict in verdicts:
            check_move(verdict)
        said: list[bool] = []
        for first in range(0, len(verdicts), STEP):  # row by row: a batch may be taken apart
            some = [verdict_asked(lease, verdict) for lease, verdict in verdicts[first : first + STEP]]
            said += [bool(accepted) for accepted in await self.ask("reap", now=now, verdicts=some)]
        return said

    async def recount_gates(self, *, now: Micros | None = None) -> int:
        await self.sweep_after_others(now)
        await self.trim_history(now=now)
        freed: int = 0
        cursor = "0"
        while True:
            some, cursor = await self.ask("recount_gates", now=now, cursor=cursor, rows=STEP)
            freed += int(some)
            if cursor == "0":
                return freed

    async def expire(self, *, limit: int, now: Micros | None = None) -> list[RunRecord]:
        return [read_run(row) for row in await self.ask("expire", now=now, limit=limit)]

    # ── forgetting ───────────────────────────────────────────────────────────────────────────────────────────

    async def prune_runs(
        self, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Micros | None = None
    ) -> Pruned:
        runs, passed, more = await self.ask(
            "prune_runs",
            now=now,
            states=sorted(cut.states),
            until_=list(cut.until),
            after=None if after is None else list(after),
            job_id=cut.job_id,
            limit=min(limit, STEP),
        )
        return Pruned(runs, None if passed is None else Mark(*passed), more=bool(more))

    async def trim_history(self, *, now: Micros | None = None) -> int:
        """Forget the oldest finished runs beyond as many as are kept; how many went."""
        count = 0
        while True:
            gone: int = await self.ask("trim_history", now=now, most=self.most_finished, rows=STEP)
            count += gone
            if gone < STEP:
                return count

    async def find_crowded(self, keep: int, *, after: int = 0, limit: int = 100_000) -> Crowded:
        rows, passed = await self.look("find_crowded", keep=keep, after=after, limit=limit)
        return Crowded([(job_id, Mark(ended_at, run_id)) for job_id, ended_at, run_id in rows], passed)

    async def prune_skips(self, until: Micros, *, limit: int = 500) -> int:
        count = 0
        while count < limit:
            some = min(STEP, limit - count)
            gone = await self.ask("prune_skips", until_=until, limit=some)
            count += gone
            if gone < some:
                break
        return count

    async def prune_nodes(self, until: Micros, *, limit: int = 500) -> PrunedNodes:
        return PrunedNodes(await self.ask("prune_nodes", until_=until, limit=limit), 0)  # past terms are not kept

    async def list_daily_counts(
        self, *, job: str | None = None, namespace: str = "default", limit: int = 1000
    ) -> list[DailyCount]:
        counts: Counter[tuple[int, str, RunState]] = Counter()
        for name, day, state, count in await self.look("list_daily_counts", job=job, namespace=namespace):
            counts[-day, name, RunState(state)] += count
        return [DailyCount(name, -day, state, count) for (day, name, state), count in sorted(counts.items())][:limit]
