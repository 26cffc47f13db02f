"""If answers of the store are slow or lost, no run starts twice and none stays running for ever."""

import asyncio
from datetime import UTC, datetime

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.ids import SeededIds
from onthedot.model.errors import StoreUnavailable
from onthedot.model.events import AttemptEnded, DrainBegun, Events
from onthedot.model.run import LIVE, TERMINAL, NewRun, RunState
from onthedot.node.engine import Engine
from onthedot.stores.hints import Loss
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.testing import VirtualClock, VirtualLoop, run_virtual
from onthedot.testing.store_wrapper import StoreWrapper
from tests.behind import runs_of

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


class SlowStore(StoreWrapper):
    """A store whose calls take time. A lost answer means that the call was done but raised an error."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.latency: dict[str, float] = {}
        self.lose: list[str] = []
        self.fail: set[str] = set()
        self.forget: list[str] = []  # calls that succeed but are not done, as if the server had lost them

    async def _call(self, name, operation, args, kwargs):
        wait = self.latency.get(name, 0.0)
        await asyncio.sleep(wait)
        if name in self.fail:
            raise StoreUnavailable(f"{name} was not done")
        if name in self.forget:
            self.forget.remove(name)
            return [True] * len(args[0])
        answer = await operation(*args, **kwargs)
        if name in self.lose:
            self.lose.remove(name)
            raise StoreUnavailable(f"the answer of {name} was lost")
        await asyncio.sleep(wait)
        return answer


class Bench:
    """One engine on a slow store."""

    def __init__(self, seconds: float = 0.0, guarantee: str = "at_least_once", **settings) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop, START)
        self.memory = MemoryStore(self.clock)
        self.store = SlowStore(self.memory)
        self.executed: list[int] = []
        self.fences: list[int] = []
        self.told: list = []
        self.sched = otd.Scheduler("memory:", settings=otd.Settings(**settings))

        @self.sched.job(name="work", guarantee=otd.Guarantee(guarantee))
        async def work(ctx: otd.Context) -> None:
            self.executed.append(ctx.run_id)
            self.fences.append(ctx.fence)
            await asyncio.sleep(seconds)

        self.engine = Engine(
            self.store,
            self.sched.registry,
            self.sched.settings,
            Events([self.told.append]),
            self.clock,
            SeededIds(1),
        )

    async def start(self) -> None:
        await self.engine.start(list(self.sched.jobs.values()), asyncio.get_running_loop())

    async def submit(self, *delays: float) -> list[int]:
        record = await self.memory.queries.get_job("work")
        assert record is not None
        now = self.clock.now()
        runs = [NewRun(record.id, f"submit:{now}-{n}", now + round(d * SECOND)) for n, d in enumerate(delays)]
        return await self.memory.submit(runs)

    def states(self, wanted: frozenset[RunState]) -> list[RunState]:
        return [run.state for run in runs_of(self.memory, wanted)]


def test_a_run_that_is_being_armed_is_not_adopted_again():
    """The answer of a reserve is lost while another reservation is being armed."""

    async def scenario():
        bench = Bench(seconds=2, guarantee="at_most_once")
        await bench.start()
        await bench.submit(1.0)
        await asyncio.sleep(0.5)  # the run is reserved
        bench.store.latency = {"arm": 0.2}
        bench.store.lose = ["reserve"]  # the node calls `recover` during `arm`
        await asyncio.sleep(10)
        await bench.engine.stop(asyncio.Event())
        return bench

    bench = run_virtual(scenario())
    assert bench.executed == [1]


def test_a_run_that_is_being_armed_has_its_seat():
    """A node with one seat must not arm a second run during the arming of the first: it would wait for hours."""

    async def scenario():
        bench = Bench(seconds=3600, seats=1)
        await bench.start()
        await bench.submit(1.0)
        await asyncio.sleep(0.5)  # the run is reserved
        bench.store.latency = {"arm": 0.02, "reserve": 0.02}
        await asyncio.sleep(0.45)  # the run is being armed
        await bench.submit(0.0)
        await asyncio.sleep(1)
        states = bench.states(LIVE)
        hurry = asyncio.Event()
        hurry.set()
        await bench.engine.stop(hurry)
        return bench, states

    bench, states = run_virtual(scenario())
    assert len(bench.executed) == 1
    assert sorted(states) == ["running", "scheduled"]


def test_a_run_whose_arm_was_not_answered_runs_although_seats_are_short():
    async def scenario():
        bench = Bench(seconds=3, seats=1)
        await bench.start()
        await bench.submit(1.0)
        await asyncio.sleep(0.5)
        bench.store.lose = ["arm"]
        await asyncio.sleep(0.46)
        await bench.submit(0.0)
        await asyncio.sleep(120)
        state = bench.states(LIVE), bench.states(TERMINAL)
        hurry = asyncio.Event()
        hurry.set()
        await bench.engine.stop(hurry)
        return bench, state

    _, state = run_virtual(scenario())
    assert state == ([], ["succeeded", "succeeded"])


def test_a_short_outage_of_the_store_does_not_end_the_drain():
    async def scenario():
        bench = Bench(seconds=5)
        await bench.start()
        await bench.submit(0.0, 2.5)
        await asyncio.sleep(1)
        bench.store.fail = {"resign", "release"}
        await bench.engine.stop(asyncio.Event())
        return bench

    bench = run_virtual(scenario())
    assert bench.states(TERMINAL) == ["succeeded"]


def test_an_attempt_that_ends_during_a_slow_handover_counts_as_drained():
    """The store answers slowly. Attempts that are cut off meanwhile must count for the exit code."""

    async def scenario():
        bench = Bench(seconds=5)
        await bench.start()
        await bench.submit(0.0, 60.0)
        await asyncio.sleep(1)
        bench.store.latency = {"resign": 10.0}
        await bench.engine.stop(asyncio.Event())
        return bench

    bench = run_virtual(scenario())
    begun, ended = [event for event in bench.told if isinstance(event, DrainBegun | AttemptEnded)]
    assert isinstance(begun, DrainBegun)
    assert isinstance(ended, AttemptEnded)
    assert begun.run_ids == (ended.finish.lease.run_id,)


def test_a_node_whose_clock_is_set_forward_does_not_take_over_its_own_runs():
    async def scenario():
        bench = Bench(seconds=30, guarantee="at_most_once")
        await bench.start()
        await bench.submit(0.0)
        await asyncio.sleep(5)
        bench.clock.step(60 * SECOND)
        await asyncio.sleep(60)
        await bench.engine.stop(asyncio.Event())
        return bench

    bench = run_virtual(scenario())
    assert bench.states(TERMINAL) == ["succeeded"]


def test_a_run_that_becomes_due_between_two_clock_readings_starts():
    """The run is not due at the first reading of the clock, and is due at the second."""

    async def scenario():
        bench = Bench()
        await bench.start()
        await bench.submit(1.0)
        due = bench.clock.now() + SECOND
        real, seats = bench.clock.now, bench.engine._seats
        launch = seats.launch

        def launch_late(leases) -> None:
            looks = iter([due - 1])
            bench.clock.now = lambda: next(looks, due)  # type: ignore[method-assign]
            try:
                launch(leases)
            finally:
                bench.clock.now = real  # type: ignore[method-assign]

        seats.launch = launch_late  # type: ignore[method-assign]
        await asyncio.sleep(10)
        states = bench.states(LIVE)
        hurry = asyncio.Event()
        hurry.set()
        await bench.engine.stop(hurry)
        return bench, states

    bench, states = run_virtual(scenario())
    assert (bench.executed, states) == ([1], [])


# ── a store that has lost acknowledged writes ────────────────────────────────────────────────────────────────


def notice_by_a_lost_answer(bench: Bench) -> None:
    """The node misses the answer of a reserve, as if the server had gone down during it."""
    bench.store.lose = ["reserve"]


def notice_by_a_report(bench: Bench) -> None:
    """The store reports that its server was replaced and has lost writes."""
    bench.memory.hints.tell_loss(Loss(1, 2, epoch=2))


@pytest.mark.parametrize("notice", [notice_by_a_lost_answer, notice_by_a_report])
@pytest.mark.parametrize(
    ("guarantee", "times", "end"), [("at_least_once", 2, "succeeded"), ("at_most_once", 1, "lost")]
)
def test_an_ended_attempt_is_not_started_again_under_the_same_fence(notice, guarantee: str, times: int, end: str):
    """The store still lists the run as running, under a lease whose attempt has ended on this node."""

    async def scenario():
        bench = Bench(guarantee=guarantee)
        await bench.start()
        bench.store.forget = ["finish"]
        await bench.submit(0.0)
        await asyncio.sleep(5)
        assert bench.states(LIVE) == ["running"]
        notice(bench)
        await asyncio.sleep(5)
        await bench.engine.stop(asyncio.Event())
        return bench

    bench = run_virtual(scenario())
    assert bench.executed == [1] * times
    assert len(set(bench.fences)) == times
    assert bench.states(TERMINAL) == [end]


def test_unanswered_reservations_are_adopted_along_with_lost_runs():
    async def scenario():
        bench = Bench()
        await bench.start()
        bench.store.forget = ["finish"]
        await bench.submit(0.0)
        await asyncio.sleep(5)
        bench.store.lose = ["reserve"]
        await bench.submit(0.0, 1.0)
        await asyncio.sleep(5)
        await bench.engine.stop(asyncio.Event())
        return bench

    bench = run_virtual(scenario())
    assert sorted(bench.executed) == [1, 1, 2, 3]
    assert len(set(bench.fences)) == 4
    assert [run.attempts for run in runs_of(bench.memory, TERMINAL)] == [2, 1, 1]


def test_no_run_is_adopted_for_an_incarnation_that_has_ended_meanwhile():
    """Other nodes may already execute the runs of the ended incarnation."""

    async def scenario():
        bench = Bench(seconds=1)
        await bench.start()
        bench.store.lose = ["reserve"]
        bench.store.latency = {"recover": 5.0}
        await bench.submit(0.0)
        await asyncio.sleep(6)  # the run was armed without an answer, and the node waits for `recover`
        before = bench.engine._membership.incarnation
        await bench.memory.leave(before)
        bench.engine._membership.wake()
        await asyncio.sleep(60)
        await bench.engine.stop(asyncio.Event())
        return bench

    bench = run_virtual(scenario())
    assert bench.executed == [1]
    assert bench.states(TERMINAL) == ["succeeded"]
