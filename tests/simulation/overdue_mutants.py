"""Mistakes with slots that are overdue together, and with edits that were held up."""

from __future__ import annotations

from onthedot.clock import SECOND
from onthedot.job import overlap_of
from onthedot.run import Busy, RunState, Skipped, is_slot
from onthedot.stores.memory import MemoryStore

PASSED = "passed"


class _Overdue(MemoryStore):
    """What the mutants below have in common: they meddle with the overlap gate of a slot that never began."""

    def pass_gates(self, run, ask, now):
        gate = next((gate for gate in ask.gates if gate.until_end), None)
        if gate is not None and is_slot(run.key.trigger) and not run.attempt:
            answer = self.meddle(run, ask, gate, now)
            if answer is not None:
                return None if answer == PASSED else answer
        return super().pass_gates(run, ask, now)

    def meddle(self, run, ask, gate, now):
        """What becomes of the run, or `PASSED`; None: what should."""

    def is_late(self, run, now):
        return now > run.due_at + 2 * SECOND

    def is_busy(self, gate, run):
        return bool(self.holders[gate.key] - {run.id})

    def skipped(self, run, gate, now):
        holder = min(self.holders[gate.key])
        self.skip(run, "overlap", now)
        return Skipped(gate.key, holder)

    def take(self, run, gate):
        if self.is_busy(gate, run):
            return None
        self.holders[gate.key].add(run.id)
        if gate not in run.gates:
            run.gates.append(gate)
        return PASSED

    def job_of(self, run):
        return self.jobs[run.key.job_id].job


class CatchUpIsAnOverlap(_Overdue):
    """A slot that is caught up is skipped while another one that is executes."""

    def meddle(self, run, ask, gate, now):
        if self.is_late(run, now) and self.is_busy(gate, run):
            return self.skipped(run, gate, now)
        return None


class CaughtUpSlotsAreCounted(_Overdue):
    """Slots that are caught up take the places of `max_waiting`."""

    def meddle(self, run, ask, gate, now):
        overlap = overlap_of(self.job_of(run))
        waiting = [other for other, _ in self.waiters(gate.key) if is_slot(other.key.trigger)]
        due = ask.on_busy is not None and not self.is_late(run, now)
        if due and overlap.mode == "wait" and self.is_busy(gate, run) and len(waiting) >= (overlap.max_waiting or 0):
            return self.skipped(run, gate, now)
        return None


class StalestRuns(_Overdue):
    """Of several overdue slots of a job that skips or replaces, the first one to ask runs."""

    def meddle(self, run, ask, gate, now):
        job = self.job_of(run)
        if overlap_of(job).mode in ("skip", "replace") and job.catch_up.mode != "all" and self.is_late(run, now):
            return self.take(run, gate)
        return None


class NewestFirst(_Overdue):
    """Slots that are caught up take their gate in any order."""

    async def arm(self, leases, *, gates=None, now=None):
        answers = await super().arm(leases[::-1], gates=gates, now=now)
        return answers[::-1]

    def meddle(self, run, ask, gate, now):
        job = self.job_of(run)
        in_order = overlap_of(job).mode == "wait" or job.catch_up.mode == "all"
        return self.take(run, gate) if in_order and self.is_late(run, now) else None


class CaughtUpSlotsAreReplaced(_Overdue):
    """A job that catches up on all replaces them by each other."""

    def meddle(self, run, ask, gate, now):
        job = self.job_of(run)
        if overlap_of(job).mode == "replace" and job.catch_up.mode == "all" and self.is_late(run, now):
            for waiting in [other for other, _ in self.waiters(gate.key) if is_slot(other.key.trigger)]:
                self.skip(waiting, "replaced", now)


class EndedSlotsAreForgotten(_Overdue):
    """A newer slot counts while it is alive: an older one, which asks again after its end, runs."""

    def meddle(self, run, ask, gate, now):
        job = self.job_of(run)
        only_newest = overlap_of(job).mode in ("skip", "replace") and job.catch_up.mode != "all"
        if only_newest and ask.on_busy is not None and self.is_late(run, now):
            newer = self._newer(run, now)
            return Busy(gate.key, newer) if newer else None
        return None

    def _has_passed(self, run, ended):
        return False


class HeirsFirst(_Overdue):
    """An open gate passes to who waits there, also if an older slot is yet to ask, since its node is slow."""

    passing = False

    def meddle(self, run, ask, gate, now):
        if ask.on_busy is not None and self.is_late(run, now) and self.is_busy(gate, run) and self._newer(run, now):
            return Busy(gate.key, min(self.holders[gate.key]))
        return None

    def pass_on(self, key):
        self.passing = True
        try:
            return super().pass_on(key)
        finally:
            self.passing = False

    def first_older(self, run, now):
        return None if self.passing else super().first_older(run, now)


class MissedTooEarly(MemoryStore):
    """What is three seconds late is missed, whatever its catch-up."""

    async def expire(self, **options):
        now = self.read_clock(options.get("now"))
        for run in list(self.runs.values()):
            if run.state is RunState.SCHEDULED and is_slot(run.key.trigger) and run.expires_at is not None:
                run.expires_at = min(run.expires_at, run.due_at + 3 * SECOND, max(now, run.due_at))
        return await super().expire(**options)


class EditByItsCallersClock(MemoryStore):
    """An edit counts from when its windows were computed, however long it waited for its lock."""

    async def put_job(self, job, windows=(), *, expected=None, now=None):
        computed = min((window.start for window in windows), default=None)
        return await super().put_job(job, windows, expected=expected, now=now if computed is None else computed)
