"""Forgetting what is old, in dictionaries."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from itertools import islice

from onthedot.clock import Micros
from onthedot.retention import Crowded, Cut, DailyCount, Mark, Pruned, PrunedNodes, day_of
from onthedot.run import RunRecord, RunState, is_slot, schedule_of
from onthedot.window import ScheduleState
from tests.review.dictionaries.tables import RunKey, Skip, Tables


class Retention(Tables):
    """See `Store`."""

    async def prune_runs(
        self, cut: Cut, *, after: Mark | None = None, limit: int = 500, now: Micros | None = None
    ) -> Pruned:
        now = self.read_clock(now)
        start = after or Mark(-(2**63), 0)
        marks = (_mark(run) for run in self.finished.values() if self._is_in(run, cut))
        found = heapq.nsmallest(limit, (mark for mark in marks if start < mark <= cut.until))
        runs = [self.finished[mark.run_id] for mark in found]
        going = [run for run in runs if run.state in cut.states and self._is_settled(run, now)]
        for run in going:
            self._forget(run)
        gone = {run.id for run in going}
        self.submit_keys = {key: known for key, known in self.submit_keys.items() if known[0] not in gone}
        return Pruned(len(going), found[-1] if found else after, more=len(found) == limit)

    def _is_in(self, run: RunRecord, cut: Cut) -> bool:
        return cut.job_id is None or self.finished_keys[run.id].job_id == cut.job_id

    def _is_settled(self, run: RunRecord, now: Micros) -> bool:
        """Whether no planner can come upon the run's slot again."""
        key = self.finished_keys[run.id]
        if not is_slot(key.trigger):
            return True
        schedule = self._schedule_of(key)
        return key.slot_at <= (now if schedule is None else min(now, schedule.watermark))

    def _schedule_of(self, key: RunKey) -> ScheduleState | None:
        return self.schedules.get(key.job_id, {}).get(schedule_of(key.trigger))

    def _forget(self, run: RunRecord) -> None:
        """Remove a run, its attempts, what they left and its key, and count it."""
        key = self.finished_keys.pop(run.id)
        del self.finished[run.id]
        self.attempts.pop(run.id, None)
        self.checkpoints.pop(run.id, None)
        self.notes.pop(run.id, None)
        if self.keys.get(key) == run.id:
            del self.keys[key]
        self.daily_counts[key.job_id, day_of(_mark(run).ended_at), run.state] += 1
        if run.attempts and is_slot(key.trigger) and self._schedule_of(key) is not None:
            schedule = (key.job_id, key.trigger)
            self.hold_edge(schedule, key.slot_at)

    async def find_crowded(self, keep: int, *, after: int = 0, limit: int = 100_000) -> Crowded:
        del limit  # one look at everything is cheap enough here
        of_jobs: dict[int, list[Mark]] = defaultdict(list)
        for run in self.finished.values():
            of_jobs[self.finished_keys[run.id].job_id].append(_mark(run))
        crowded = sorted(job_id for job_id, marks in of_jobs.items() if job_id > after and len(marks) > keep)
        return Crowded([(job_id, sorted(of_jobs[job_id])[-keep - 1]) for job_id in crowded], None)

    async def prune_skips(self, until: Micros, *, limit: int = 500) -> int:
        going = list(islice((skip for skip in self.skips if self._is_old(skip, until)), limit))
        for skip in going:
            self.skips.remove(skip)
            self.daily_counts[skip.job_id, day_of(skip.shown.recorded_at), RunState.SKIPPED] += skip.shown.count
        return len(going)

    def _is_old(self, skip: Skip, until: Micros) -> bool:
        schedule = self.schedules.get(skip.job_id, {}).get(skip.shown.schedule_id)
        settled = schedule is None or skip.shown.last <= schedule.watermark
        return settled and skip.shown.recorded_at <= until

    async def prune_nodes(self, until: Micros, *, limit: int = 500) -> PrunedNodes:
        busy = {run.lease.incarnation for run in self.runs.values() if run.lease}
        old = [name for name, row in self.nodes.items() if row.node.lease_until <= until and name not in busy]
        for incarnation in old[:limit]:
            del self.nodes[incarnation]
        return PrunedNodes(len(old[:limit]), 0)  # past terms are not kept here

    async def list_daily_counts(
        self, *, job: str | None = None, namespace: str = "default", limit: int = 1000
    ) -> list[DailyCount]:
        counts: Counter[tuple[int, str, RunState]] = Counter()
        for (job_id, day, state), count in self.daily_counts.items():
            owner = self.jobs[job_id].job
            if owner.namespace == namespace and job in (None, owner.name):
                counts[-day, owner.name, state] += count
        return [DailyCount(name, -day, state, count) for (day, name, state), count in sorted(counts.items())][:limit]


def _mark(run: RunRecord) -> Mark:
    return Mark(run.ended_at or 0, run.id)
