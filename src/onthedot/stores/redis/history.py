"""What people ask for, from Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.route import placed_incarnation, waits_for_leader
from onthedot.run import AttemptRecord, RunRecord, RunState
from onthedot.stores.redis.queues import Queues
from onthedot.stores.redis.rows import read_run
from onthedot.stores.values import Owned, Standing

_ROWS = 1000  # jobs that one script looks at


class History(Queues):
    """See `Store`."""

    async def get_run(self, run_id: int) -> RunRecord | None:
        found = await self.get_runs([run_id])
        return found[0] if found else None

    async def get_runs(self, run_ids: Sequence[int]) -> list[RunRecord]:
        return [read_run(row) for row in await self.look("get_runs", run_ids=sorted(set(run_ids)))]

    async def runs_of_slots(
        self, job_id: int, trigger: str, *, first: Micros, last: Micros
    ) -> list[tuple[Micros, RunState]]:
        found = await self.look("runs_of_slots", job_id=job_id, trigger=trigger, first=first, last=last)
        return sorted((slot_at, RunState(state)) for slot_at, state in found)

    async def list_attempts(self, run_id: int) -> list[AttemptRecord]:
        return [AttemptRecord(run_id, *row) for row in await self.look("list_attempts", run_id=run_id)]

    async def count_runs(self) -> dict[RunState, int]:
        counts = Counter(RunState(run.state) for run in await self.live())
        ended = await self.look("count_ended")
        for state, count in zip(ended[::2], ended[1::2], strict=True):
            counts[RunState(state)] += count
        return {state: counts[state] for state in RunState if counts[state]}

    async def count_owned(self, owner: str, *, namespace: str | None = None) -> Owned:
        jobs = runs = 0
        after: str | None = ""
        while after is not None:
            some, live, after = await self.look(
                "count_owned", owner=owner, namespace=namespace, after=after, rows=_ROWS
            )
            jobs, runs = jobs + some, runs + live
        return Owned(jobs, runs)

    async def standing(self, run_id: int) -> Standing | None:
        found = await self.look("standing", run_id=run_id)
        if found is None:
            return None
        expires, node, incarnation, reserved, fence, gate, holders, granted, route, cancel = found
        return Standing(
            run_id, expires, node, incarnation, reserved, fence, gate, tuple(holders), granted,
            waits_for_leader(route), placed_incarnation(route) or "", cancel,
        )  # fmt: skip
