"""Any order of calls, also late, stale and repeated ones: a store does what the model does, and its invariants hold.

All spans are chosen so that no two instants meet by chance (half seconds against whole ones): what happens at the
very end of a lease is the business of the checks.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from onthedot.clock import SECOND
from onthedot.errors import NodeExpired, SlotSettled, TermLost
from onthedot.retention import Cut, Mark
from onthedot.run import TERMINAL, Armed, Lease, NewRun, RunRecord, RunState, manual_trigger, submit_trigger
from onthedot.stores.base import ExceptReason, Node, SkipRange, Slot, Store, Window
from onthedot.stores.memory import MemoryStore
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.redis import RedisStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing.contract.workbench import DEAD, LOST, START, SUCCESS, Workbench, every, window
from onthedot.verdict import OutcomeKind, Verdict
from tests.contract.model import Model
from tests.contract.model import Node as ModelNode
from tests.lanes import SOAK
from tests.servers.valkey import ValkeyServer
from tests.stores.postgres.emptied import empty

pytestmark = pytest.mark.slow

T = TypeVar("T")

STEP = 2 * SECOND  # between two slots
LAPSE, LATE, HORIZON = 3_500_000, 2_300_000, 3 * SECOND
TTLS = st.sampled_from([5_700_000, 60_700_000])
SLOT = "schedule:s"
FATES = st.lists(st.sampled_from(["run", "run", "missed", "paused"]), min_size=1, max_size=3)
OUTCOMES = st.sampled_from([SUCCESS, DEAD, LOST, OutcomeKind.FAILED, OutcomeKind.LOST])


class Machine(RuleBasedStateMachine):
    """One store, one job, a planner that never dies and workers that do."""

    leases: Bundle[Lease] = Bundle("leases")
    workers: Bundle[str] = Bundle("workers")

    def open_store(self) -> Store:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store = self.open_store()
        self.bench = Workbench(self.store)
        self.model = Model(START)
        self.endings: dict[int, RunRecord] = {}

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    def teardown(self) -> None:
        self.do(self.store.close())
        self.loop.close()

    @property
    def now(self) -> int:
        return self.bench.now

    def verdict(self, drawn: Verdict | OutcomeKind) -> Verdict:
        """A terminal verdict as it is; for an outcome, another try in a second."""
        if isinstance(drawn, Verdict):
            return drawn
        failed = drawn is OutcomeKind.FAILED
        return Verdict(RunState.SCHEDULED, drawn, "again", self.now + SECOND, failed=failed, recovered=not failed)

    # ── the rules ────────────────────────────────────────────────────────────────────────────────────────────

    @initialize(target=workers)
    def begin(self) -> Any:
        """Two workers, and little work: calls are to meet on the same runs."""
        put = self.do(self.bench.put(self.bench.job(every(2)), window(0, 0, next_at=2)))
        self.record = put.record
        self.planner = self.do(self.bench.node("planner", ttl=1_000_000))
        self.term = self.do(self.bench.term(self.planner, ttl=1_000_000))
        self.submit(0, 0)
        self.plan(["run"], 1)
        return multiple(self.register(5_700_000), self.register(60_700_000))

    @rule(seconds=st.sampled_from([1, 2, 3, 6, -2]))
    def turn(self, seconds: int) -> None:
        """Time passes; now and then somebody sets the clock back."""
        self.bench.now = max(START, self.now + seconds * SECOND)

    @rule(fates=FATES, off=st.integers(0, 3))
    def plan(self, fates: list[str], off: int) -> None:
        """Plan the next slots; one time in four from another watermark than the stored one."""
        start = self.model.watermark if off else self.model.watermark - STEP
        fated = [(start + STEP * (place + 1), fate) for place, fate in enumerate(fates)]
        end = fated[-1][0]
        slots = [Slot(at, at + LATE) for at, fate in fated if fate == "run"]
        skips = [SkipRange(at, at, 1, fate) for at, fate in fated if fate != "run"]
        plan = Window("s", start, end, end + STEP, slots, skips)
        accepted = self.do(self.bench.plan(self.term, self.record, plan))
        assert accepted == [bool(off)]
        if off:
            self.model.watermark = end
            for slot in [slot for slot in slots if slot.slot_at not in self.model.given]:
                seconds = (slot.slot_at - START) / SECOND
                run = self.do(self.bench.slot_run(self.record, seconds))
                self.model.add(run.id, (SLOT, slot.slot_at), slot.expires_at)

    @rule(place=st.integers(-2, 3), moved=st.booleans(), due=st.integers(0, 1))
    def except_slot(self, place: int, moved: bool, due: int) -> None:
        """Give a slot its fate ahead, planned or not; too late, or twice, as it happens."""
        slot = max(START + STEP, self.model.watermark + place * STEP)
        key = (manual_trigger(str(slot)), START + due * SECOND)
        reason: ExceptReason = "moved" if moved else "cancelled"
        run = NewRun(self.record.id, *key) if moved else None
        call = self.store.except_slot(self.record.id, "s", slot, reason=reason, run=run, now=self.now)
        if not self.model.may_except(SLOT, slot, reason, key if moved else None, self.now):
            with pytest.raises(SlotSettled):
                self.do(call)
            return
        answer = self.do(call)
        if answer.run_id is not None:
            self.model.add(answer.run_id, key, None)
        assert (answer.slot_at, answer.reason, answer.run_id is not None) == (slot, reason, moved)
        self.model.except_slot(SLOT, slot, reason, answer.run_id)

    @rule()
    def plan_after_resigning(self) -> None:
        old, self.term = self.term, self.do(self._next_term())
        start = self.model.watermark
        late = Window("s", start, start + STEP, None, [Slot(start + STEP, None)])
        with pytest.raises(TermLost):
            self.do(self.bench.plan(old, self.record, late))

    async def _next_term(self) -> Any:
        assert await self.store.resign(self.term, now=self.now)
        return await self.bench.term(self.planner, ttl=1_000_000)

    @rule(token=st.integers(0, 1), due=st.integers(0, 3))
    def submit(self, token: int, due: int) -> None:
        """Few tokens and instants: many of these were submitted before."""
        key = (submit_trigger(str(token)), START + due * SECOND)
        [run_id] = self.do(self.store.submit([NewRun(self.record.id, *key)], now=self.now))
        self.model.add(run_id, key, None)

    @precondition(lambda self: sum(node.alive(self.now) for node in self.model.nodes.values()) < 3)
    @rule(target=workers, ttl=TTLS)
    def register(self, ttl: int) -> str:
        incarnation = f"worker-{self.bench.ids.token()}"
        self.do(self.store.register(Node(id="worker", incarnation=incarnation), ttl=ttl, now=self.now))
        self.model.nodes[incarnation] = ModelNode(self.now + ttl, ttl)
        self._cut_leases()
        return incarnation

    def _cut_leases(self) -> None:
        """Leases that were written before the clock was set back end a lease from now at the latest."""
        for node in self.model.nodes.values():
            if not node.ended:
                node.lease_until = min(node.lease_until, self.now + node.ttl)

    @rule(worker=workers, ttl=TTLS)
    def beat(self, worker: str, ttl: int) -> None:
        node = self.model.nodes[worker]
        if node.ended:
            with pytest.raises(NodeExpired):
                self.do(self.store.beat(worker, ttl=ttl, now=self.now))
        else:
            assert self.do(self.store.beat(worker, ttl=ttl, now=self.now)).lease_until == self.now + ttl
            node.lease_until, node.ttl = self.now + ttl, ttl
            self._cut_leases()

    @rule(worker=workers, politely=st.booleans())
    def stop(self, worker: str, politely: bool) -> None:
        """A worker leaves; or it dies, and its lease ends without a word."""
        if not politely:
            self.bench.now = max(self.now, self.model.nodes[worker].lease_until // SECOND * SECOND + SECOND)
        elif not self.model.nodes[worker].ended:
            self.do(self.store.leave(worker, now=self.now))
            self.model.leave(worker)

    @rule(target=leases, worker=workers)
    def take(self, worker: str) -> Any:
        return self.reserve(worker, 1, 0)

    @rule(target=leases, worker=workers)
    def hold(self, worker: str) -> Any:
        return self.reserve(worker, 0, 1)

    @rule(target=leases, worker=workers, seats=st.integers(0, 3), ahead=st.integers(0, 3))
    def reserve(self, worker: str, seats: int, ahead: int) -> Any:
        """As much due work as there are seats, and future work if all that was due could be taken."""
        ask = self.bench.reserve(worker, seats=seats, ahead=ahead, horizon=HORIZON / SECOND, lapse=LAPSE / SECOND)
        if not self.model.nodes[worker].alive(self.now):
            with pytest.raises(NodeExpired):
                self.do(ask)
            return multiple()
        got = self.do(ask)
        due, near = self.model.due(self.now), self.model.ahead(self.now, HORIZON)
        armed, held = {lease.run_id for lease in got.armed}, {lease.run_id for lease in got.held}
        assert armed <= due
        assert len(armed) == len(got.armed) == min(seats, len(due))
        assert held <= near
        assert len(held) == len(got.held) <= min(ahead, len(near))
        assert len(held) == min(ahead, len(near)) or armed != due
        for lease in [*got.armed, *got.held]:
            run = self.model.runs[lease.run_id]
            run.reserve(lease.lease_id, worker, max(self.now, run.due_at) + LAPSE)
        for lease in got.armed:
            self.model.runs[lease.run_id].arm()
        assert all(lease.attempt == self.model.runs[lease.run_id].attempts for lease in got.armed)
        assert (got.look_again_at or self.now) >= self.now
        return multiple(*got.armed, *got.held)

    @rule(lease=leases)
    def arm(self, lease: Lease) -> None:
        run = self.model.run(lease.run_id)
        if not self.model.nodes[lease.incarnation].alive(self.now):
            with pytest.raises(NodeExpired):
                self.do(self.bench.arm(lease))
            return
        [answer] = self.do(self.bench.arm(lease))
        assert isinstance(answer, Armed) == (run.lease == lease.lease_id)
        if run.held_under(lease.lease_id, RunState.RESERVED):
            run.arm()

    @rule(lease=leases)
    def release(self, lease: Lease) -> None:
        assert self.do(self.bench.release(lease)) == [self.model.release(lease.run_id, lease.lease_id)]

    @rule(lease=leases, outcome=OUTCOMES)
    def finish(self, lease: Lease, outcome: Verdict | OutcomeKind) -> None:
        """Current, stale or repeated: as the lease happens to be."""
        verdict = self.verdict(outcome)
        accepted = self.do(self.bench.finish(lease, verdict))
        assert accepted == self.model.finish(lease.run_id, lease.lease_id, verdict)

    @rule(lease=leases, outcome=OUTCOMES)
    def reap_one(self, lease: Lease, outcome: Verdict | OutcomeKind) -> None:
        verdict = self.verdict(outcome)
        accepted = self.do(self.bench.reap(lease, verdict))
        assert accepted == self.model.reap(lease.run_id, lease.lease_id, verdict, self.now)

    @rule()
    def upkeep(self) -> None:
        """The pass of a node's own upkeep: what is missed expires; every orphan that is shown can be taken."""
        assert set(self.do(self.bench.expire())) == self.model.expire(self.now)
        found = self.do(self.store.orphans(limit=1000, now=self.now))
        assert {lease.run_id for lease in found} == self.model.orphans(self.now)
        again = self.verdict(OutcomeKind.LOST)
        assert all(self.do(self.store.reap([(lease, again) for lease in found], now=self.now)))
        assert all(self.model.reap(lease.run_id, lease.lease_id, again, self.now) for lease in found)

    @rule(age=st.sampled_from([0, 2, 5]), states=st.sampled_from([TERMINAL, frozenset({RunState.SUCCEEDED})]))
    def prune(self, age: int, states: frozenset[RunState]) -> None:
        """What ended so many seconds ago goes, and is counted; what is live, or above the watermark, stays."""
        until = self.now - age * SECOND
        ended = {i for i in self.model.ended() if (self.endings[i].ended_at or 0) <= until}
        going = self.model.prune(ended, states, self.now)
        pruned = self.do(self.store.prune_runs(Cut(states, Mark(until, 2**62)), now=self.now))
        assert (pruned.runs, pruned.more) == (len(going), False)

    # ── what always holds ────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def the_store_is_as_the_model_says(self) -> None:
        self.do(self._compare())

    async def _compare(self) -> None:
        runs = {run.id: run for run in await self.bench.runs()}
        assert runs.keys() == self.model.runs.keys()
        for run_id, run in runs.items():
            expected = self.model.runs[run_id]
            counts = (run.attempts, run.failures, run.recoveries)
            assert (run.state, run.due_at) == (expected.state, expected.due_at)
            assert counts == (expected.attempts, expected.failures, expected.recoveries)
        assert len({(run.trigger, run.slot_at) for run in runs.values()}) == len(runs)  # unique keys
        for run_id in self.model.ended():  # terminal absorbs
            assert runs[run_id] == self.endings.setdefault(run_id, runs[run_id])
        await self._compare_holders()
        for run_id in runs:
            await self._compare_attempts(run_id)
        pruned = self.model.pruned.values()
        counted = Counter({one.state: one.count for one in await self.store.list_daily_counts()})
        assert counted == Counter(run.state for run in pruned)
        if self.model.watermark > START:
            gone = {run.key[1] for run in pruned if run.key[0] == SLOT}
            await self._compare_ledger(gone | {run.slot_at for run in runs.values() if run.trigger == SLOT})

    async def _compare_holders(self) -> None:
        """One holder per run, and the one the model says."""
        held: list[int] = []
        for incarnation in self.model.nodes:
            leases = await self.store.held(incarnation)
            assert {lease.run_id: lease.lease_id for lease in leases} == self.model.held(incarnation)
            held += [lease.run_id for lease in leases]
        assert len(held) == len(set(held))

    async def _compare_attempts(self, run_id: int) -> None:
        """Attempts are 1..k, each under its own lease, their fences growing."""
        attempts = await self.store.list_attempts(run_id)
        fences = [attempt.fence for attempt in attempts]
        assert [attempt.attempt for attempt in attempts] == list(range(1, len(attempts) + 1))
        assert fences == sorted(set(fences))
        assert {one.lease_id: one.outcome for one in attempts} == self.model.runs[run_id].recorded

    async def _compare_ledger(self, planned: set[int]) -> None:
        """Every slot up to the watermark has exactly one fate."""
        state = await self.bench.schedule(self.record)
        assert state.watermark == self.model.watermark
        skips = await self.store.list_skips(limit=100_000)
        for slot in range(START + STEP, state.watermark + 1, STEP):
            covering = [skip for skip in skips if skip.first <= slot <= skip.last]
            assert len(covering) + (slot in planned) == 1
        assert sum(skip.count for skip in skips) + len(planned) == (state.watermark - START) // STEP
        assert {one.slot_at: (one.reason, one.run_id) for one in state.exceptions} == self.model.given
        by_reason = {skip.first: skip.reason for skip in skips if skip.count == 1}
        assert all(by_reason.get(slot, reason) == reason for slot, (reason, _) in self.model.given.items())


