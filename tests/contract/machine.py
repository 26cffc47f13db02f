"""A hypothesis state machine: any order of calls, with late, stale and repeated ones, on a store and on the oracle.

The machine makes each call on a store and on the oracle (`oracle/`), and compares the answers. After each step it
compares everything that the store shows. It calls as nodes do: windows are those of the planner, and gates those of a
worker. Now and then they are wrong or out of date. All spans are whole seconds, so that instants coincide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from onthedot.clock import SECOND
from onthedot.model.after import After
from onthedot.model.job import Limit, Overlap, Rate
from onthedot.model.retention import Cut, Mark, Pruned
from onthedot.model.run import (
    TERMINAL,
    ArmAnswer,
    Checkpoint,
    GateAsk,
    Lease,
    NewRun,
    Progress,
    RunState,
    submit_trigger,
)
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.rules import gates as policy
from onthedot.runners.params import arguments_of
from onthedot.stores.values import Note, Placement, ReserveRequest
from onthedot_verify.contract.workbench import (
    TASK,
)
from tests.contract.draws import (
    AFTERS,
    FAIR,
    HORIZON,
    LAPSE,
    LIMITS,
    MOMENTS,
    MORE,
    NAMES,
    NUMBER,
    OFFERS,
    OTHER_TASK,
    OUTCOMES,
    OVERLAPS,
    PICKS,
    RATES,
    SCHEDULES,
    SELDOM,
    TASKS,
    Moment,
)
from tests.contract.oracle import control, ends, gates, queues, runs, upkeep
from tests.contract.planning_rules import PlanningRules, aside
from tests.lanes import SOAK


class Machine(PlanningRules):
    """One store, three jobs, a planner, and workers that start and stop."""

    @initialize(
        overlap=st.sampled_from(OVERLAPS), schedules=st.sampled_from(SCHEDULES[1:]), limit=st.sampled_from(LIMITS),
        rates=st.tuples(st.sampled_from(RATES), st.sampled_from(RATES)), more=st.sampled_from([*MORE, FAIR, FAIR]),
        after=st.sampled_from(AFTERS[3:-1]),
    )  # fmt: skip
    def begin(
        self, overlap: Overlap | None, schedules: Any, limit: Limit | None, rates: tuple[Rate | None, Rate | None],
        more: dict[str, Any], after: After,
    ) -> None:  # fmt: skip
        """Start a planner and two workers, and submit some runs."""
        self.register(60, (), "planner")
        self.campaign(0, 60, 0)
        self.share_queue({})
        self.put("a", overlap, limit, rates[0], schedules, None, {}, 0, 0, "last")
        self.put("b", Overlap("allow"), Limit(1, name="x"), rates[1], (), None, more, 0, 0, "last")
        self.put("c", None, None, None, (), after, {"assignment": "leader"}, 0, 0, "last")
        self.register(5, (TASK, OTHER_TASK), "w1")
        self.register(60, (TASK,), "w2")
        for name in "aba":
            self.submit(name, 0, "", "1", None, 3, False)

    def moment(self, drawn: Moment) -> None:
        """What happens all the time: runs are submitted, the planner plans, and attempts start and end."""
        self.bench.now += drawn.seconds * SECOND
        for name in drawn.names:
            self.submit(name, 0, "", drawn.tenant, None, 3, False)
        if drawn.plans:
            self.lead()
            self.plan(0, False, 0)
        for worker in [name for name, row in self.world.nodes.items() if row.is_alive(self.now) and row.node.tasks]:
            self._work(worker, drawn.seats, drawn.ahead)
        self.checkpoint([0, 1], 1 + self.steps % 3, self.steps % 2 == 0)
        self.note([0, 1], 1 + self.steps % 3, self.steps % 2 == 0, drawn.ends or None, "said")
        self._finish(self.running()[: drawn.ends], drawn.outcome)

    # Several rules, because each rule is chosen equally often.
    first_moment = rule(drawn=MOMENTS)(moment)
    second_moment = rule(drawn=MOMENTS)(moment)
    third_moment = rule(drawn=MOMENTS)(moment)
    fourth_moment = rule(drawn=MOMENTS)(moment)
    fifth_moment = rule(drawn=MOMENTS)(moment)
    sixth_moment = rule(drawn=MOMENTS)(moment)
    seventh_moment = rule(drawn=MOMENTS)(moment)

    # ── the life of a run ────────────────────────────────────────────────────────────────────────────────────────

    @rule(
        name=NAMES,
        due=st.sampled_from([-1, 0, 0, 2]),
        key=st.sampled_from(["", "", "k"]),
        tenant=st.sampled_from(["1", "1", "2"]),
        expires=st.sampled_from([None, None, 2, 4]),
        again=st.integers(0, 3),
        twice=SELDOM,
    )
    def submit(self, name: str, due: int, key: str, tenant: str, expires: int | None, again: int, twice: bool) -> None:
        """Submit a run, now and then one that was submitted before, or under an old revision."""
        record = self.record(name)
        self.asked += 1
        at = self.now + due * SECOND
        until = None if expires is None else at + expires * SECOND
        token = str(self.asked - again) if again < 3 else str(self.asked)
        revision = None if record is None or again == 0 else record.revision - (again == 1)
        new = NewRun(
            99 if record is None else record.id, submit_trigger(token), at, f'{{"t":{tenant}}}', key, until,
            slot_at=at - SECOND if again == 2 else None, revision=revision,
        )  # fmt: skip
        asked = [new, replace(new, due_at=at + SECOND)] if twice else [new]

        def wanted(answer: Any) -> None:
            self.trial.adopt(runs.submit(self.world, asked, self.now), answer)

        self.both(lambda: self.store.submit(asked, now=self.now), wanted)

    @aside
    @rule(
        number=NUMBER, seats=st.integers(0, 3), ahead=st.integers(0, 3), late=SELDOM, extra=st.sampled_from([0, 0, 5])
    )
    def reserve(self, number: int, seats: int, ahead: int, late: bool, extra: int) -> None:
        """Reserve as a worker of all queues, now and then under a number that may be void."""
        self._reserve(self.worker(number), seats, ahead, late=late, extra=extra)

    @aside
    @rule(number=NUMBER, seats=st.integers(0, 3), ahead=st.integers(0, 2), tasks=OFFERS, labels=st.booleans())
    def reserve_less(self, number: int, seats: int, ahead: int, tasks: tuple[str, ...], labels: bool) -> None:
        """Reserve as a worker that does not serve everything."""
        some = ("default",) if labels else ("slow", "fair")
        offered = frozenset({"gpu"} if labels else ())
        self._reserve(self.worker(number), seats, ahead, tasks=frozenset(tasks), queues=some, labels=offered)

    def _reserve(
        self, worker: str, seats: int, ahead: int, *, late: bool = False, extra: int = 0, **options: Any
    ) -> list[Lease]:
        """Reserve on both. Returns the held leases."""
        self.asked += 1
        options = {"tasks": TASKS, "queues": ("default", "slow", "fair"), "labels": frozenset({"gpu"}), **options}
        ask = ReserveRequest(
            worker, self.bench.ids.leases(seats + ahead + extra), seats, ahead, extra, frozenset({2} if extra else ()),
            HORIZON, LAPSE, number=0 if late else self.asked, **options,
        )  # fmt: skip
        got = self.both(
            lambda: self.store.reserve(ask, now=self.now), lambda got: runs.reserve(self.world, ask, got, self.now)
        )
        if got is None:
            return []
        self.leases += [replace(lease) for lease in [*got.armed, *got.held]]
        return [replace(lease) for lease in got.held]

    @rule(number=NUMBER, seats=st.integers(1, 4))
    def work(self, number: int, seats: int) -> None:
        """What a worker does most of the time: reserve due runs, and arm them in one call."""
        self._work(self.worker(number), seats, 0)

    def _work(self, worker: str, seats: int, ahead: int) -> None:
        """Reserve with the tasks that the worker registered."""
        row = self.world.nodes.get(worker)
        tasks = TASKS if row is None else frozenset(row.node.tasks)
        self._arm(self._reserve(worker, seats, ahead, tasks=tasks), early=False)

    @aside
    @rule(number=NUMBER, below=SELDOM)
    def held(self, number: int, below: bool) -> None:
        worker, void = self.worker(number), self.asked + 1 if below else 0
        self.both(
            lambda: self.store.recover(worker, void_below=void),
            lambda leases: runs.held(self.world, worker, leases, void_below=void),
        )

    def picked(self, picks: Sequence[int]) -> list[Lease]:
        return [self.leases[-1 - pick] for pick in picks if pick < len(self.leases)]

    def reserved(self) -> list[Lease]:
        """The leases of runs that are reserved now."""
        mine = {run.hold.lease_id for run in self.world.live() if run.hold and run.state is RunState.RESERVED}
        return [lease for lease in self.leases if lease.lease_id in mine]

    def running(self) -> list[Lease]:
        """The leases of attempts that run now."""
        mine = {run.hold.lease_id for run in self.world.live() if run.hold and run.is_running}
        return [lease for lease in self.leases if lease.lease_id in mine]

    @aside
    @rule(picks=PICKS, early=st.booleans())
    def arm(self, picks: list[int], early: bool) -> None:
        """Arm as a worker does; `early`: as if none were due yet."""
        self._arm(self.picked(picks), early=early)

    @rule(number=NUMBER, early=st.booleans(), gated=st.sampled_from([True, True, True, False]), hasty=SELDOM)
    def arm_reserved(self, number: int, early: bool, gated: bool, hasty: bool) -> None:
        """Arm a reserved run, now and then without its gates, or with a clock that is fast."""
        reserved = self.reserved()
        self._arm(reserved[number % len(reserved) :][:1] if reserved else [], early=early, gated=gated, hasty=hasty)

    def _arm(self, leases: Sequence[Lease], *, early: bool, gated: bool = True, hasty: bool = False) -> None:
        """Arm due runs in one call and the others in another. Stores differ in the holder that they name for a run that
        is not due, if that holder starts in the same call."""
        due = [lease for lease in leases if lease.due_at <= self.now and not early]
        for some, is_due in ((due, True), ([lease for lease in leases if lease not in due], False)):
            asks = {lease.lease_id: self._ask(lease, is_due=is_due or hasty) for lease in some} if gated else {}

            def wanted(answers: list[ArmAnswer], some: Any = some, asks: Any = asks) -> list[ArmAnswer]:
                return gates.arm(self.world, some, asks, answers, self.now)

            if some:
                self.both(partial(self.store.arm, list(map(replace, some)), gates=asks, now=self.now), wanted)

    def _ask(self, lease: Lease, *, is_due: bool) -> GateAsk:
        arguments = arguments_of(lease)
        passing = policy.gates_of(lease.record, target=lease.target, arguments=arguments)
        rate = policy.rate_of(lease.record, arguments=arguments)
        return GateAsk(passing, policy.on_busy(lease, now=self.now) if is_due else None, rate)

    @aside
    @rule(picks=PICKS, number=NUMBER, stale=SELDOM)
    def release(self, picks: list[int], number: int, stale: bool) -> None:
        reserved = self.reserved()
        self._release(self.picked(picks) if stale else reserved[number % max(1, len(reserved)) :][:1])

    def _release(self, leases: list[Lease]) -> None:
        self.both(
            lambda: self.store.release(list(map(replace, leases)), now=self.now),
            lambda _: runs.release(self.world, leases),
        )

    def verdict(self, drawn: Verdict | OutcomeKind) -> Verdict:
        """A terminal verdict is unchanged. An outcome becomes a retry in a second."""
        if isinstance(drawn, Verdict):
            return drawn
        failed = drawn is OutcomeKind.FAILED
        return Verdict(RunState.SCHEDULED, drawn, "again", self.now + SECOND, failed=failed, recovered=not failed)

    @aside
    @rule(picks=PICKS, twice=st.booleans(), outcome=OUTCOMES)
    def finish(self, picks: list[int], twice: bool, outcome: Verdict | OutcomeKind) -> None:
        """Finish any leases: current, stale, repeated, or twice in one call."""
        self._finish(self.picked(picks) * (1 + twice), outcome)

    @rule(number=NUMBER, many=st.integers(1, 3), outcome=OUTCOMES)
    def end(self, number: int, many: int, outcome: Verdict | OutcomeKind) -> None:
        """End running attempts."""
        running = self.running()
        self._finish(running[number % len(running) :][:many] if running else [], outcome)

    def _finish(self, leases: list[Lease], outcome: Verdict | OutcomeKind) -> None:
        verdict = self.verdict(outcome)
        ended = [Finish(replace(lease), verdict, self.now, self.now) for lease in leases]
        self.both(lambda: self.store.finish(ended, now=self.now), lambda _: ends.finish(self.world, ended))

    @aside
    @rule(picks=PICKS, revision=st.integers(1, 3), running=st.booleans())
    def checkpoint(self, picks: list[int], revision: int, running: bool) -> None:
        leases = self.running()[:2] if running else self.picked(picks)
        saves = [
            (replace(lease), Checkpoint(number, f"{self.asked}.{number}"))
            for lease in leases
            for number in (revision, revision - 1, revision)  # one is late, one is repeated
        ]
        self.both(lambda: self.store.checkpoint(saves, now=self.now), lambda _: runs.checkpoint(self.world, saves))

    @aside
    @rule(
        picks=PICKS, number=st.integers(1, 3), running=st.booleans(), done=st.sampled_from([None, 1]),
        log=st.sampled_from([None, "said"]),
    )  # fmt: skip
    def note(self, picks: list[int], number: int, running: bool, done: int | None, log: str | None) -> None:
        leases = self.running()[:2] if running else self.picked(picks)
        progress = None if done is None else Progress(float(self.asked))
        notes = [
            Note(replace(lease), one, progress, log and f"{log} {self.asked}.{one}")
            for lease in leases
            for one in (number, number - 1)  # one is late
        ]
        self.both(lambda: self.store.note(notes, now=self.now), lambda _: runs.note(self.world, notes))

    @rule(number=NUMBER, why=st.sampled_from(["by hand", "by another"]), twice=SELDOM)
    def cancel(self, number: int, why: str, twice: bool) -> None:
        """Cancel a run, live, ended or unknown."""
        live = [run.id for run in self.world.live()]
        some = [*live, *live, *(run.id for run in self.world.runs), 10**6]
        ids = [some[number % len(some)]] * (1 + twice)
        self.both(
            lambda: self.store.cancel(ids, why=why, now=self.now),
            lambda _: control.cancel(self.world, ids, why, self.now),
        )

    @aside
    @rule(number=NUMBER, word=st.sampled_from(["replayed:1", "discarded:"]), dead=st.booleans(), twice=SELDOM)
    def settle(self, number: int, word: str, dead: bool, twice: bool) -> None:
        ids = [run.id for run in self.world.runs if not dead or run.state is RunState.DEAD]
        settled = [(run_id, word) for run_id in ids[number % max(1, len(ids)) :][:1]] * (1 + twice)
        self.both(lambda: self.store.settle_dead(settled), lambda _: runs.settle_dead(self.world, settled))

    # ── upkeep ───────────────────────────────────────────────────────────────────────────────────────────────────

    @aside
    @rule()
    def expire(self) -> None:
        def wanted(answer: Any) -> None:
            assert sorted(run.id for run in answer) == sorted(run.id for run in upkeep.expire(self.world, self.now))

        self.both(lambda: self.store.expire(limit=1000, now=self.now), wanted)

    @rule(outcome=OUTCOMES, picks=PICKS, stale=SELDOM)
    def reap(self, outcome: Verdict | OutcomeKind, picks: list[int], stale: bool) -> None:
        """Reap any orphan that is shown, and other leases."""
        found = self.do(self.store.orphans(limit=1000, now=self.now))
        assert sorted(lease.run_id for lease in found) == sorted(run.id for run in upkeep.orphans(self.world, self.now))
        self._reap(self.picked(picks) if stale else sorted(found, key=lambda lease: lease.run_id), outcome)

    def _reap(self, leases: Sequence[Lease], outcome: Verdict | OutcomeKind) -> None:
        verdicts = [(replace(lease), self.verdict(outcome)) for lease in leases]
        self.both(
            lambda: self.store.reap(verdicts, now=self.now), lambda _: upkeep.reap(self.world, verdicts, self.now)
        )

    @aside
    @rule(
        age=st.sampled_from([0, 0, 3]), states=st.sampled_from([TERMINAL, frozenset({RunState.SUCCEEDED})]),
        limit=st.sampled_from([2, 500]), of_job=st.sampled_from([None, None, 1]), passes=st.integers(1, 2),
    )  # fmt: skip
    def prune(self, age: int, states: frozenset[RunState], limit: int, of_job: int | None, passes: int) -> None:
        """Prune runs that ended long enough ago, page by page."""
        ended = [Mark(run.ended_at or 0, run.id) for run in self.world.ended()]
        until = Mark(self.now - age * SECOND, 2**62) if age or not ended else ended[-1]
        cut, after = Cut(states, until, of_job), None
        for _ in range(passes):
            pruned = self.both(
                partial(self.store.prune_runs, cut, after=after, limit=limit, now=self.now),
                partial(self._wanted_prune, cut, after, limit),
            )
            assert pruned is not None
            after = pruned.passed

    def _wanted_prune(self, cut: Cut, after: Mark | None, limit: int, _: object) -> Pruned:
        return Pruned(*upkeep.prune_runs(self.world, cut, after, limit, self.now))

    @aside
    @rule(age=st.sampled_from([0, 2, 5]), nodes_too=SELDOM)
    def prune_the_rest(self, age: int, nodes_too: bool) -> None:
        until = self.now - age * SECOND
        self.both(lambda: self.store.prune_skips(until), lambda _: upkeep.prune_skips(self.world, until))
        if nodes_too:
            wanted = upkeep.prune_nodes(self.world, until)
            assert self.do(self.store.prune_nodes(until)).nodes == wanted

    @aside
    @rule()
    def recount(self) -> None:
        """The recount is a safety net, and must find nothing."""
        assert self.both(
            lambda: self.store.recount_gates(now=self.now), lambda _: gates.recount(self.world, self.now)
        ) == 0  # fmt: skip

    # ── queues ───────────────────────────────────────────────────────────────────────────────────────────────────

    @aside
    @rule(name=st.sampled_from(["default", "slow", "fair"]), why=st.sampled_from(["", "move"]), go_on=st.booleans())
    def pause_queue(self, name: str, why: str, go_on: bool) -> None:
        if go_on:
            self.both(
                lambda: self.store.resume_queue(name, now=self.now), lambda _: queues.resume_queue(self.world, name)
            )
        else:
            self.both(
                lambda: self.store.pause_queue(name, reason=why, now=self.now),
                lambda _: queues.pause_queue(self.world, name, why, self.now),
            )

    @rule(weights=st.sampled_from([None, {}, {"1": 2}]))
    def share_queue(self, weights: dict[str, int] | None) -> None:
        """Share a queue whose runs need no labels. Stores may give turns to several routes in different orders."""
        self.both(
            lambda: self.store.share_queue("fair", weights, now=self.now),
            lambda _: queues.share_queue(self.world, "fair", weights),
        )

    @rule(number=NUMBER, old=st.sampled_from([0, 0, 0, 1]), ahead=st.integers(0, 3), any_run=SELDOM)
    def place(self, number: int, old: int, ahead: int, any_run: bool) -> None:
        """Place as the assigner does, now and then a run that needs no placement."""
        if not self.terms:
            return
        until = self.now + ahead * SECOND
        found = self.do(self.store.queries.list_unassigned(until=until, limit=100, now=self.now))
        needing = queues.unplaced(self.world, until, self.now)
        assert [one.run_id for one in found] == [run.id for run in needing]
        assert [(one.due_at, one.place) for one in found] == [(run.due_at, run.place) for run in needing]
        ids = [one.run_id for one in found] or [0]
        if any_run:
            ids += [run.id for run in self.world.runs][number % max(1, len(self.world.runs)) :][:1]
        placements = [Placement(run_id, self.worker(number)) for run_id in [*ids, *ids[:1]]]
        term = self.terms[-1 - old % len(self.terms)]
        self.both(
            lambda: self.store.assign(term, placements, now=self.now),
            lambda _: queues.place(self.world, term, placements, self.now),
        )

    # ── invariant ────────────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def the_store_shows_what_the_oracle_says(self) -> None:
        self.steps += 1
        self.trial.judge(entirely=self.steps % 4 == 0)


def walk(machine: type[Machine], examples: int, *, shrink: bool = True, fixed: bool = not SOAK) -> None:
    """Make calls in any order. `fixed`: the same ones every time."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=60,
            deadline=None,
            derandomize=fixed,
            database=None,
            print_blob=not fixed,
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )
