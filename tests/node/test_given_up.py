"""A function that keeps running after its node gave up its attempt still occupies its seat and its thread."""

import asyncio
import threading

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.events import AttemptEnded, AttemptStarted, NodeFenced, NodeLeft
from onthedot.model.run import RunState
from onthedot.stores.memory import MemoryStore
from tests.behind import behind
from tests.watching import Watch

pytestmark = pytest.mark.slow


async def test_a_function_that_outlives_its_lease_keeps_its_seat():
    store, go_on = MemoryStore(), threading.Event()
    settings = otd.Settings(seats=1, poll_every=SECOND // 10, reap_every=SECOND // 10).with_leases(SECOND)
    sched = otd.Scheduler(store, settings=settings)

    @sched.job
    def work() -> None:
        go_on.wait(20)

    watch = Watch(sched)
    async with sched:
        await sched.submit("work")
        await watch.until_count(AttemptStarted, 1)
        behind(store, "UPDATE nodes SET ended = true")  # as if another node had declared this one dead
        await watch.until_count(NodeFenced, 1)
        await watch.until_count(AttemptEnded, 1)
        await asyncio.sleep(1)
        [run] = await store.queries.list_runs()
        try:
            assert run.state is RunState.SCHEDULED  # not armed, because no seat is free
        finally:
            go_on.set()


async def test_a_function_that_still_runs_when_its_node_leaves_is_counted():
    go_on = threading.Event()
    sched = otd.Scheduler("memory:")

    @sched.job
    def work() -> None:
        go_on.wait(20)

    watch = Watch(sched)
    await sched.start()
    await sched.submit("work")
    await watch.until_count(AttemptStarted, 1)
    sched.stop_now()
    await sched.stop()
    go_on.set()
    [left] = watch.of(NodeLeft)
    assert left.abandoned == 1
