"""Counters: what this node has done since they were subscribed, by job. Events feed them; they are read as plain data.

    sched.subscribe(counters)      # before the scheduler starts
    counters.snapshot()            # whenever an exporter, a page or a person wants to know

Each node counts its own attempts and the skips that it records. Every other node has its own counters.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from onthedot.clock import MILLISECOND, Micros
from onthedot.model.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    JobPut,
    LeaseLost,
    RunMissed,
    RunRecovered,
    RunSkipped,
    SlotsSkipped,
)
from onthedot.model.run import Lease, RunState
from onthedot.model.verdict import Verdict

MOST_JOBS = 10_000
"""How many jobs are counted apart. Later ones are counted together, as the job `…`."""

OTHERS = ("", "…")


class Histogram:
    """A histogram of lengths of time, in classes of an eighth of a power of two.

    A quantile is therefore at most an eighth too large. The single lengths are not stored.

    >>> histogram = Histogram()
    >>> for micros in range(1, 1_001):
    ...     histogram.add(micros)
    >>> histogram.quantile(0.5), histogram.quantile(0.99), histogram.largest
    (511, 1000, 1000)
    """

    __slots__ = ("_classes", "count", "largest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total: Micros = 0
        self.largest: Micros = 0
        self._classes: Counter[int] = Counter()

    def add(self, length: Micros) -> None:
        """Add a length; a negative one counts as zero."""
        length = max(0, length)
        self.count += 1
        self.total += length
        self.largest = max(self.largest, length)
        self._classes[_class_of(length)] += 1

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        self.count += other.count
        self.total += other.total
        self.largest = max(self.largest, other.largest)
        self._classes += other._classes

    def up_to(self) -> Iterator[tuple[Micros, int]]:
        """Return a pair for each class that is not empty: a length, and how many lengths do not exceed it."""
        so_far = 0
        for number in sorted(self._classes):
            so_far += self._classes[number]
            yield _end_of(number), so_far

    def counts(self, bounds: Iterable[Micros]) -> list[int]:
        """Return how many lengths do not exceed each of these ascending bounds. The number is exact if the bound is a
        power of two minus one.

        >>> histogram = Histogram()
        >>> for micros in range(1, 1_001):
        ...     histogram.add(micros)
        >>> histogram.counts([0, 511, 1023])
        [0, 511, 1000]
        """
        found, so_far, classes = [], 0, deque(self.up_to())
        for bound in bounds:
            while classes and classes[0][0] <= bound:
                so_far = classes.popleft()[1]
            found.append(so_far)
        return found

    def quantile(self, part: float) -> Micros | None:
        """Return the length that this fraction of all lengths does not exceed; None if the histogram is empty."""
        for length, so_far in self.up_to():
            if so_far >= part * self.count:
                return min(length, self.largest)
        return None

    def as_data(self) -> dict[str, Any]:
        """Return the histogram as plain data, in milliseconds."""
        quantiles = {name: self.quantile(part) for name, part in (("p50_ms", 0.5), ("p99_ms", 0.99))}
        return {
            "count": self.count,
            "sum_ms": self.total / MILLISECOND,
            "max_ms": self.largest / MILLISECOND,
            **{name: None if value is None else value / MILLISECOND for name, value in quantiles.items()},
            "up_to_ms": [[length / MILLISECOND, so_far] for length, so_far in self.up_to()],
        }


def _class_of(length: Micros) -> int:
    shift = max(0, length.bit_length() - 4)
    return 8 * shift + (length >> shift)


def _end_of(number: int) -> Micros:
    """The largest length of a class.

    >>> all(length <= _end_of(_class_of(length)) <= length * 9 // 8 for length in range(100_000))
    True
    """
    shift = max(0, number // 8 - 1)
    return ((number - 8 * shift + 1) << shift) - 1


class Counts:
    """The counts of one job, or of all. `verdicts` counts by `verdict_word`."""

    __slots__ = ("late", "skipped", "started", "took", "verdicts")

    def __init__(self) -> None:
        self.started = 0  # attempts that began
        self.skipped = 0  # slots and runs that will not run
        self.verdicts: Counter[str] = Counter()
        self.late = Histogram()  # from the due instant to the start
        self.took = Histogram()  # from the start to the end

    def merge(self, other: Counts) -> None:
        """Add the counts of another job."""
        self.started += other.started
        self.skipped += other.skipped
        self.verdicts += other.verdicts
        self.late.merge(other.late)
        self.took.merge(other.took)

    def as_data(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        return {
            "started": self.started,
            "skipped": self.skipped,
            "verdicts": dict(self.verdicts),
            "late": self.late.as_data(),
            "took": self.took.as_data(),
        }


def verdict_word(verdict: Verdict) -> str:
    """The result of an attempt in one word: succeeded, failed (and tried again), dead, cancelled, lost, or released (it
    runs again, and did nothing wrong)."""
    if verdict.state is RunState.SCHEDULED:
        return "failed" if verdict.failed else "released"
    return str(verdict.state)


class Tally(NamedTuple):
    """The plain numbers of one job."""

    started: int
    skipped: int
    verdicts: dict[str, int]


class Counters:
    """A subscriber that counts. Subscribe it, and take a `snapshot` on any thread.

    >>> import asyncio, onthedot as otd
    >>> sched, counters = otd.Scheduler("memory:"), otd.Counters()
    >>> @sched.job
    ... async def work() -> None: ...
    >>> sched.subscribe(counters)
    >>> async def main() -> None:
    ...     async with sched:
    ...         await (await sched.submit(work.call())).result(timeout="10s")
    >>> asyncio.run(main())
    >>> [job] = counters.snapshot()["jobs"]
    >>> job["job"], job["started"], job["verdicts"]
    ('work', 1, {'succeeded': 1})
    """

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], Counts] = {}
        self._idle: set[tuple[str, str]] = set()  # stored by this program; some of them have not run yet
        self._events: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Count an event by its name, and for its job if it is about one."""
        with self._lock:
            self._events[type(event).__name__] += 1
        match event:
            case AttemptStarted(lease, started_at):
                with self._lock:
                    counts = self._of_lease(lease)
                    counts.started += 1
                    counts.late.add(started_at - lease.due_at)
            case AttemptEnded(finish):
                with self._lock:
                    counts = self._of_lease(finish.lease)
                    counts.verdicts[verdict_word(finish.verdict)] += 1
                    if finish.started_at:
                        counts.took.add(finish.ended_at - finish.started_at)
            case LeaseLost(finish):
                with self._lock:
                    self._of_lease(finish.lease).verdicts["refused"] += 1
            case RunRecovered(lease, verdict):
                with self._lock:
                    again = verdict.state is RunState.SCHEDULED
                    self._of_lease(lease).verdicts["recovered" if again else str(verdict.state)] += 1
            case RunSkipped(lease):
                with self._lock:
                    self._of_lease(lease).skipped += 1
            case RunMissed(run):
                with self._lock:
                    self._of(run.namespace, run.job).skipped += 1
            case SlotsSkipped():
                with self._lock:
                    self._of(event.namespace, event.job).skipped += event.slots
            case JobPut():
                with self._lock:
                    if len(self._jobs) + len(self._idle) < MOST_JOBS:
                        self._idle.add((event.namespace, event.job))
            case _:
                pass

    def total(self) -> Counts:
        """Return the counts of all jobs together.

        >>> counters.total().started
        1
        """
        all_of_them = Counts()
        with self._lock:
            for counts in self._jobs.values():
                all_of_them.merge(counts)
        return all_of_them

    def events(self) -> dict[str, int]:
        """Return how many events of each kind there were, by the names of their classes.

        >>> counters.events()["AttemptEnded"]
        1
        """
        with self._lock:
            return dict(self._events)

    def tallies(self) -> list[tuple[tuple[str, str], Tally]]:
        """Return the tallies by namespace and job, without lengths of time. This is cheap even with many jobs. It
        includes jobs that this program stored at its start and that have not run yet.

        >>> counters.tallies()
        [(('default', 'work'), Tally(started=1, skipped=0, verdicts={'succeeded': 1}))]
        """
        with self._lock:
            found = {
                key: Tally(counts.started, counts.skipped, dict(counts.verdicts)) for key, counts in self._jobs.items()
            }
            return sorted({**dict.fromkeys(self._idle, Tally(0, 0, {})), **found}.items())

    def snapshot(self) -> dict[str, Any]:
        """Return everything that was counted so far, as plain data: `total`, `jobs` by namespace and name, and
        `events`.

        Each has `started`, `skipped`, `verdicts` by word, and `late` and `took`: count, sum, max, p50 and p99 in
        milliseconds, and `up_to_ms`, pairs of a length and how many lengths do not exceed it.

        >>> counters.snapshot()["total"]["verdicts"]
        {'succeeded': 1}
        """
        total = self.total().as_data()
        with self._lock:
            jobs = [
                {"namespace": namespace, "job": job, **counts.as_data()}
                for (namespace, job), counts in sorted(self._jobs.items())
            ]
        return {"total": total, "jobs": jobs, "events": self.events()}

    def _of_lease(self, lease: Lease) -> Counts:
        job = lease.record.job
        return self._of(job.namespace, job.name)

    def _of(self, namespace: str, job: str) -> Counts:
        counts = self._jobs.get((namespace, job))
        if counts is None:
            key = (namespace, job) if len(self._jobs) < MOST_JOBS else OTHERS
            counts = self._jobs.setdefault(key, Counts())
        return counts
