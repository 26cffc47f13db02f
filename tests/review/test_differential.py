"""SQL and Redis behave the same for any order of calls, with gates, edits, pauses and a clock that is set.

The two stores share only pure rules. The test arms runs as a worker does, and plans windows as the planner does. After
each step it compares the content of both stores, and the holders and waiters of all gates. The rules that gates must
obey in any store are in the oracle (`tests/contract/oracle/promises.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from onthedot.clock import SECOND
from onthedot.model.job import Call, Job, Limit, Overlap
from onthedot.model.retention import Cut, Mark
from onthedot.model.run import TERMINAL, GateAsk, Lease, NewRun, RunState, submit_trigger
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.rules import gates as policy
from onthedot.rules.windows import edit_windows, plan_window, resume_windows
from onthedot.runners.params import arguments_of
from onthedot.stores.values import Node
from onthedot_verify.contract.workbench import CANCELLED, DEAD, LOST, START, SUCCESS, TASK, every, fixed_delay
from tests.lanes import SOAK
from tests.review.twins import Twin, Twins
from tests.servers.valkey import ValkeyServer

pytestmark = pytest.mark.slow

LOOKAHEAD, LATE, HORIZON, LAPSE = 6 * SECOND, 3 * SECOND, 3.0, 1.5
NAMES = st.sampled_from(["a", "b"])
TTLS = st.sampled_from([5_700_000, 60_700_000, 60_700_000])
OVERLAPS = [
    Overlap("wait"), Overlap("wait", max_waiting=0), Overlap("skip"), Overlap("replace"),
    Overlap("allow"), Overlap("allow", max_running=1), Overlap("allow", max_running=2),
]  # fmt: skip
LIMITS = [None, Limit(1), Limit(2), Limit(1, name="x"), Limit(2, name="x"), Limit(1, key="t"), Limit(1, name="y")]
# One schedule each: a store may choose the order in which runs of several windows get their ids, which break ties.
SCHEDULES = [(), (every(2),), (every(3),), (fixed_delay(2),), (every(3, name="z"),)]
BOTH = frozenset({TASK, "call:b"})
OFFERS = st.sampled_from([(TASK,), tuple(sorted(BOTH)), ()])  # the registered tasks; workers ask for all
OUTCOMES = st.sampled_from([SUCCESS, DEAD, LOST, CANCELLED, OutcomeKind.FAILED, OutcomeKind.LOST])
Pair = tuple[Lease, Lease]
PICKS = st.lists(
    st.integers(0, 5), min_size=1, max_size=3, unique=True
)  # indexes into the newest leases, many of them stale


class Machine(RuleBasedStateMachine):
    """Calls for two jobs with shared gates, some workers, and one planner that never dies."""

    server: ValkeyServer
    workers: Bundle[str] = Bundle("workers")

    def __init__(self) -> None:
        super().__init__()
        self.twins = Twins(self.server)
        self.alive = 0
        self.submitted = 0
        self.leases: list[Pair] = []  # all leases so far, newest last
        self.asked = 0

    def teardown(self) -> None:
        self.twins.close()

    @property
    def now(self) -> int:
        return self.twins.sql.bench.now

    def both(self, call: Any) -> Any:
        """Make the same call to both stores, and return the answer of the SQL store."""
        return self.twins.both(call)[0]

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @initialize(target=workers, one=st.sampled_from(OVERLAPS), two=st.sampled_from(LIMITS))
    def begin(self, one: Overlap, two: Limit | None) -> Any:
        planner = self.both(lambda twin: twin.bench.node("planner", ttl=1_000_000, tasks=()))
        assert isinstance(planner, str)
        self.term = self.both(lambda twin: twin.bench.term(planner, ttl=1_000_000))
        self.put("a", one, two, SCHEDULES[1])
        self.put("b", Overlap("allow"), Limit(1, name="x"), ())
        for number in range(3):
            self.submit("ab"[number % 2], 0, "", "1", None)
        return multiple(self.register(5_700_000, tuple(sorted(BOTH))), self.register(60_700_000, (TASK,)))

    @rule(
        name=NAMES,
        overlap=st.sampled_from(OVERLAPS),
        limit=st.sampled_from(LIMITS),
        schedules=st.sampled_from(SCHEDULES),
    )
    def put(self, name: str, overlap: Overlap, limit: Limit | None, schedules: Any) -> None:
        task = Call(handler="b" if name == "b" else "work")
        job = self.twins.sql.bench.job(*schedules, name=name, overlap=overlap, concurrency=limit, task=task)
        self.both(lambda twin: self._put(twin, job))

    async def _put(self, twin: Twin, job: Job) -> Any:
        stored = await twin.store.queries.get_job(job.name)
        known = (
            {} if stored is None else {one.schedule_id: one for one in await twin.store.queries.schedules_of(stored.id)}
        )
        windows = edit_windows(job, known, now=self.now, lookahead=LOOKAHEAD, late_after=LATE)
        return await twin.store.put_job(job, windows, expected=stored.revision if stored else 0, now=self.now)

    def job_id(self, name: str) -> int | None:
        found = self.both(lambda twin: twin.store.queries.get_job(name))
        return None if found is None else int(found.id)

    @rule(name=NAMES, until=st.sampled_from([None, 3]), why=st.sampled_from(["once", "again"]))
    def pause(self, name: str, until: int | None, why: str) -> None:
        end = None if until is None else self.now + until * SECOND
        if (job_id := self.job_id(name)) is not None:
            self.both(lambda twin: twin.store.pause_job(job_id, reason=why, until=end, now=self.now))
            self.both(self._due_resumes)

    async def _due_resumes(self, twin: Twin) -> Any:
        """Return the due resumes sorted, because a store may return them in any order."""
        return sorted(await twin.store.queries.due_resumes(now=self.now + 5 * SECOND), key=lambda record: record.id)

    @rule(name=NAMES, missed=st.sampled_from(["none", "last", "all"]), dry_run=st.booleans())
    def resume(self, name: str, missed: Any, dry_run: bool) -> None:
        if (job_id := self.job_id(name)) is not None:
            self.both(lambda twin: self._resume(twin, job_id, missed, dry_run))

    async def _resume(self, twin: Twin, job_id: int, missed: Any, dry_run: bool) -> Any:
        states = await twin.store.queries.schedules_of(job_id)
        windows = resume_windows(states, missed=missed, now=self.now, lookahead=LOOKAHEAD, late_after=LATE)
        return await twin.store.resume_job(job_id, windows, dry_run=dry_run, now=self.now)

    @rule(name=NAMES, really=st.sampled_from([False, False, True]))
    def delete(self, name: str, really: bool) -> None:
        if really and (job_id := self.job_id(name)) is not None:
            self.both(lambda twin: twin.store.delete_job(job_id, now=self.now))

    # ── time and plans ───────────────────────────────────────────────────────────────────────────────────────────

    @rule(seconds=st.sampled_from([0.5, 1, 2, 2, 3, -2]))
    def turn(self, seconds: float) -> None:
        """Let time pass, or sometimes set the clock back."""
        self.twins.turn_to(max(START, self.now + round(seconds * SECOND)))

    @rule(stale=st.booleans())
    def plan(self, stale: bool) -> None:
        """Plan as the planner does; `stale`: once more with the old state."""

        async def work(twin: Twin) -> Any:
            due = await twin.store.due_schedules(until=self.now + LOOKAHEAD, limit=100)
            answers = []
            for state in due.schedules:
                found = plan_window(state, until=self.now + LOOKAHEAD, now=self.now, late_after=LATE)
                assert found is not None
                for _ in range(1 + stale):
                    answers += await twin.store.plan(self.term, [(state, found)], now=self.now)
            return answers

        self.both(work)

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: self.alive < 4)
    @rule(target=workers, ttl=TTLS, tasks=OFFERS)
    def register(self, ttl: int, tasks: tuple[str, ...]) -> str:
        """Register a worker for all tasks or fewer, so that a run with a place may find no worker."""
        self.alive += 1
        name = f"worker-{self.alive}"
        node = Node(id="worker", incarnation=name, queues=("default",), tasks=tasks)
        self.both(lambda twin: twin.store.register(replace(node), ttl=ttl, now=self.now))
        return name

    @rule(worker=workers, ttl=TTLS)
    def beat(self, worker: str, ttl: int) -> None:
        def call(twin: Twin) -> Any:
            return twin.store.beat(worker, ttl=ttl, now=self.now)

        self.both(call)

    @rule(worker=workers, really=st.sampled_from([False, False, True]))
    def leave(self, worker: str, really: bool) -> None:
        if really:
            self.both(lambda twin: twin.store.leave(worker, now=self.now))

    # ── the life of a run ────────────────────────────────────────────────────────────────────────────────────────

    @rule(
        name=NAMES,
        due=st.sampled_from([-1, 0, 0, 2]),
        key=st.sampled_from(["", "", "k"]),
        tenant=st.sampled_from(["1", "2"]),
        expires=st.sampled_from([None, None, 4]),
    )
    def submit(self, name: str, due: int, key: str, tenant: str, expires: int | None) -> None:
        if (job_id := self.job_id(name)) is None:
            return
        self.submitted += 1
        at = self.now + due * SECOND
        until = None if expires is None else at + expires * SECOND
        trigger = submit_trigger(str(self.submitted))
        new = NewRun(job_id, trigger, at, f'{{"t":{tenant}}}', key, until)

        async def work(twin: Twin) -> Any:
            ids = await twin.store.submit([new], now=self.now)
            await twin.learn()
            return [twin.names[one] for one in ids]

        self.both(work)

    def picked(self, picks: list[int]) -> list[Pair]:
        return [self.leases[-1 - pick] for pick in picks if pick < len(self.leases)]

    @rule(worker=workers, seats=st.integers(0, 3), ahead=st.integers(0, 3), late=st.booleans())
    def reserve(self, worker: str, seats: int, ahead: int, late: bool) -> None:
        """Reserve runs; `late`: with a request number that may be void by now."""
        self._take(worker, seats, ahead, late)

    def _take(self, worker: str, seats: int, ahead: int, late: bool) -> list[Pair]:
        """Reserve with `extra` room, so that both stores look equally far behind a backlog."""
        self.asked += 1
        number = 0 if late else self.asked

        async def work(twin: Twin) -> Any:
            got = await twin.bench.reserve(
                worker,
                seats=seats,
                ahead=ahead,
                extra=50,
                horizon=HORIZON,
                lapse=LAPSE,
                number=number,
                tasks=BOTH,
            )
            for lease in [*got.armed, *got.held]:
                twin.lease_names[lease.lease_id] = f"{twin.names[lease.run_id]}#{self.asked}"
            return got

        got = self.twins.both(work)
        if isinstance(got[0], Exception):
            return []
        held = list(zip(got[0].held, got[1].held, strict=True))
        self.leases += [*zip(got[0].armed, got[1].armed, strict=True), *held]
        return held

    @rule(worker=workers, seats=st.integers(1, 4))
    def work(self, worker: str, seats: int) -> None:
        """Reserve due runs and arm them in one call, as a worker does most of the time."""
        self._arm_all(self._take(worker, seats, 0, False), early=False)

    @rule(worker=workers, below=st.booleans())
    def held(self, worker: str, below: bool) -> None:
        void = self.asked + 1 if below else 0

        async def work(twin: Twin) -> Any:
            return sorted(await twin.store.recover(worker, void_below=void), key=lambda one: twin.names[one.run_id])

        self.both(work)

    @rule(picks=PICKS, early=st.booleans())
    def arm(self, picks: list[int], early: bool) -> None:
        """Arm some leases as a worker does; `early`: as if none of them were due yet."""
        self._arm_all(self.picked(picks), early=early)

    def _arm_all(self, pairs: list[Pair], *, early: bool) -> None:
        if pairs:
            self.both(lambda twin: self._arm(twin, pairs, early))

    async def _arm(self, twin: Twin, pairs: list[Pair], early: bool) -> Any:
        leases = [pair[self.twins.pair.index(twin)] for pair in pairs]
        asks = {}
        for lease in leases:
            answer = policy.on_busy(lease, now=self.now)
            passing = policy.gates_of(lease.record, target="", arguments=arguments_of(lease))
            if passing:
                asks[lease.lease_id] = GateAsk(passing, None if early else answer)
        return await twin.store.arm(list(map(replace, leases)), gates=asks, now=self.now)

    @rule(picks=PICKS)
    def release(self, picks: list[int]) -> None:
        for pair in self.picked(picks):
            self.both(lambda twin, pair=pair: twin.bench.release(pair[self.twins.pair.index(twin)]))

    def verdict(self, drawn: Verdict | OutcomeKind) -> Verdict:
        if isinstance(drawn, Verdict):
            return drawn
        failed = drawn is OutcomeKind.FAILED
        return Verdict(RunState.SCHEDULED, drawn, "again", self.now + SECOND, failed=failed, recovered=not failed)

    @rule(picks=PICKS, twice=st.booleans(), outcome=OUTCOMES)
    def finish(self, picks: list[int], twice: bool, outcome: Verdict | OutcomeKind) -> None:
        """Finish some leases, current or stale; `twice`: each of them twice in one call."""
        self._finish_all(self.picked(picks) * (1 + twice), outcome)

    @rule(number=st.integers(0, 3), outcome=OUTCOMES)
    def end(self, number: int, outcome: Verdict | OutcomeKind) -> None:
        """Finish one of the running attempts."""
        running = self.twins.sql.running()
        pairs = [pair for pair in self.leases if pair[0].lease_id in running]
        self._finish_all(pairs[number % len(pairs) :][:1] if pairs else [], outcome)

    def _finish_all(self, pairs: list[Pair], outcome: Verdict | OutcomeKind) -> None:
        verdict = self.verdict(outcome)

        async def work(twin: Twin) -> Any:
            found = [pair[self.twins.pair.index(twin)] for pair in pairs]
            ended = [Finish(replace(lease), verdict, self.now, self.now) for lease in found]
            return await twin.store.finish(ended, now=self.now)

        self.both(work)

    @rule(number=st.integers(0, 9), why=st.sampled_from(["by hand", "by another"]))
    def cancel(self, number: int, why: str) -> None:
        """Cancel one of the runs, live or ended."""
        names = sorted(set(self.twins.sql.names.values()))
        if names:
            name = names[number % len(names)]
            self.both(lambda twin: twin.store.cancel([twin.id_of(name)], why=why, now=self.now))

    @rule(number=st.integers(0, 9), word=st.sampled_from(["replayed:1", "discarded:"]))
    def settle(self, number: int, word: str) -> None:
        """Settle one of the runs in any state, and compare the dead letters."""
        names = sorted(set(self.twins.sql.names.values()))
        if names:
            name = names[number % len(names)]
            self.both(lambda twin: twin.store.settle_dead([(twin.id_of(name), word)]))
            self.both(self._dead_letters)

    async def _dead_letters(self, twin: Twin) -> Any:
        return sorted(map(twin.plain, await twin.store.queries.list_dead()))

    # ── upkeep ───────────────────────────────────────────────────────────────────────────────────────────────────

    @rule()
    def expire(self) -> None:
        async def work(twin: Twin) -> Any:
            missed = await twin.store.expire(limit=100, now=self.now)
            await twin.learn()
            return sorted(map(twin.plain, missed))

        self.both(work)

    @rule(outcome=OUTCOMES)
    def reap(self, outcome: Verdict | OutcomeKind) -> None:
        verdict = self.verdict(outcome)

        async def work(twin: Twin) -> Any:
            found = await twin.store.orphans(limit=100, now=self.now)
            found.sort(key=lambda lease: twin.names[lease.run_id])
            return await twin.store.reap([(lease, verdict) for lease in found], now=self.now)

        self.both(work)

    @rule(picks=PICKS)
    def reap_late(self, picks: list[int]) -> None:
        for pair in self.picked(picks):
            self.both(lambda twin, pair=pair: twin.bench.reap(pair[self.twins.pair.index(twin)]))

    @rule(age=st.sampled_from([0, 3]), states=st.sampled_from([TERMINAL, frozenset({RunState.SUCCEEDED})]))
    def prune(self, age: int, states: frozenset[RunState]) -> None:
        cut = Cut(states, Mark(self.now - age * SECOND, 2**62))

        async def work(twin: Twin) -> Any:
            return (await twin.store.prune_runs(cut, now=self.now)).runs

        self.both(work)
        self.both(lambda twin: twin.store.prune_skips(self.now - SECOND))

    @rule()
    def recount(self) -> None:
        """A recount must never find a wrong gate."""
        assert self.both(lambda twin: twin.store.recount_gates(now=self.now)) == 0

    # ── after every step ─────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def stores_are_equal(self) -> None:
        self.twins.compare()


THOROUGH = 20 if SOAK else 1


@pytest.mark.timeout(600)  # enough to shrink a failure to its shortest form
def test_sql_and_redis_behave_the_same(valkey: ValkeyServer):
    run_machine(
        type("OnThisServer", (Machine,), {"server": valkey}),
        settings=settings(
            max_examples=20 * THOROUGH,
            stateful_step_count=50,
            deadline=None,
            derandomize=THOROUGH == 1,  # `make test` always makes the same walks, `make soak` new ones
            database=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )
