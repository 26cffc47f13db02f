"""Subscribers get all events of a node, and cannot block or break it."""

from __future__ import annotations

import asyncio
import threading

import pytest

import onthedot as otd
from onthedot.model.events import AttemptEnded, AttemptStarted, NodeJoined, NodeLeft, RunProgressed
from onthedot.model.run import Progress
from tests.watching import Watch


async def test_a_subscriber_that_raises_is_logged_and_disturbs_no_other(caplog):
    sched = otd.Scheduler("memory:")
    told = []

    @sched.job
    async def work() -> None: ...

    def broken(event: object) -> None:
        if isinstance(event, AttemptStarted):
            raise LookupError("a bug in a subscriber")
        told.append(event)

    sched.subscribe(broken)
    watch = Watch(sched)
    async with sched:
        await (await sched.submit("work")).result(timeout="20s")
    assert len(watch.of(AttemptStarted)) == 1
    assert [type(event) for event in told] == [type(e) for e in watch.events if not isinstance(e, AttemptStarted)]
    [said] = [record for record in caplog.records if record.name == "onthedot.subscribers"]
    assert "broken raised LookupError at AttemptStarted (1 so far)" in said.getMessage()


@pytest.mark.slow
async def test_a_subscriber_that_hangs_blocks_neither_the_engine_nor_the_stop():
    sched = otd.Scheduler("memory:")
    release = threading.Event()

    @sched.job
    async def work() -> None: ...

    def hang(event: object) -> None:
        release.wait(30)

    sched.subscribe(hang)
    async with asyncio.timeout(25):
        async with sched:
            await (await sched.submit("work")).result(timeout="20s")
    assert not release.is_set()
    release.set()


async def test_subscribers_get_events_after_a_restart():
    sched = otd.Scheduler("memory:")
    watch = Watch(sched)
    for number in (1, 2):
        async with sched:
            pass
        assert len(watch.of(NodeJoined)) == number
        assert len(watch.of(NodeLeft)) == number


async def test_subscribing_after_the_start_is_refused():
    async with otd.Scheduler("memory:") as sched:
        with pytest.raises(otd.StateError, match=r"before start\(\)"):
            sched.subscribe(print)
    with pytest.raises(otd.DefinitionError, match="expected a function"):
        sched.subscribe("print")  # type: ignore[arg-type]


async def test_progress_is_reported_before_the_end():
    sched = otd.Scheduler("memory:")

    @sched.job
    def pages(ctx: otd.Context) -> None:
        for page in range(100):
            ctx.progress(page + 1, of=100)

    watch = Watch(sched)
    async with sched:
        await (await sched.submit(pages.call())).result(timeout="20s")
    told = [event for event in watch.events if isinstance(event, RunProgressed | AttemptEnded)]
    *progress, ended = told
    assert isinstance(ended, AttemptEnded)
    assert isinstance(progress[-1], RunProgressed)
    assert progress[-1].progress == Progress(100, 100)
    assert len(progress) < 10, "expected only some of the reports, including the newest"