class MemoryMachine(Machine):
    def open_store(self) -> Store:
        return MemoryStore()


class SqliteMachine(Machine):
    def open_store(self) -> Store:
        self.folder = tempfile.TemporaryDirectory(dir=FAST)
        return self.do(SqliteStore.open(Path(self.folder.name) / "otd.db", inline=True))

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class PostgresMachine(Machine):
    url: str

    def open_store(self) -> Store:
        empty(self.url)
        return self.do(PostgresStore.open(self.url))


class RedisMachine(Machine):
    server: ValkeyServer

    def open_store(self) -> Store:
        self.server.empty()
        return self.do(RedisStore.open(self.server.url()))


FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
THOROUGH = 40 if SOAK else 1


@pytest.mark.timeout(600)  # a failure is worth the time it takes to find its shortest form
@pytest.mark.parametrize(("machine", "examples"), [(MemoryMachine, 180), (SqliteMachine, 70)])
def test_any_order_of_calls(machine: type[Machine], examples: int):
    run(machine, examples)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_any_order_of_calls_on_postgres(migrated_url: str):
    run(type("OnThisServer", (PostgresMachine,), {"url": migrated_url}), 6)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_any_order_of_calls_on_redis(valkey: ValkeyServer):
    run(type("OnThisServer", (RedisMachine,), {"server": valkey}), 10)


def run(machine: type[Machine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples * THOROUGH,
            stateful_step_count=50,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
