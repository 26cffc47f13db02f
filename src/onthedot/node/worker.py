"""The worker: reserves runs, arms them just before they are due, fires them at their instant, hands back outcomes.

    reserve ──▶ held (a heap, by due instant) ──arm──▶ armed ──at the due instant──▶ a runner ──▶ finisher
       └─────────── already due: reserved and armed in one write ─────────────────────▲

Two services share one `Worker`: `Reserving` looks for work, `Arming` turns reservations into attempts in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from onthedot import fault_points
from onthedot.clock import MILLISECOND, NEVER, SECOND, Clock, Micros
from onthedot.ids import Ids
from onthedot.model.duration import micros
from onthedot.model.errors import NodeExpired, StoreUnavailable
from onthedot.model.events import (
    AttemptStarted,
    CommittedBefore,
    Events,
    HookFailed,
    RunBlocked,
    RunDelayed,
    RunSkipped,
    ZombieHandler,
)
from onthedot.model.job import Call, Guarantee, is_gated
from onthedot.model.run import EDITED, Armed, Blocked, Busy, Delayed, GateAsk, Gone, Lease, Skipped
from onthedot.model.task import Command, Container, Http, Steps, task_name
from onthedot.model.verdict import LEASE_ENDED, OUT_OF_REACH, STOPPED, Finish, Outcome, OutcomeKind, Verdict
from onthedot.node.finisher import Finisher
from onthedot.node.heartbeat import Membership
from onthedot.node.pace import Ahead, ArmLead, Pace
from onthedot.node.reservations import Reservations
from onthedot.rules import gates, recovery, retry
from onthedot.runners.attempt import Attempt, committed, never_begun, said_after, settled
from onthedot.runners.context import Desk
from onthedot.runners.outcomes import failed
from onthedot.runners.params import arguments_of
from onthedot.runners.registry import Registry
from onthedot.runners.runner import Runner
from onthedot.settings import Settings
from onthedot.stores.hints import Hint
from onthedot.stores.protocol import Store
from onthedot.stores.values import ReserveRequest

_RECHECK = SECOND  # no timer trusts the clock for longer: it may be set
_UNTRUSTED = 20 * MILLISECOND
_ASK_AGAIN = 10 * MILLISECOND  # after a due run was answered with Busy: another transaction is at the run before it


class Worker:
    """The seats of this node, what is held for them, and what sits in them."""

    def __init__(
        self,
        store: Store,
        membership: Membership,
        finisher: Finisher,
        registry: Registry,
        settings: Settings,
        events: Events,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self.store = store
        self.membership = membership
        self.settings = settings
        self.clock = clock
        self.ids = ids
        self.tasks = registry.task_names()
        self.queues = settings.queues_for(())
        self.held = Reservations()
        self.arming: dict[str, Lease] = {}  # by lease id: on their way to be armed, or armed without our knowing
        self.pace = Pace(settings.batch)
        self.ahead = Ahead(min(settings.ahead, settings.seats))
        self.lead = ArmLead(settings.arm_lead_min, settings.arm_lead_max)
        self.stopping = False
        self.desk: Desk | None = None
        self._registry = registry
        self._finisher = finisher
        self.events = events
        self._running: dict[str, Attempt] = {}  # by lease id: armed, and its seat not free again
        self._unfired: set[Attempt] = set()  # armed, and waiting for their instant
        self._runners: Mapping[str, Runner] = {}
        self._on_free: Callable[[], None] = lambda: None
        self._on_finish: Callable[[], None] = lambda: None

    def attach(
        self, runners: Mapping[str, Runner], *, on_free: Callable[[], None], on_finish: Callable[[], None]
    ) -> None:
        """Connect the runners, by kind, and who is to be woken when a seat or a verdict is there."""
        self._runners = runners
        self._on_free = on_free
        self._on_finish = on_finish

    # ── seats ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def running(self) -> int:
        """Attempts that have a seat, or wait for one in a moment."""
        return len(self._running)

    @property
    def running_ids(self) -> tuple[int, ...]:
        """The runs that these are attempts at."""
        return tuple(attempt.lease.run_id for attempt in self._running.values())

    @property
    def free_seats(self) -> int:
        return max(0, self.settings.seats - len(self._running) - len(self.arming))

    def known_leases(self) -> set[str]:
        """Every lease that this worker knows it has."""
        return {*self._running, *self.arming, *self.held.lease_ids(), *self._finisher.lease_ids()}

    # ── from lease to runner ─────────────────────────────────────────────────────────────────────────────────

    def launch(self, leases: list[Lease]) -> None:
        """Give armed leases their seats, and start each at its due instant: never before."""
        now = self.clock.now()
        due_now: list[Attempt] = []
        later: dict[Micros, list[Attempt]] = {}
        for lease in leases:
            job = lease.record.job
            attempt = Attempt(lease, micros(job.timeout) if job.timeout else 0, desk=self.desk)
            self._running[lease.lease_id] = attempt
            if lease.due_at <= now:
                due_now.append(attempt)
            else:
                later.setdefault(lease.due_at, []).append(attempt)
                self._unfired.add(attempt)
        self._fire(0, due_now)
        for due_at, attempts in later.items():
            self._fire(due_at, attempts)

    def _fire(self, due_at: Micros, attempts: list[Attempt]) -> None:
        """Start these if it is time; a timer may ring early, and the clock may be set."""
        wait = due_at - self.clock.now()
        if due_at and wait <= 0 and not self.membership.trusted:
            wait = _UNTRUSTED  # we overslept: the next beat tells whether these are ours still
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

    # ── from runner to verdict ───────────────────────────────────────────────────────────────────────────────

    def started(self, attempts: list[Attempt]) -> None:
        """User code has begun."""
        for attempt in attempts:
            self.events.emit(AttemptStarted(attempt.lease, attempt.started_at))

    def ended(self, attempts: list[Attempt]) -> None:
        """Outcomes are there: judge them, pass them on, and look for more work."""
        finishes = []
        for attempt in attempts:
            if not attempt.stuck:
                self._running.pop(attempt.lease.lease_id, None)
            job = attempt.lease.record.job
            if attempt.started_at and job.guarantee is Guarantee.AT_LEAST_ONCE and not is_gated(job):
                self.pace.note(attempt.lease.record.id, attempt.ended_at - attempt.started_at)
            finishes.append(self._finish_of(attempt))
        self._finisher.add(finishes)
        self._on_finish()
        self._on_free()

    def _finish_of(self, attempt: Attempt) -> Finish:
        """What the store is to be told of an attempt: once more the same, if it has committed that by itself."""
        done = committed(attempt)
        if done is None:
            return Finish(attempt.lease, self._judge(attempt), attempt.started_at, attempt.ended_at)
        said = said_after(attempt, done)
        if said:
            self.events.emit(CommittedBefore(attempt.lease, said))
        return done

    def _judge(self, attempt: Attempt) -> Verdict:
        if attempt.outcome is None:
            raise AssertionError(f"a runner delivered an attempt without an outcome: {attempt!r}")
        outcome, lease = settled(attempt, attempt.outcome), attempt.lease
        job = lease.record.job
        if outcome.kind is OutcomeKind.LOST:
            why = outcome.error or "stopped"
            return recovery.decide(job, recoveries=lease.recoveries, now=attempt.ended_at, why=why, due_at=lease.due_at)
        chance = self.ids.fraction() if outcome.kind is not OutcomeKind.SUCCEEDED else 0.0
        decide = partial(
            retry.decide, outcome, job, failures=lease.failures, ended_at=attempt.ended_at, chance=chance,
            due_at=lease.due_at,
        )  # fmt: skip
        rule = self._registry.rule_of(job)
        if rule is None:
            return decide()
        try:
            return decide(when=rule)
        except BaseException as error:  # noqa: BLE001 - the user's code: the rest of the policy decides without it
            self.events.emit(HookFailed(job.name, "retry.when", failed(error).error or ""))
            return decide()

    def stuck(self, attempts: list[Attempt]) -> None:
        """Handlers that do not stop: decided without them, and their seats are lost until they end."""
        for attempt in attempts:
            zombies = sum(seated.stuck for seated in self._running.values())
            self.events.emit(ZombieHandler(attempt.lease, zombies))

    def freed(self, attempts: list[Attempt]) -> None:
        """Zombies have ended after all."""
        for attempt in attempts:
            self._running.pop(attempt.lease.lease_id, None)
        self._on_free()

    # ── giving back ──────────────────────────────────────────────────────────────────────────────────────────

    def give_up(self, leases: list[Lease]) -> None:
        """These run by the store, and their verdicts were lost: let the job's guarantee decide once more."""
        if not leases:
            return
        now, why = self.clock.now(), "the store has lost what became of it"
        verdicts = [
            recovery.decide(one.record.job, recoveries=one.recoveries, now=now, why=why, due_at=one.due_at)
            for one in leases
        ]
        self._finisher.add([Finish(*decided, 0, now) for decided in zip(leases, verdicts, strict=True)])
        self._on_finish()

    async def release_held(self) -> None:
        """Give back everything that is reserved and not armed."""
        leases = [*self.held.take_all(), *self.arming.values()]
        self.arming.clear()
        if leases:
            await self.store.release(leases)

    def stop_running(self) -> None:
        """End all attempts early."""
        self._stop(list(self._running.values()), STOPPED)

    def cut_off(self, incarnation: str) -> int:
        """The lease may pass on any moment, and nobody can be asked: end what can be ended. How many there were.

        A plain function cannot be stopped: it goes on, and its own outcome counts if the lease turns out to be ours
        still. To give it up here would let this very node begin it anew beside itself.
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
        """End these attempts, by lease id, because somebody asked for it and why."""
        for lease_id, why in cancels:
            attempt = self._running.get(lease_id)
            if attempt is not None and attempt.outcome is None and attempt.stop_as is None:
                self._stop([attempt], Outcome(OutcomeKind.CANCELLED, why))

    def _stop(self, attempts: list[Attempt], outcome: Outcome) -> None:
        unfired = [attempt for attempt in attempts if attempt in self._unfired]
        self._unfired.difference_update(unfired)
        for attempt in attempts:
            attempt.stop_as = outcome
        for attempt in unfired:
            attempt.outcome = never_begun(attempt)
            attempt.ended_at = self.clock.now()
        if unfired:
            self.ended(unfired)
        for kind, runner in self._runners.items():
            runner.stop([attempt for attempt in attempts if self._kind(attempt.lease) == kind])
        for attempt in attempts:
            attempt.tell_to_stop()  # not before the runner knows: who ends at once was stopped all the same

    def fenced(self, incarnation: str) -> int:
        """This incarnation has ended: what it held is not ours any more."""
        self.held.take_all()
        self.arming.clear()
        wanted = [attempt for attempt in self._running.values() if attempt.lease.incarnation == incarnation]
        self._stop(wanted, LEASE_ENDED)
        return len(wanted)


class Reserving:
    """Looks for work, as much as there is room for."""

    name = "worker"

    def __init__(self, worker: Worker, on_held: Callable[[], None]) -> None:
        self._worker = worker
        self._on_held = on_held
        self._look_at: Micros = 0  # when the store said that something may be free
        self._unanswered: frozenset[str] | None = None  # look back: these leases may be ours without our knowing
        self._asked = 0

    async def tick(self, now: Micros) -> Micros | None:
        """One look."""
        worker, settings = self._worker, self._worker.settings
        if worker.stopping:
            return None
        if self._unanswered is not None and worker.membership.trusted:
            await self._look_back(self._unanswered)
        ask = self._ask(now)
        if ask is None:
            return settings.poll_every
        self._look_at = NEVER  # whatever we are told from here on is news
        sent = worker.clock.steady()
        try:
            reserved = await worker.store.reserve(ask)
        except NodeExpired:
            return settings.poll_every  # the heartbeat finds out by itself and joins anew
        except StoreUnavailable:
            self._unanswered = frozenset(ask.lease_ids)
            raise
        worker.membership.heard(sent, reserved.now)
        fault_points.point("reserve.after_write")
        worker.held.add(reserved.held)
        if reserved.held:
            self._on_held()
        if reserved.armed:
            worker.launch(reserved.armed)
        self._look_at = NEVER if reserved.look_again_at is None else reserved.look_again_at
        if self._look_at > reserved.now:
            return min(self._look_at - reserved.now, settings.poll_every)
        # More is free already. If we got something, ask on; if not, we have no room, and are woken when we do.
        return 0 if reserved.armed or reserved.held else settings.poll_every

    def _ask(self, now: Micros) -> ReserveRequest | None:
        worker, settings = self._worker, self._worker.settings
        seats = worker.free_seats
        if worker.membership.draining or not settings.works:
            return None
        if not worker.membership.trusted or (not seats and self._look_at <= now):
            return None  # what is due would find no seat: whoever has one may take it
        ahead = max(0, worker.ahead.most - len(worker.held))
        extra = worker.pace.beyond_seats(worker.running + seats) if seats else 0  # together no more than a batch
        self._asked += 1
        return ReserveRequest(
            worker.membership.incarnation,
            worker.ids.leases(seats + extra + ahead),
            seats,
            ahead,
            extra,
            worker.pace.quick,
            settings.horizon,
            self._lapse(),
            worker.queues,
            frozenset(settings.labels),
            worker.tasks,
            self._asked,
        )

    def _lapse(self) -> Micros:
        """Long enough for the arm that is under way, and for the next: or this worker would take its own reservations
        anew while it arms them, and never come to an end."""
        settings = self._worker.settings
        return min(max(settings.lapse, 3 * self._worker.lead.slow), max(settings.lapse, settings.node_ttl))

    def store_has_lost(self) -> None:
        """Acknowledged writes are gone: see with the next tick what the store believes that we hold."""
        self._unanswered = self._unanswered or frozenset()

    async def _look_back(self, unanswered: frozenset[str]) -> None:
        """A reserve without an answer may have been done all the same: what we hold tells what the answer was.

        Only leases of that ask are taken on. Any other that runs, by the store, and not here, has run here before: its
        verdict was acknowledged and lost. It is never begun a second time under its fence; its guarantee decides.
        """
        worker, known = self._worker, self._worker.known_leases()
        incarnation = worker.membership.incarnation
        self._unanswered = None
        try:
            held = await worker.store.recover(incarnation, void_below=self._asked + 1)
        except StoreUnavailable:
            self._unanswered = unanswered
            raise
        if incarnation != worker.membership.incarnation:
            return  # it has ended meanwhile, and all that it held is for others
        found = [lease for lease in held if lease.lease_id not in known]
        ours = [lease for lease in found if lease.lease_id in unanswered]
        worker.held.add([lease for lease in ours if not lease.fence])
        worker.launch([lease for lease in ours if lease.fence])
        worker.give_up([lease for lease in found if lease.fence and lease.lease_id not in unanswered])
        self._on_held()

    def wants(self, hint: Hint) -> bool:
        """Whether a hint is a reason to look now."""
        return hint.kind == "runs" and hint.ready_at - self._worker.settings.horizon < self._look_at


class Arming:
    """Arms reservations a little before they are due, so that the write's latency is not the job's lateness."""

    name = "arming"

    def __init__(self, worker: Worker, on_room: Callable[[], None]) -> None:
        self._worker = worker
        self._on_room = on_room

    async def tick(self, now: Micros) -> Micros | None:
        """Arm what is due within the lead; give back what is due and finds no seat."""
        worker = self._worker
        if not worker.membership.trusted:
            worker.held.take_all()  # they lapse by themselves
            return worker.settings.poll_every if worker.arming else None
        lead = worker.lead.micros
        leases = worker.held.take(now + lead, worker.free_seats)
        if leases:
            self._on_room()
        if leases or worker.arming:
            await self._arm(leases, lead)
        if not worker.free_seats:
            seatless = worker.held.take(worker.clock.now(), worker.settings.batch)
            if seatless:
                await worker.store.release(seatless)
        return self._delay(lead)

    async def _arm(self, leases: list[Lease], lead: Micros) -> None:
        worker = self._worker
        worker.arming.update((lease.lease_id, lease) for lease in leases)
        asked = list(worker.arming.values())  # without an answer the last time: `arm` is repeatable
        fault_points.point("arm.before_write")
        sent = worker.clock.steady()
        try:
            answers = await worker.store.arm(asked, gates=self._gates(asked))
        except NodeExpired:
            for lease in leases:
                worker.arming.pop(lease.lease_id, None)  # not armed: they lapse by themselves
            return
        fault_points.point("arm.after_write")
        worker.lead.note(worker.clock.steady() - sent)
        armed, edited, busy = [], [], 0
        for lease, answer in zip(asked, answers, strict=True):
            worker.arming.pop(lease.lease_id, None)
            match answer:
                case Armed():
                    lease.fence, lease.attempt, lease.armed_at = answer
                    armed.append(lease)
                case Busy():
                    busy += 1
                    now = worker.clock.now()
                    again = lease.due_at if lease.due_at > now else now + _ASK_AGAIN
                    worker.held.add_at(again + lead, lease)  # asked again at its instant: only then it counts
                case Blocked(gate=gate, holder=holder):
                    worker.events.emit(RunBlocked(lease, gate, holder))
                case Delayed(gate=gate, until=until):
                    worker.events.emit(RunDelayed(lease, gate, until))
                case Skipped():
                    worker.events.emit(RunSkipped(lease, *answer))
                case Gone(reason=reason) if reason == EDITED:
                    edited.append(lease)
        worker.launch(armed)
        if len(armed) + busy < len(asked):
            self._on_room()  # who was not armed has given its seat back
        if edited:  # or they would be late: nobody else may have them before they lapse
            await worker.store.release(edited)

    def _gates(self, leases: list[Lease]) -> dict[str, GateAsk]:
        """The gates of these runs, and what becomes of those that are due and find one closed."""
        now = self._worker.clock.now()
        asks = {}
        for lease in leases:
            record = lease.record
            if is_gated(record.job):
                answer = None
                if lease.due_at <= now:
                    answer = gates.on_busy(lease, now=now)
                arguments = arguments_of(lease)
                passing = gates.gates_of(record, target=lease.target, arguments=arguments)
                asks[lease.lease_id] = GateAsk(passing, answer, gates.rate_of(record, arguments=arguments))
        return asks

    def _delay(self, lead: Micros) -> Micros | None:
        worker = self._worker
        if worker.arming:
            return worker.settings.poll_every
        due = worker.held.next_due()
        if due is None:
            return None
        wait = due - worker.clock.now()
        return max(MILLISECOND if not worker.free_seats else 0, wait - lead if worker.free_seats else wait)
