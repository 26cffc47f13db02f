"""Putting right what nobody else will, in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.run import Lease, RunRecord, RunState, is_slot
from onthedot.verdict import Finish, Verdict
from tests.review.dictionaries.tables import Run, Tables


class Upkeep(Tables):
    """See `Store`."""

    async def orphans(self, *, limit: int, now: Micros | None = None) -> list[Lease]:
        now = self.read_clock(now)
        return [run.lease for run in self.runs.values() if self._is_orphan(run, now) and run.lease][:limit]

    def _is_orphan(self, run: Run, now: Micros) -> bool:
        if run.state is not RunState.RUNNING or run.lease is None:
            return False
        row = self.nodes[run.lease.incarnation]
        return row.ended or row.node.lease_until <= now

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], *, now: Micros | None = None) -> list[bool]:
        now = self.read_clock(now)
        for _, verdict in verdicts:
            self.check_move(verdict)
        return [self._reap_one(lease, verdict, now) for lease, verdict in verdicts]

    def _reap_one(self, lease: Lease, verdict: Verdict, now: Micros) -> bool:
        run = self.runs.get(lease.run_id)
        if run is None or run.lease is None or run.lease.lease_id != lease.lease_id or not self._is_orphan(run, now):
            return False
        row = self.nodes[lease.incarnation]
        row.ended = True
        self.end_attempt(run, Finish(run.lease, verdict, 0, now))
        return True

    async def recount_gates(self, *, now: Micros | None = None) -> int:
        now = self.read_clock(now)
        self.rates = {key: tat for key, tat in self.rates.items() if tat.whole >= now}  # the others have been idle
        for key in list(self.holders):
            self.holders[key].intersection_update(self.runs)
        freed = sum(self.pass_on(key) for key in list(self.blocked))
        for key in list(self.blocked):
            self.take_back(key, now, wanted=False)
        return freed

    async def expire(self, *, limit: int, now: Micros | None = None) -> list[RunRecord]:
        now = self.read_clock(now)
        missed = [run for run in self.runs.values() if self._is_missed(run, now)][:limit]
        for run in missed:
            run.reason = self._why_missed(run, now)
            self.end_run(run, RunState.SKIPPED, now)
        return [self.finished[run.id] for run in missed]

    def _why_missed(self, run: Run, now: Micros) -> str:
        if not is_slot(run.key.trigger):
            return "expired"
        target = run.key.target
        living = [row.node.id for row in self.nodes.values() if not row.ended and row.node.lease_until > now]
        return "missed" if not target or target in living else "node_gone"

    def _is_missed(self, run: Run, now: Micros) -> bool:
        if run.expires_at is None or run.expires_at > now:
            return False
        return run.state is RunState.SCHEDULED or (run.state is RunState.RESERVED and run.ready_at <= now)
