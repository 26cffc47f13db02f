"""What people ask for, from dictionaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from onthedot.clock import Micros
from onthedot.route import PRIORITIES
from onthedot.run import AttemptRecord, RunRecord, RunState
from tests.review.dictionaries.tables import Run, Tables


class History(Tables):
    """See `Store`."""

    def shown_live(self, run: Run) -> RunRecord:
        """A live run for people."""
        job = self.jobs[run.key.job_id].job
        armed_at = run.lease.armed_at if run.lease and run.lease.armed_at else None
        node, revision = self.last_tried(run)
        return RunRecord(
            run.id, job.name, job.namespace, run.key.trigger, run.key.slot_at, run.due_at, run.state, run.reason,
            run.attempt, run.failures, run.recoveries, run.created_at, armed_at, queue=run.queue,
            priority=PRIORITIES[run.level], target=run.key.target, progress=self.progress_of(run.id), args=run.args,
            owner=job.owner, node=node, revision=revision, job_id=run.key.job_id,
        )  # fmt: skip

    def shown_ended(self, run: RunRecord) -> RunRecord:
        """A finished run for people: its job may have another owner by now."""
        owner = self.jobs[self.finished_keys[run.id].job_id].job.owner
        return run if run.owner == owner else replace(run, owner=owner)

    async def get_run(self, run_id: int) -> RunRecord | None:
        live, ended = self.runs.get(run_id), self.finished.get(run_id)
        if live is not None:
            return self.shown_live(live)
        return None if ended is None else self.shown_ended(ended)

    async def get_runs(self, run_ids: Sequence[int]) -> list[RunRecord]:
        found = [await self.get_run(run_id) for run_id in sorted(set(run_ids))]
        return [run for run in found if run is not None]

    async def runs_of_slots(
        self, job_id: int, trigger: str, *, first: Micros, last: Micros
    ) -> list[tuple[Micros, RunState]]:
        return sorted(
            (key.slot_at, self.runs[run_id].state if run_id in self.runs else self.finished[run_id].state)
            for key, run_id in self.keys.items()
            if (key.job_id, key.trigger) == (job_id, trigger) and first <= key.slot_at <= last
        )

    async def list_attempts(self, run_id: int) -> list[AttemptRecord]:
        return list(self.attempts.get(run_id, ()))

    async def count_runs(self) -> dict[RunState, int]:
        counts = Counter(run.state for run in self.runs.values())
        counts.update(run.state for run in self.finished.values())
        return {state: counts[state] for state in RunState if counts[state]}
