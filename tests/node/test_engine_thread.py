"""The engine's thread and the application's event loop do not block each other."""

import asyncio
import threading
import time

import pytest

import onthedot as otd
from onthedot.clock import MILLISECOND
from onthedot.node.engine_thread import GiveWay
from onthedot.testing import VirtualClock, VirtualLoop, run_virtual
from tests.test_loop import START


class HandClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> int:
        return self.time

    def steady(self) -> int:
        return self.time


async def test_the_application_does_not_wait_for_an_engine_that_is_on_time():
    clock = HandClock()
    courtesy = GiveWay(asyncio.get_running_loop(), clock)
    courtesy.pulse()
    clock.time += 50 * MILLISECOND
    assert courtesy.look() is False
    courtesy.stop()


async def test_the_application_waits_for_a_late_engine_until_it_pulses():
    clock = HandClock()
    loop = asyncio.get_running_loop()
    courtesy = GiveWay(loop, clock)
    courtesy.pulse()
    clock.time += 60 * MILLISECOND
    woken = threading.Event()

    def engine() -> None:
        woken.wait(5)
        courtesy._turn.set()

    thread = threading.Thread(target=engine)
    thread.start()
    woken.set()
    assert courtesy.look() is True
    thread.join()
    courtesy.stop()


def test_the_application_checks_more_often_while_the_engine_is_late():
    async def scenario():
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        courtesy = GiveWay(loop, VirtualClock(loop, START))
        looks: list[tuple[float, bool]] = []
        look = courtesy.look

        def noted() -> bool:
            found = look()
            looks.append((loop.time(), found))
            return found

        courtesy.look = noted  # type: ignore[method-assign]
        courtesy.start()
        await asyncio.sleep(0.2)
        courtesy._pulse_timer.cancel()  # type: ignore[union-attr]
        calm = len(looks)
        await asyncio.sleep(0.2)
        courtesy.stop()
        return calm, len(looks) - calm

    calm, busy = run_virtual(scenario())
    assert calm <= 5
    assert busy > 20


@pytest.mark.slow
async def test_a_saturated_loop_does_not_cost_the_lease():
    """The loop runs callbacks of a millisecond without a break. Without GiveWay the engine starved for seconds."""
    sched = otd.Scheduler("memory:")
    late: list[float] = []

    @sched.job(schedule=otd.every("50ms"), overlap="allow")
    def tick(ctx: otd.Context) -> None:
        late.append(time.time() - ctx.scheduled_at.timestamp())

    async with sched:
        least, most = time.monotonic() + 2, time.monotonic() + 20
        while time.monotonic() < least or (len(late) <= 30 and time.monotonic() < most):
            turn = time.perf_counter() + 0.001
            while time.perf_counter() < turn:
                pass
            await asyncio.sleep(0)
    assert len(late) > 30
    assert sorted(late)[len(late) // 2] < 0.5


@pytest.mark.slow
def test_a_busy_application_loop_does_not_stop_scheduling(tmp_path):
    """The engine has its own thread: while the application blocks its loop, functions still start on time."""
    import time

    async def scenario():
        sched = otd.Scheduler(f"sqlite:///{tmp_path / 'busy.db'}")
        starts = []

        @sched.job(schedule=otd.every("50ms"), overlap="allow")
        def tick(ctx: otd.Context) -> None:
            starts.append((time.time(), ctx.scheduled_at.timestamp()))

        async with sched:
            blocked_from = time.time()
            while len(starts) < 20 and time.time() < blocked_from + 20:
                time.sleep(0.1)  # noqa: ASYNC251 - the test blocks the application's loop on purpose
            blocked_until = time.time()
        return [late - due for late, due in starts if blocked_from < due < blocked_until - 0.1]

    lateness = asyncio.run(scenario())
    assert len(lateness) >= 12
    assert sorted(lateness)[len(lateness) // 2] < 0.25


@pytest.mark.slow
async def test_a_living_node_with_the_same_name_is_logged(tmp_path, caplog: pytest.LogCaptureFixture):
    def node(name: str) -> otd.Scheduler:
        return otd.Scheduler(f"sqlite:///{tmp_path / 'names.db'}", settings=otd.Settings(node_id=name))

    async with node("web-1"), node("web-2"), node(""), node(""):
        assert caplog.records == []
        async with node("web-1"):
            [told] = [record.getMessage() for record in caplog.records]
            assert told.startswith("node 'web-1': another living node has this name (process ")
        caplog.clear()
    async with node("web-1"):  # those before it have left
        assert caplog.records == []
