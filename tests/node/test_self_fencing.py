"""A node that is cut off from the store stops its attempts before another node may start them again."""

import asyncio
from datetime import UTC, datetime

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.ids import SeededIds
from onthedot.model.errors import StoreUnavailable
from onthedot.model.events import (
    AttemptEnded,
    AttemptStarted,
    Events,
    NodeCutOff,
    NodeFenced,
    NodeJoined,
    RunRecovered,
    TermEnded,
    TermWon,
)
from onthedot.model.run import LIVE, TERMINAL
from onthedot.node.engine import Engine
from onthedot.rules import recovery
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.testing import VirtualClock, VirtualLoop, run_virtual
from onthedot.testing.store_wrapper import StoreWrapper
from tests.behind import runs_of

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


class Cable(StoreWrapper):
    """A store whose calls fail while `cut` is set, as if the network cable of the node were cut."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.cut = False

    async def _call(self, name, operation, args, kwargs):
        if self.cut:
            raise StoreUnavailable("the cable is cut")
        return await operation(*args, **kwargs)


class Node:
    """An engine with its own cable to the store, and the events that it emitted."""

    def __init__(self, name: str, store: Store, sched: otd.Scheduler) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.told: list = []
        self.cable = Cable(store)
        settings = otd.Settings(node_id=name)
        self.engine = Engine(
            self.cable,
            sched.registry,
            settings,
            Events([self.told.append]),
            store.clock or clock(),
            SeededIds(name),
        )

    async def start(self, sched: otd.Scheduler) -> None:
        await self.engine.start(list(sched.jobs.values()), asyncio.get_running_loop())

    def of(self, kind: type) -> list:
        return [event for event in self.told if isinstance(event, kind)]


def clock() -> VirtualClock:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return VirtualClock(loop, START)


def program(guarantee: str, seconds: float, executed: list) -> otd.Scheduler:
    sched = otd.Scheduler("memory:")

    @sched.job(schedule=otd.at("2026-06-01T12:00:10Z"), guarantee=otd.Guarantee(guarantee))
    async def work(ctx: otd.Context) -> str:
        executed.append((ctx.attempt, ctx.fence))
        try:
            await asyncio.sleep(seconds)
        finally:
            executed.append(("end", ctx.attempt))
        return f"attempt {ctx.attempt}"

    return sched


async def cut_off(guarantee: str, executed: list) -> tuple[MemoryStore, Node, Node]:
    """Node a starts the run and is then cut off for a minute. Node b stays connected."""
    store, sched = MemoryStore(clock()), program(guarantee, 45, executed)
    a, b = Node("a", store, sched), Node("b", store, sched)
    await a.start(sched)
    await asyncio.sleep(11)
    await b.start(sched)
    await asyncio.sleep(1)
    a.cable.cut = True
    await asyncio.sleep(60)
    a.cable.cut = False
    await asyncio.sleep(60)
    for node in (a, b):
        await node.engine.stop(asyncio.Event())
    return store, a, b


def test_a_run_of_a_dead_node_is_recovered_and_its_late_answer_changes_nothing():
    executed: list = []
    store, _, b = run_virtual(cut_off("at_least_once", executed))
    [run] = runs_of(store, TERMINAL)
    assert (run.state, run.attempts, run.recoveries, run.result) == ("succeeded", 2, 1, '"attempt 2"')
    (one, first), _, (two, second), _ = executed
    assert (one, two) == (1, 2)
    assert first < second
    [recovered] = b.of(RunRecovered)
    assert recovered.lease.attempt == 1
    assert [event.finish.lease.attempt for event in b.of(AttemptEnded)] == [2]


def test_a_node_that_is_cut_off_stops_its_attempts_before_others_start_them_again():
    """It stops them a margin before its lease ends, so that no run executes twice at the same time."""
    executed: list = []
    _, a, b = run_virtual(cut_off("at_least_once", executed))
    assert [what if what == "end" else "start" for what, _ in executed] == ["start", "end", "start", "end"]
    assert [event.stopped for event in a.of(NodeCutOff)] == [1]
    assert not b.of(NodeCutOff)


def test_an_at_most_once_run_is_lost_with_its_node_and_never_runs_again():
    executed: list = []
    store, a, b = run_virtual(cut_off("at_most_once", executed))
    [run] = runs_of(store, TERMINAL)
    assert (run.state, run.reason, run.attempts) == ("lost", "node lost", 1)
    assert [what for what, _ in executed] == [1, "end"]
    assert a.of(NodeCutOff)
    assert not b.of(AttemptStarted)


def test_a_node_that_was_declared_dead_continues_under_a_new_incarnation():
    executed: list = []
    _, a, _ = run_virtual(cut_off("at_least_once", executed))
    [fenced] = a.of(NodeFenced)
    first, second = a.of(NodeJoined)
    assert fenced.incarnation == first.incarnation != second.incarnation
    assert fenced.node_id == first.node_id == second.node_id == "a"


def test_the_term_passes_to_a_living_node():
    executed: list = []
    _, a, b = run_virtual(cut_off("at_least_once", executed))
    assert a.of(TermWon)[0].number == 1
    assert b.of(TermWon)[0].number == 2
    assert a.of(TermEnded)


def test_a_short_outage_changes_nothing():
    """The node is cut off for less than its lease. It renews the lease and keeps its run."""

    async def scenario(executed: list):
        store, sched = MemoryStore(clock()), program("at_least_once", 20, executed)
        a, b = Node("a", store, sched), Node("b", store, sched)
        await a.start(sched)
        await asyncio.sleep(11)
        await b.start(sched)
        a.cable.cut = True
        await asyncio.sleep(7)
        a.cable.cut = False
        await asyncio.sleep(60)
        for node in (a, b):
            await node.engine.stop(asyncio.Event())
        return store, a, b

    executed: list = []
    store, a, b = run_virtual(scenario(executed))
    [run] = runs_of(store, TERMINAL)
    assert (run.state, run.attempts) == ("succeeded", 1)
    assert not a.of(NodeFenced)
    assert not b.of(RunRecovered)


def test_a_machine_that_slept_keeps_its_run():
    """A laptop sleeps for ten hours. Its lease has ended, but no other node acted on that, so it is renewed."""

    async def scenario(executed: list):
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        store, sched = MemoryStore(clock()), program("at_least_once", 30, executed)
        a = Node("a", store, sched)
        await a.start(sched)
        await asyncio.sleep(12)
        loop._virtual_time += 10 * 3600  # every timer is overdue at once
        await asyncio.sleep(60)
        await a.engine.stop(asyncio.Event())
        return store, a

    executed: list = []
    store, a = run_virtual(scenario(executed))
    [run] = runs_of(store, TERMINAL)
    assert (run.state, run.attempts, len(executed)) == ("succeeded", 1, 2)
    assert not a.of(NodeCutOff)
    assert not a.of(NodeFenced)
    assert run.ended_at is not None
    assert run.ended_at - run.due_at > 10 * 3600 * SECOND


def test_an_armed_run_does_not_start_if_its_node_froze_and_lost_it():
    """The node freezes after arming, for longer than its lease. A run that was taken from it does not start."""

    async def scenario(executed: list):
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        store, sched = MemoryStore(clock()), program("at_most_once", 1, executed)
        a = Node("a", store, sched)
        await a.start(sched)
        await asyncio.sleep(9.98)
        assert [run.state for run in runs_of(store, LIVE)] == ["running"], "expected an armed run"
        assert not executed, "expected a run that is not due yet"
        loop._virtual_time += 60
        now = clock().now()
        [lease] = await store.orphans(limit=10, now=now)
        verdict = recovery.decide(
            lease.record.job, recoveries=0, now=now, why="its node's lease ended", due_at=lease.due_at
        )
        assert await store.reap([(lease, verdict)], now=now) == [True]
        await asyncio.sleep(30)
        await a.engine.stop(asyncio.Event())
        return store, a

    executed: list = []
    store, a = run_virtual(scenario(executed))
    [run] = runs_of(store, TERMINAL)
    assert run.state == "lost"
    assert executed == []
    assert a.of(NodeFenced)


def test_an_armed_run_that_is_released_does_not_start_early():
    """Its node stops after arming the run, and another one takes it at once. It starts at its instant there, too."""

    async def scenario(executed: list):
        store, sched = MemoryStore(clock()), program("at_least_once", 1, executed)
        a = Node("a", store, sched)
        await a.start(sched)
        await asyncio.sleep(9.98)
        assert [run.state for run in runs_of(store, LIVE)] == ["running"], "expected an armed run"
        in_a_hurry = asyncio.Event()
        in_a_hurry.set()
        await a.engine.stop(in_a_hurry)
        assert not executed, "expected a run that is not due yet"
        b = Node("b", store, sched)
        await b.start(sched)
        await asyncio.sleep(5)
        await b.engine.stop(asyncio.Event())
        return store, b

    executed: list = []
    store, b = run_virtual(scenario(executed))
    [started] = b.of(AttemptStarted)
    assert started.started_at >= started.lease.slot_at
    [run] = runs_of(store, TERMINAL)
    assert (run.state, run.attempts, run.recoveries) == ("succeeded", 2, 0)
