"""Which instants come next, told from the definitions: what a live view can know without asking the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heappop, heappush, nsmallest
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.duration import micros
from onthedot.model.job import FixedDelay, Job, JobRecord, JobState, Schedule
from onthedot.model.run import RunState, is_slot
from onthedot.model.verdict import Finish
from onthedot.schedules import due_of, next_after

_MOST_AT_ONCE = 100
"""How many schedules one look computes anew: the rest are brought up to date by the next looks."""
_MOST_RETRIES = 1_000


class NextStart(NamedTuple):
    """A run to come."""

    at: Micros
    job: str
    note: str = ""  # what it is, if it is no slot


@dataclass(order=True)
class _Line:
    """The next slot of one schedule, in a heap."""

    at: Micros
    slot: Micros = field(compare=False)
    job: Job = field(compare=False)
    schedule: Schedule = field(compare=False)


class NextStarts:
    """The next slot of every schedule of the jobs that are active, and the retries that this node has decided.

    A slot that was moved or left out by hand is shown all the same: only the store knows of that.
    """

    def __init__(self, jobs: Iterable[Job], now: Micros) -> None:
        self._origin = now
        self._heap: list[_Line] = []
        self._ends: dict[tuple[str, str], Micros] = {}  # when a run of the job ended last
        self._silent: set[tuple[str, str]] = set()  # jobs that are not active
        self._retries: dict[int, NextStart] = {}
        self._jobs: dict[tuple[str, str], Job] = {}
        for job in jobs:
            self._add(job, now)

    def _add(self, job: Job, now: Micros) -> None:
        self._jobs[_key(job)] = job
        for schedule in job.schedules:
            self._push(job, schedule, now)

    def _push(self, job: Job, schedule: Schedule, after: Micros) -> None:
        slot = next_after(schedule, after, origin=self._origin, last_end=self._ends.get(_key(job)))
        if slot is not None:
            heappush(self._heap, _Line(due_of(job, schedule)(slot), slot, job, schedule))

    def learn(self, records: Iterable[JobRecord], now: Micros, *, complete: bool) -> None:
        """What is stored: jobs may be paused, edited or new; and, if the records are complete, deleted."""
        found = {_key(record.job): record for record in records}
        self._silent = {key for key, record in found.items() if record.state is not JobState.ACTIVE}
        if complete:
            self._silent |= self._jobs.keys() - found.keys()
        for key, record in found.items():
            if self._jobs.get(key) != record.job:
                self._heap = [line for line in self._heap if _key(line.job) != key]
                self._heap.sort()
                self._add(record.job, now)

    def ended(self, finish: Finish) -> None:
        """An attempt has ended: a retry may follow, or the next slot of a fixed delay."""
        lease, verdict = finish.lease, finish.verdict
        job = lease.record.job
        if verdict.state is RunState.SCHEDULED:
            note = f"run {lease.run_id} again"
            if verdict.failed:
                note = f"{note}, try {lease.failures + 2} of {job.retry.attempts}"
            if len(self._retries) < _MOST_RETRIES:
                self._retries[lease.run_id] = NextStart(verdict.due_at, job.name, note)
            return
        if is_slot(lease.trigger) and any(isinstance(rule, FixedDelay) for rule in job.schedules):
            self._ends[_key(job)] = finish.ended_at
            self._heap = [line for line in self._heap if line.job != job]
            self._heap.sort()
            self._add(job, finish.ended_at)

    def started(self, run_id: int) -> None:
        """A retry has begun."""
        self._retries.pop(run_id, None)

    def next(self, most: int, now: Micros) -> list[NextStart]:
        """The first ones after now."""
        for _ in range(_MOST_AT_ONCE):
            if not self._heap or self._heap[0].at > now:
                break
            line = heappop(self._heap)
            if not isinstance(line.schedule, FixedDelay):  # that one goes on when its run has ended
                self._push(line.job, line.schedule, max(line.slot, now - micros(line.schedule.jitter or timedelta())))
        self._retries = {run_id: retry for run_id, retry in self._retries.items() if retry.at > now}
        lines = nsmallest(most + len(self._silent), self._heap)
        coming = [_slot(line) for line in lines if _key(line.job) not in self._silent and line.at > now]
        return sorted([*coming, *self._retries.values()])[:most]


def _slot(line: _Line) -> NextStart:
    return NextStart(line.at, line.job.name)


def _key(job: Job) -> tuple[str, str]:
    return job.namespace, job.name
