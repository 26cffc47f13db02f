"""The seats: start attempts at their instant, never before, end them early, and hand their outcomes to the finisher.

    armed lease ──launch──▶ a seat ──at the due instant──▶ a runner ──ended──▶ finisher

They also measure what the reserver needs to know: which jobs are quick (`Pace`), and whether starts run late (`Ahead`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from onthedot.clock import MILLISECOND, SECOND, Clock, Micros
from onthedot.model.duration import micros
from onthedot.model.events import AttemptStarted, Events, ZombieHandler
from onthedot.model.job import Call, Guarantee, is_gated
from onthedot.model.run import Lease
from onthedot.model.task import Command, Container, Http, Steps, task_name
from onthedot.model.verdict import LEASE_ENDED, OUT_OF_REACH, STOPPED, Outcome, OutcomeKind
from onthedot.node.finisher import Finisher
from onthedot.node.heartbeat import Membership
from onthedot.runners.attempt import Attempt, stopped_before_start
from onthedot.runners.context import Reporter
from onthedot.runners.registry import Registry
from onthedot.runners.runner import Runner
from onthedot.settings import Settings

_RECHECK = SECOND  # no timer runs for longer, because somebody may set the clock
_UNTRUSTED = 20 * MILLISECOND

_BUDGET = 50 * MILLISECOND  # how much armed work may wait on this node for a seat
_MOST_JOBS = 1_000  # how many jobs are remembered: a node's memory must not grow with the number of jobs
_LATE = 50 * MILLISECOND  # a start that is later than this was delayed by this node
_WEIGHT = 0.2  # the weight of the newest duration in a job's mean


class Seats:
    """The attempts of this node, each in its seat."""

    def __init__(
        self,
        membership: Membership,
        finisher: Finisher,
        registry: Registry,
        settings: Settings,
        events: Events,
        clock: Clock,
        reporter: Reporter | None = None,
    ) -> None:
        self.pace = Pace(settings.batch)
        self.ahead = Ahead(min(settings.ahead, settings.seats))
        self._membership = membership
        self._finisher = finisher
        self._registry = registry
        self._seats = settings.seats
        self._events = events
        self._clock = clock
        self._reporter = reporter
        self._running: dict[str, Attempt] = {}  # by lease id: attempts that are armed, and whose seat is not free again
        self._unfired: set[Attempt] = set()  # armed, and waiting for their instant
        self._runners: Mapping[str, Runner] = {}
        self._on_free: list[Callable[[], None]] = []
        membership.on_fenced(self.fenced)
        membership.on_cancel(self.cancel)

    def open(self, runners: Mapping[str, Runner]) -> None:
        """Start attempts with these runners, by kind."""
        self._runners = runners

    def on_free(self, listener: Callable[[], None]) -> None:
        """Register a callback for the end of attempts."""
        self._on_free.append(listener)

    @property
    def taken(self) -> int:
        """The number of attempts that have a seat, or get one in a moment."""
        return len(self._running)

    @property
    def free(self) -> int:
        """The number of further attempts that could start."""
        return max(0, self._seats - len(self._running))

    @property
    def unfired(self) -> int:
        """The number of attempts that are armed, and start at their due instant."""
        return len(self._unfired)

    @property
    def run_ids(self) -> tuple[int, ...]:
        """The runs of all attempts."""
        return tuple(attempt.lease.run_id for attempt in self._running.values())

    def lease_ids(self) -> list[str]:
        """The leases of all attempts."""
        return list(self._running)

    # ── from lease to runner ─────────────────────────────────────────────────────────────────────────────────

    def launch(self, leases: list[Lease]) -> None:
        """Give armed leases their seats, and start each at its due instant: never before."""
        now = self._clock.now()
        due_now: list[Attempt] = []
        later: dict[Micros, list[Attempt]] = {}
        for lease in leases:
            job = lease.record.job
            attempt = Attempt(lease, micros(job.timeout) if job.timeout else 0, reporter=self._reporter)
            self._running[lease.lease_id] = attempt
            if lease.due_at <= now:
                due_now.append(attempt)
            else:
                later.setdefault(lease.due_at, []).append(attempt)
                self._unfired.add(attempt)
        self._fire(0, due_now)  # 0: due already, so there is no timer that could ring early or late
        for due_at, attempts in later.items():
            self._fire(due_at, attempts)

    def _fire(self, due_at: Micros, attempts: list[Attempt]) -> None:
        """Start these attempts if they are due. A timer may ring early, and somebody may set the clock."""
        wait = due_at - self._clock.now()
        if due_at and wait <= 0 and not self._membership.trusted:
            wait = _UNTRUSTED  # we overslept: the next beat shows whether these attempts are still ours
        if wait > 0:
            asyncio.get_running_loop().call_later(min(wait, _RECHECK) / SECOND, self._fire, due_at, attempts)
            return
        if due_at:
            attempts = [attempt for attempt in attempts if attempt in self._unfired]
            self._unfired.difference_update(attempts)
            self.ahead.note(-wait)
        by_kind: dict[str, list[Attempt]] = {kind: [] for kind in self._runners}
        for attempt in attempts:
            by_kind[self._kind(attempt.lease)].append(attempt)
        for kind, mine in by_kind.items():
            if mine:
                self._runners[kind].start(mine)

    def _kind(self, lease: Lease) -> str:
        """Return the kind of runner that a lease's task needs."""
        job = lease.record.job
        if isinstance(job.task, Http | Container):
            return task_name(job.task)
        if isinstance(job.task, Command | Steps):
            return "program"
        if not isinstance(job.task, Call):
            return "coroutine"
        if job.isolation == "process":
            return "process"
        return "coroutine" if self._registry.get(job.task.handler).is_coroutine else "thread"

    # ── from runner to finisher ──────────────────────────────────────────────────────────────────────────────

    def started(self, attempts: list[Attempt]) -> None:
        """Record that user code has begun."""
        for attempt in attempts:
            self._events.emit(AttemptStarted(attempt.lease, attempt.started_at))

    def ended(self, attempts: list[Attempt]) -> None:
        """Pass the outcomes of these attempts to the finisher, and look for more work."""
        for attempt in attempts:
            if not attempt.stuck:
                self._running.pop(attempt.lease.lease_id, None)
            job = attempt.lease.record.job
            if attempt.started_at and job.guarantee is Guarantee.AT_LEAST_ONCE and not is_gated(job):
                self.pace.note(attempt.lease.record.id, attempt.ended_at - attempt.started_at)
        self._finisher.ended(attempts)
        self._tell_free()

    def stuck(self, attempts: list[Attempt]) -> None:
        """Decide attempts whose handlers do not stop. Their seats are not free until the handlers end."""
        for attempt in attempts:
            zombies = sum(seated.stuck for seated in self._running.values())
            self._events.emit(ZombieHandler(attempt.lease, zombies))

    def freed(self, attempts: list[Attempt]) -> None:
        """Free the seats of these zombies: their handlers have ended."""
        for attempt in attempts:
            self._running.pop(attempt.lease.lease_id, None)
        self._tell_free()

    def _tell_free(self) -> None:
        for listener in self._on_free:
            listener()

    # ── ending early ─────────────────────────────────────────────────────────────────────────────────────────

    def stop_all(self) -> None:
        """End all attempts early: the node stops."""
        self._stop(list(self._running.values()), STOPPED)

    def cut_off(self, incarnation: str) -> int:
        """Stop the attempts that can be stopped, because the store is unreachable and the lease may end. Returns how
        many there were.

        A plain function cannot be stopped. It continues, and its outcome counts if the lease is still ours at its end.
        If we released it, this node could start the same run a second time meanwhile.
        """
        wanted = [
            attempt
            for attempt in self._running.values()
            if attempt.lease.incarnation == incarnation
            and attempt.stop_as is None
            and not (attempt.started_at and self._kind(attempt.lease) == "thread")
        ]
        self._stop(wanted, OUT_OF_REACH)
        return len(wanted)

    def cancel(self, cancels: Iterable[tuple[str, str]]) -> None:
        """End these attempts early, by lease id, each with its reason."""
        for lease_id, why in cancels:
            attempt = self._running.get(lease_id)
            if attempt is not None and attempt.outcome is None and attempt.stop_as is None:
                self._stop([attempt], Outcome(OutcomeKind.CANCELLED, why))

    def fenced(self, incarnation: str) -> int:
        """Stop the attempts of this incarnation, which has ended. Return how many there were."""
        wanted = [attempt for attempt in self._running.values() if attempt.lease.incarnation == incarnation]
        self._stop(wanted, LEASE_ENDED)
        return len(wanted)

    def _stop(self, attempts: list[Attempt], outcome: Outcome) -> None:
        unfired = [attempt for attempt in attempts if attempt in self._unfired]
        self._unfired.difference_update(unfired)
        for attempt in attempts:
            attempt.stop_as = outcome
        for attempt in unfired:
            attempt.outcome = stopped_before_start(attempt)
            attempt.ended_at = self._clock.now()
        if unfired:
            self.ended(unfired)
        for kind, runner in self._runners.items():
            runner.stop([attempt for attempt in attempts if self._kind(attempt.lease) == kind])
        for attempt in attempts:
            attempt.tell_to_stop()  # after the runner knows: an attempt that ends at once counts as stopped


