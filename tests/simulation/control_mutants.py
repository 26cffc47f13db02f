"""Gates and control with one thing left out. See `mutants.py`."""

from __future__ import annotations

from dataclasses import replace

from onthedot.job import JobState
from onthedot.run import RunState, Skipped, slot_trigger
from onthedot.stores.base import CancelAnswer, Due
from onthedot.stores.memory import MemoryStore


class GateFreedTwice(MemoryStore):
    """A finish that comes again opens its gates again, which another run holds by now."""

    def __init__(self, clock=None):
        super().__init__(clock)
        self.once_held = {}

    def end_attempt(self, run, finish):
        self.once_held[finish.lease.lease_id] = list(run.gates)
        super().end_attempt(run, finish)

    def _finish_one(self, finish):
        again = any(a.lease_id == finish.lease.lease_id for a in self.attempts.get(finish.lease.run_id, ()))
        for gate in self.once_held.pop(finish.lease.lease_id, ()) if again else ():
            self.holders[gate.key].clear()
            self.pass_on(gate.key)
        return super()._finish_one(finish)


class GateKeptOnReap(MemoryStore):
    """The reaper takes the run, and leaves its gates closed (dkron#349, oban#862)."""

    reaping = False

    def _reap_one(self, lease, verdict, now):
        self.reaping = True
        try:
            return super()._reap_one(lease, verdict, now)
        finally:
            self.reaping = False

    def open_gates(self, gates, run):
        if not self.reaping:
            super().open_gates(gates, run)


class TwoLetThrough(MemoryStore):
    """A gate that opens passes to everybody who waits, not to as many as there is room for."""

    def open_gates(self, gates, run):
        super().open_gates(gates, run)
        for gate in gates:
            holders = set(self.holders[gate.key])
            while self.waiters(gate.key):
                self.holders[gate.key].clear()
                self.pass_on(gate.key)
                holders |= self.holders[gate.key]
            if holders:
                self.holders[gate.key] = holders


class SkipsAtAnOpenGate(MemoryStore):
    """A slot is skipped because the gate was held when somebody looked last, not because it is (dkron#1569)."""

    def pass_gates(self, run, ask, now):
        if ask.on_busy is not None and ask.on_busy.action == "skip" and not self.holders[ask.gates[0].key]:
            self.skip(run, "overlap", now)
            return Skipped(ask.gates[0].key, run.id - 1)
        return super().pass_gates(run, ask, now)


class ReplacesWhatWasAskedFor(MemoryStore):
    """A slot that replaces ends whoever holds the gate, also what somebody has submitted."""

    def _clear_the_way(self, run, gate, answer, now):
        super()._clear_the_way(run, gate, answer, now)
        for holder in [self.runs[run_id] for run_id in self.holders[gate.key]] if answer.action == "replace" else ():
            if holder.state is RunState.RUNNING:
                holder.cancel_wanted = "replaced"
            else:
                holder.reason = "replaced"
                self.end_run(holder, RunState.CANCELLED, now)


class PlannerIgnoresPauses(MemoryStore):
    """A pause stops the workers, and lets the planner go on."""

    async def due_schedules(self, *, until, limit, shard=0, layout=None):
        states = [state for job in self.schedules.values() for state in job.values()]
        due = [state for state in states if state.next_at is not None and state.next_at <= until]
        return Due([replace(state) for state in due], more=False)

    def _plan_one(self, seen, window, now):
        record = self.jobs[seen.record.id]
        if record.state is JobState.PAUSED:
            self.jobs[record.id] = replace(record, state=JobState.ACTIVE)
        written = super()._plan_one(seen, window, now)
        self.jobs[record.id] = record
        return written


class PausedRunsAreArmed(MemoryStore):
    """A pause leaves alone what is reserved, and `arm` does not ask whether the job is paused."""

    def _withdraw(self, job_id, name, edge):
        going = [run for run in self.runs_of(job_id, slot_trigger(name)) if not run.attempt and run.key.slot_at > edge]
        for run in [run for run in going if run.state is not RunState.RESERVED]:
            self.withdraw(run)
        return len(going)

    def _hold_back(self, run):
        if run.state is not RunState.RESERVED:
            super()._hold_back(run)

    def _arm_one(self, lease, gates, now):
        record = self.jobs[lease.record.id]
        if record.state is JobState.PAUSED:
            self.jobs[record.id] = replace(record, state=JobState.ACTIVE)
        answer = super()._arm_one(lease, gates, now)
        self.jobs[record.id] = record
        return answer

    def skip(self, run, reason, now, *, error=None):
        if reason != "paused" or run.state is not RunState.RESERVED:
            super().skip(run, reason, now, error=error)


class CancelForgotten(MemoryStore):
    """Whoever cancels a running run is told that it was asked to stop, and nobody tells the attempt."""

    def _cancel_one(self, run_id, why, now):
        run = self.runs.get(run_id)
        if run is not None and run.state is RunState.RUNNING:
            return CancelAnswer("asked", run.state)
        return super()._cancel_one(run_id, why, now)


class CancelLostOnReap(MemoryStore):
    """A run that was asked to stop, and lost its node before it could, begins anew."""

    def _reap_one(self, lease, verdict, now):
        run = self.runs.get(lease.run_id)
        if run is not None:
            run.cancel_wanted = None
        return super()._reap_one(lease, verdict, now)


class ResumePlansTwice(MemoryStore):
    """A resume plans its slots, and leaves the watermark where the pause had put it."""

    async def resume(self, job_id, windows=(), *, expected=None, overdue=False, dry_run=False, now=None):
        marks = {name: (state.watermark, state.next_at) for name, state in self.schedules[job_id].items()}
        resumed = await super().resume(job_id, windows, expected=expected, overdue=overdue, dry_run=dry_run, now=now)
        for window in windows if not dry_run else ():
            state = self.schedules[job_id][window.schedule_id]
            state.watermark, _ = marks[window.schedule_id]
            self.expect(state, window.slots[0].slot_at if window.slots else state.next_at)
        return resumed


class KeyForgotten(MemoryStore):
    """A key is known as long as its run is live (bullmq removes its jobs, and with them their ids)."""

    def end_run(self, run, state, ended_at, *, finish=None, error=None):
        super().end_run(run, state, ended_at, finish=finish, error=error)
        self.submit_keys = {key: known for key, known in self.submit_keys.items() if known[0] != run.id}


class PruneCountsNothing(MemoryStore):
    """What is pruned is gone without a trace."""

    def _forget(self, run):
        before = self.daily_counts.copy()
        super()._forget(run)
        self.daily_counts = before


class PrunesTooEarly(MemoryStore):
    """The pruner takes whatever has ended, however short ago."""

    async def prune_runs(self, cut, *, after=None, limit=500, now=None):
        late = cut.until._replace(ended_at=cut.until.ended_at + 60_000_000)
        return await super().prune_runs(cut._replace(until=late), after=after, limit=limit, now=now)
