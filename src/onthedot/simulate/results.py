"""The results of a simulation: counts for each job and hour, and warnings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from onthedot.clock import SECOND, Micros
from onthedot.model.duration import micros
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
from onthedot.model.job import Job, overlap_of
from onthedot.model.run import Lease, is_slot
from onthedot.model.verdict import Finish, OutcomeKind
from onthedot.observe.formats import count, length
from onthedot.simulate.scenario import Scenario

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

    def __init__(self, scenario: Scenario, where: Callable[[Micros], tuple[int, int]]) -> None:
        self._scenario = scenario
        self._where = where
        self.jobs: dict[str, JobTally] = {name: JobTally() for name in scenario.jobs}
        self.load: Counter[tuple[int, int]] = Counter()  # starts by (day, hour of the day)
        self.herds: defaultdict[Micros, set[str]] = defaultdict(set)  # jobs by the second in which they were due
        self.peak = 0
        self.peak_at: Micros | None = None
        self._running: dict[str, Lease] = {}
        self._waits: dict[int, str] = {}  # by run: what it waits for

    def take(self, event: Event) -> None:
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
        """Count the running attempts as ended: their node died."""
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
        if self._scenario.is_out(lease.due_at):
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


HERD = 5
"""So many jobs in one second are a herd, if they are a quarter of all as well."""


class Warning(NamedTuple):
    """A problem, the jobs that have it, and what to do about it."""

    kind: str
    jobs: tuple[str, ...]
    text: str
    advice: str


def warnings(scenario: Scenario, tally: Tally) -> list[Warning]:
    """Return all warnings, the most important first."""
    return [
        *_herd(scenario, tally), *_seats(scenario, tally), *_timeouts(scenario), *_overlaps(scenario, tally),
        *_missed(tally), *_idle(scenario, tally),
    ]  # fmt: skip


def _herd(scenario: Scenario, tally: Tally) -> list[Warning]:
    """Warn of many jobs that often start in the same second."""
    scheduled = [job for job in scenario.jobs.values() if job.schedules]
    least = max(HERD, -(-len(scheduled) // 4))
    herds = [(at, jobs) for at, jobs in tally.herds.items() if len(jobs) >= least]
    if not herds:
        return []
    at, jobs = max(herds, key=lambda herd: (len(herd[1]), -herd[0]))
    members = Counter(name for _, names in herds for name in names)
    text = f"{len(jobs)} of {count(len(scheduled), 'job')} start in one second, {_often(len(herds))}{_minute(at)}"
    advice = "spread them: write H for the minute in cron ('H * * * *'), or give their schedules jitter='5m'"
    return [Warning("herd", tuple(name for name, _ in members.most_common()), text, advice)]


def _often(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _minute(at: Micros) -> str:
    minute = at // 60_000_000 % 60
    return f", such as at minute :{minute:02}"


def _seats(scenario: Scenario, tally: Tally) -> list[Warning]:
    """Warn of runs that waited because every seat was taken."""
    waited = {name: job.waited["seat"] for name, job in tally.jobs.items() if job.waited["seat"]}
    if not waited:
        return []
    seats = scenario.settings.seats
    text = f"{count(sum(waited.values()), 'run')} waited for one of {count(seats, 'seat')}"
    names = tuple(sorted(waited, key=lambda name: -waited[name]))
    return [Warning("seats", names, text, "give a node more seats, or start another node")]


def _timeouts(scenario: Scenario) -> list[Warning]:
    """Warn of jobs that take longer than their time-out."""
    found = []
    for job in scenario.jobs.values():
        takes = scenario.duration(job)
        if _is_too_long(scenario, job) and job.timeout is not None:
            text = f"{job.name} takes {length(takes)}, and its time-out is {length(micros(job.timeout))}"
            found.append(Warning("timeout", (job.name,), f"{text}: no attempt ends well", "raise its timeout="))
    return found


def _is_too_long(scenario: Scenario, job: Job) -> bool:
    return job.timeout is not None and scenario.duration(job) > micros(job.timeout)


def _overlaps(scenario: Scenario, tally: Tally) -> list[Warning]:
    """Warn of jobs whose runs overlapped with earlier runs of the same job. Runs that are caught up may overlap, and do
    not count.
    """
    found = []
    for job in scenario.jobs.values():
        figures = tally.jobs[job.name]
        if figures.overlaps > figures.caught_up and not _is_too_long(scenario, job):
            met = f"{count(figures.overlaps, 'run')} met an earlier one that had not ended; {_then(job, figures)}"
            text = f"{job.name} takes {length(scenario.duration(job))}: {met}"
            advice = "run it less often, make it shorter, or choose another overlap="
            found.append(Warning("overlap", (job.name,), text, advice))
    return found


def _then(job: Job, figures: JobTally) -> str:
    skipped, waited = figures.skipped["overlap"], figures.waited["overlap"]
    match overlap_of(job).mode:
        case "wait":
            return f"{waited} waited, {skipped} were skipped"
        case "skip":
            return f"{skipped} were skipped"
        case "replace":
            return f"{figures.replaced} earlier ones were stopped for them"
        case "allow":
            return f"{waited} waited for a place"


def _missed(tally: Tally) -> list[Warning]:
    """Warn of slots that were missed in outages."""
    missed = {name: job.skipped["missed"] for name, job in tally.jobs.items() if job.skipped["missed"]}
    if not missed:
        return []
    text = f"{count(sum(missed.values()), 'slot')} of {_names(missed)} came too late to run, after outages"
    return [Warning("missed", tuple(missed), text, "catch_up='all' runs them afterwards, within its limit and window")]


def _idle(scenario: Scenario, tally: Tally) -> list[Warning]:
    """Warn of jobs with schedules that had no start."""
    idle = [job.name for job in scenario.jobs.values() if job.schedules and not _was_seen(tally.jobs[job.name])]
    if not idle:
        return []
    advice = "simulate more days, or see what their schedules mean with 'onthedot next EXPR'"
    return [Warning("idle", tuple(idle), f"no slot in this time: {_names(idle)}", advice)]


def _was_seen(figures: JobTally) -> bool:
    return bool(figures.runs or figures.skipped.total())


def _names(names: Iterable[str], most: int = 5) -> str:
    """
    >>> _names(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more
