"""What happened in a simulation, counted as it happens: per job, per hour, and at each instant how much at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from onthedot.clock import SECOND, Micros
from onthedot.model.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    LeaseLost,
    RunBlocked,
    RunDelayed,
    RunMissed,
    RunRecovered,
    RunSkipped,
    SlotsSkipped,
)
from onthedot.model.run import Lease, is_slot
from onthedot.model.verdict import Finish, OutcomeKind
from onthedot.simulate.question import Question

HOUR: Micros = 3_600 * SECOND
WAITED: Micros = 1 * SECOND
"""A start that is later than this has waited for something."""


@dataclass
class JobTally:
    """What became of one job."""

    runs: int = 0  # that began
    retries: int = 0  # attempts beyond the first
    caught_up: int = 0  # runs of slots during an outage
    skipped: Counter[str] = field(default_factory=Counter)  # slots, by reason
    waited: Counter[str] = field(default_factory=Counter)  # runs, by what they waited for
    overlaps: int = 0  # runs that were due while an earlier one had not ended
    timed_out: int = 0
    replaced: int = 0
    lost: int = 0  # attempts that ended with their node
    busy: Micros = 0
    latest: Micros = 0  # how late the latest start was, outages aside
    latest_slot: Micros | None = None
    latest_caught_up: Micros = 0


class Tally:
    """Listens to the engine. `where` gives the hour that an instant lies in, for the load."""

    def __init__(self, question: Question, where: Callable[[Micros], tuple[int, int]]) -> None:
        self._question = question
        self._where = where
        self.jobs: dict[str, JobTally] = {name: JobTally() for name in question.jobs}
        self.load: Counter[tuple[int, int]] = Counter()  # starts by (day, hour of the day)
        self.herds: defaultdict[Micros, set[str]] = defaultdict(set)  # jobs by the second in which they were due
        self.peak = 0
        self.peak_at: Micros | None = None
        self._running: dict[str, Lease] = {}
        self._waits: dict[int, str] = {}  # by run: what it waits for

    def heed(self, event: Event) -> None:
        """Count one event."""
        match event:
            case AttemptStarted(lease, started_at):
                self._started(lease, started_at)
            case AttemptEnded(finish) | LeaseLost(finish):
                self._ended(finish)
            case RunBlocked(lease, gate, _):
                self._blocked(lease, gate)
            case RunDelayed(lease, _, _):
                self._waits[lease.run_id] = "rate"
            case RunSkipped(lease, _, _, reason):
                self._skip(lease.record.job.name, reason)
                self.jobs[lease.record.job.name].overlaps += reason == "overlap"
            case RunMissed(run):
                self._skip(run.job, run.reason)
            case SlotsSkipped(job, _, slots, _, _, reason):
                self._skip(job, reason, slots)
            case RunRecovered(lease, _):
                self.jobs[lease.record.job.name].lost += 1
            case _:
                pass

    def node_died(self) -> None:
        """Whatever ran does not run any more."""
        self._running.clear()

    def _started(self, lease: Lease, started_at: Micros) -> None:
        job = self.jobs[lease.record.job.name]
        self._running[lease.lease_id] = lease
        if len(self._running) > self.peak:
            self.peak, self.peak_at = len(self._running), started_at
        self.load[self._where(started_at)] += 1
        waited_for = self._waits.pop(lease.run_id, "seat")
        if lease.attempt > 1:
            job.retries += 1
            return
        job.runs += 1
        late = started_at - lease.due_at
        if is_slot(lease.trigger):
            self.herds[lease.due_at - lease.due_at % SECOND].add(lease.record.job.name)
            late = max(late, started_at - lease.slot_at) if waited_for == "rate" else late
        if self._question.is_out(lease.due_at):
            job.caught_up += 1
            job.latest_caught_up = max(job.latest_caught_up, late)
            return
        if late > WAITED:
            job.waited[waited_for] += 1
        if late > job.latest:
            job.latest, job.latest_slot = late, lease.slot_at

    def _ended(self, finish: Finish) -> None:
        self._running.pop(finish.lease.lease_id, None)
        job = self.jobs[finish.lease.record.job.name]
        job.busy += max(0, finish.ended_at - finish.started_at) if finish.started_at else 0
        if finish.verdict.outcome is OutcomeKind.TIMED_OUT:
            job.timed_out += 1
        elif finish.verdict.outcome is OutcomeKind.CANCELLED:
            job.replaced += 1

    def _blocked(self, lease: Lease, gate: str) -> None:
        overlaps = gate.startswith(("overlap:", "running:"))
        self._waits[lease.run_id] = "overlap" if overlaps else "limit"
        self.jobs[lease.record.job.name].overlaps += overlaps

    def _skip(self, job: str, reason: str, slots: int = 1) -> None:
        self.jobs[job].skipped[reason] += slots
