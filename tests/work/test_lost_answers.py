"""What is on its way to the store and back: nothing is started twice, nothing is left running for ever."""

import asyncio
from datetime import UTC, datetime

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.engine import Engine
from onthedot.errors import StoreUnavailable
from onthedot.events import Events
from onthedot.ids import SeededIds
from onthedot.run import NewRun
from onthedot.stores.base import Store
from onthedot.stores.memory import MemoryStore
from onthedot.testing import VirtualClock, VirtualLoop, run_virtual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


class SlowStore:
    """A store whose calls take time, and whose answers can be lost: the call is done, the caller is not told."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.latency: dict[str, float] = {}
        self.lose: list[str] = []
        self.fail: set[str] = set()

    def __getattr__(self, name: str):
        found = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args, **kwargs):
            wait = self.latency.get(name, 0.0)
            await asyncio.sleep(wait)
            if name in self.fail:
                raise StoreUnavailable(f"{name} was not done")
            answer = await found(*args, **kwargs)
            if name in self.lose:
                self.lose.remove(name)
                raise StoreUnavailable(f"the answer of {name} was lost")
            await asyncio.sleep(wait)
            return answer

        return call


class Bench:
    """One engine on a slow store."""

    def __init__(self, seconds: float = 0.0, guarantee: str = "at_least_once", **settings) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop, START)
        self.memory = MemoryStore(self.clock)
        self.store = SlowStore(self.memory)
        self.executed: list[int] = []
        self.told: list = []
        self.sched = otd.Scheduler("memory:", settings=otd.Settings(**settings))

        @self.sched.job(name="work", guarantee=guarantee)
        async def work(ctx: otd.Context) -> None:
            self.executed.append(ctx.run_id)
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
        record = await self.memory.get_job("work")
        assert record is not None
        now = self.clock.now()
        runs = [NewRun(record.id, f"submit:{now}-{n}", now + round(d * SECOND)) for n, d in enumerate(delays)]
        return await self.memory.submit(runs)


def test_what_is_being_armed_is_not_adopted_a_second_time():
    """The answer of a reserve is lost while another reservation is on its way to be armed."""

    async def scenario():
        bench = Bench(seconds=2, guarantee="at_most_once")
        await bench.start()
        await bench.submit(1.0)
        await asyncio.sleep(0.5)  # held
        bench.store.latency = {"arm": 0.2}
        bench.store.lose = ["reserve"]  # the one that arming makes room for; `held` is asked while `arm` is under way
        await asyncio.sleep(10)
        await bench.engine.stop(asyncio.Event())
        return bench

    bench = run_virtual(scenario())
    assert bench.executed == [1]


def test_what_is_being_armed_has_its_seat():
    """A node with one seat must not arm a second run while the first is on its way: it would wait here for hours."""

    async def scenario():
        bench = Bench(seconds=3600, seats=1)
        await bench.start()
        await bench.submit(1.0)
        await asyncio.sleep(0.5)  # held
        bench.store.latency = {"arm": 0.02, "reserve": 0.02}
        await asyncio.sleep(0.45)  # and now being armed
        await bench.submit(0.0)
        await asyncio.sleep(1)
        states = [run.state for run in bench.memory.runs.values()]
        hurry = asyncio.Event()
        hurry.set()
        await bench.engine.stop(hurry)
        return bench, states

    bench, states = run_virtual(scenario())
    assert len(bench.executed) == 1
    assert sorted(states) == ["running", "scheduled"]


def test_an_arm_without_an_answer_is_not_forgotten_when_seats_are_short():
    async def scenario():
        bench = Bench(seconds=3, seats=1)
        await bench.start()
        await bench.submit(1.0)
        await asyncio.sleep(0.5)
        bench.store.lose = ["arm"]
        await asyncio.sleep(0.46)
        await bench.submit(0.0)
        await asyncio.sleep(120)
        state = [run.state for run in bench.memory.runs.values()], [r.state for r in bench.memory.finished.values()]
        hurry = asyncio.Event()
        hurry.set()
        await bench.engine.stop(hurry)
        return bench, state

    _, state = run_virtual(scenario())
    assert state == ([], ["succeeded", "succeeded"])


def test_a_store_that_is_away_for_a_moment_does_not_end_the_drain():
    async def scenario():
        bench = Bench(seconds=5)
        await bench.start()
        await bench.submit(0.0, 2.5)
        await asyncio.sleep(1)
        bench.store.fail = {"resign", "release"}
        await bench.engine.stop(asyncio.Event())
        return bench

    bench = run_virtual(scenario())
    assert [run.state for run in bench.memory.finished.values()] == ["succeeded"]


def test_a_clock_set_forward_does_not_make_a_node_take_its_own_runs():
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
    assert [run.state for run in bench.memory.finished.values()] == ["succeeded"]


def test_an_instant_that_comes_while_the_worker_looks_at_the_clock_is_not_lost():
    """Between two looks at the clock time passes: what was not due at the first may be due at the second."""

    async def scenario():
        bench = Bench()
        await bench.start()
        await bench.submit(1.0)
        due = bench.clock.now() + SECOND
        real, worker = bench.clock.now, bench.engine._worker
        launch = worker.launch

        def launch_late(leases) -> None:
            looks = iter([due - 1])
            bench.clock.now = lambda: next(looks, due)  # type: ignore[method-assign]
            try:
                launch(leases)
            finally:
                bench.clock.now = real  # type: ignore[method-assign]

        worker.launch = launch_late  # type: ignore[method-assign]
        await asyncio.sleep(10)
        states = [run.state for run in bench.memory.runs.values()]
        hurry = asyncio.Event()
        hurry.set()
        await bench.engine.stop(hurry)
        return bench, states

    bench, states = run_virtual(scenario())
    assert (bench.executed, states) == ([1], [])
