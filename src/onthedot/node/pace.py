"""What a worker has learnt about its own speed: which jobs are quick, how long `arm` takes, and whether it is late."""

from __future__ import annotations

from collections import deque

from onthedot.clock import MILLISECOND, Micros

_BUDGET = 50 * MILLISECOND  # how much work may wait on this node, armed, for a seat
_MOST_JOBS = 1_000  # remembered at a time: a node's memory must not grow with the number of jobs
_LATE = 50 * MILLISECOND  # a start that is later than this was held up here
_WEIGHT = 0.2  # of the newest duration in a job's mean


class Pace:
    """Mean durations of jobs without gates. Runs of quick jobs may be taken beyond the free seats: they find one in a
    moment, and a batch costs the store little more than one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._means: dict[int, float] = {}
        self.quick: frozenset[int] = frozenset()

    def note(self, job_id: int, duration: Micros) -> None:
        """An attempt of this job took so long."""
        if len(self._means) > _MOST_JOBS:
            self._means.clear()
            self.quick = frozenset()
        mean = self._means.get(job_id)
        mean = float(duration) if mean is None else mean + _WEIGHT * (duration - mean)
        self._means[job_id] = mean
        if (mean < _BUDGET / 10) != (job_id in self.quick):
            self.quick = self.quick ^ {job_id}

    def beyond_seats(self, running: int) -> int:
        """How many quick runs more than there are seats: what can be done within the budget, less what waits."""
        if not self.quick:
            return 0
        slowest = max(self._means[job_id] for job_id in self.quick)
        return max(0, min(self._most, int(_BUDGET / max(slowest, 1.0))) - running)


class ArmLead:
    """How long before the due instant to send `arm`: twice the 99th percentile of recent ones, within bounds."""

    def __init__(self, shortest: Micros, longest: Micros) -> None:
        self._shortest = shortest
        self._longest = longest
        self._recent: deque[Micros] = deque(maxlen=100)
        self.micros = max(shortest, longest // 10)  # until it is known: cautious
        self.slow: Micros = 0  # the 99th percentile itself

    def note(self, took: Micros) -> None:
        """An `arm` took so long."""
        self._recent.append(took)
        self.slow = sorted(self._recent)[int(len(self._recent) * 0.99)]
        self.micros = min(self._longest, max(self._shortest, 2 * self.slow))


class Ahead:
    """How many runs a worker may hold for later. A node whose starts run late holds half as many, so that others get
    them; each batch that is on time gives one back."""

    def __init__(self, most: int) -> None:
        self._limit = most
        self.most = most

    def note(self, late: Micros) -> None:
        """A batch that was held for its instant started so long after it."""
        if late > _LATE:
            self.most = max(1, self.most // 2)
        else:
            self.most = min(self._limit, self.most + 1)