class Pace:
    """Mean durations of jobs without gates. Runs of quick jobs may be taken beyond the free seats: they find one in a
    moment, and a batch costs the store little more than one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._means: dict[int, float] = {}
        self.quick: frozenset[int] = frozenset()

    def note(self, job_id: int, duration: Micros) -> None:
        """Record the duration of one attempt of this job."""
        if len(self._means) > _MOST_JOBS:
            self._means.clear()
            self.quick = frozenset()
        mean = self._means.get(job_id)
        mean = float(duration) if mean is None else mean + _WEIGHT * (duration - mean)
        self._means[job_id] = mean
        if (mean < _BUDGET / 10) != (job_id in self.quick):
            self.quick = self.quick ^ {job_id}

    def beyond_seats(self, running: int) -> int:
        """Return how many quick runs to take beyond the free seats: as many as fit into the budget, less those that
        wait.
        """
        if not self.quick:
            return 0
        slowest = max(self._means[job_id] for job_id in self.quick)
        return max(0, min(self._most, int(_BUDGET / max(slowest, 1.0))) - running)


class Ahead:
    """How many runs a worker may hold for later. A node whose starts run late holds half as many, so that others get
    them; each batch that starts on time raises the number by one."""

    def __init__(self, most: int) -> None:
        self._limit = most
        self.most = most

    def note(self, late: Micros) -> None:
        """Record how late a batch started that was held for its instant."""
        if late > _LATE:
            self.most = max(1, self.most // 2)
        else:
            self.most = min(self._limit, self.most + 1)
