"""`await run.result()` raises RunFailed for a skipped, lost or cancelled run, during the wait and afterwards."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import MILLISECOND
from onthedot.model.run import RunState


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'results.db'}"


def node(url: str, **settings: Any) -> otd.Scheduler:
    return otd.Scheduler(url, settings=otd.Settings(expire_every=50 * MILLISECOND, **settings))


async def refused(waiting: Awaitable[Any]) -> otd.RunFailed:
    with pytest.raises(otd.RunFailed) as failed:
        await waiting
    return failed.value


def fate(error: otd.RunFailed) -> tuple[str, str, str | None]:
    return error.state, error.reason, error.error


async def test_a_run_that_expired_is_skipped(url: str):
    sched = node(url, queues=("default",))

    @sched.job(queue="nobody-serves-it")
    async def mail() -> None: ...

    async with sched:
        run = await sched.submit(mail, expires="100ms")
        error = await refused(run.result(timeout="20s"))
        again = await refused(sched.result(run, timeout="20s"))
    assert (error.run_id, *fate(error)) == (run.id, "skipped", "expired", None)
    assert fate(again) == fate(error)
    assert str(error) == f"run {run} is skipped (expired)"


@pytest.mark.slow
async def test_a_slot_that_finds_its_job_running_is_skipped(url: str):
    """The waiting caller gets the error as soon as the gate has refused the slot."""
    sched = node(url)
    began, end = asyncio.Event(), asyncio.Event()
    soon = datetime.now(UTC) + timedelta(seconds=5)  # until then everything must have started

    @sched.job(schedule=otd.at(soon), overlap="skip")
    async def report() -> None:
        began.set()
        await end.wait()

    async with sched:
        first = await sched.submit(report)
        await began.wait()
        [slot] = [run for run in await sched.list_runs(job="report") if run.id != first.id]
        error = await refused(sched.result(slot.id, timeout="20s"))
        end.set()
        assert await first.result(timeout="20s") is None
    assert fate(error) == ("skipped", "overlap", f"run {first.id} of this job had not ended")


@pytest.mark.parametrize("how", ["coroutine", "function"])
async def test_the_cancel_of_a_running_attempt_raises_in_the_caller(url: str, how: str):
    sched = node(url)
    loop, began = asyncio.get_running_loop(), asyncio.Event()

    async def coroutine() -> None:
        began.set()
        await asyncio.sleep(60)

    def function(ctx: otd.Context) -> str:
        loop.call_soon_threadsafe(began.set)
        ctx.cancelled.wait(60)
        return "too late"

    handler: Callable[..., Any] = coroutine if how == "coroutine" else function
    sched.job(name="work", retry=otd.Retry(3))(handler)
    async with sched:
        run = await sched.submit("work")
        waiting = asyncio.create_task(run.result(timeout="20s"))
        await began.wait()
        await run.cancel(why="not needed")
        error = await refused(waiting)
    assert fate(error)[:2] == ("cancelled", "not needed")
    assert str(error).startswith(f"run {run} is cancelled (not needed)")


async def test_a_run_that_is_lost_with_its_node_raises_in_another_process(tmp_path: Path):
    """One node runs it and is stopped at once. A caller on another node gets the error as soon as it is recorded."""
    url = f"sqlite:///{tmp_path / 'results.db'}"
    works, waits = node(url, queues=("work",)), node(url, queues=("default",))
    began = asyncio.Event()

    @works.job(queue="work", guarantee="at_most_once")
    async def once() -> None:
        began.set()
        await asyncio.sleep(60)

    async with waits:
        await works.start()
        run = await works.submit(once)
        waiting = asyncio.create_task(waits.result(run, timeout="30s"))
        await began.wait()
        works.stop_now()
        await works.stop()
        error = await refused(waiting)
        shown = await waits.get_run(run)
    assert fate(error) == ("lost", "node lost", "stopped before its end")
    assert str(error) == f"run {run} is lost (node lost): stopped before its end"
    assert shown is not None
    assert shown.state is RunState.LOST


async def test_all_callers_get_the_error_even_later_ones(url: str):
    sched = node(url)

    @sched.job
    async def later() -> None: ...

    async with sched:
        run = await sched.submit(later, delay="1h")
        waiting = [asyncio.create_task(run.result(timeout="20s")) for _ in range(3)]
        await sched.remove("later")
        answers = [await refused(one) for one in waiting] + [await refused(run.result(timeout="20s"))]
    assert [fate(answer) for answer in answers] == [("cancelled", "deleted", None)] * 4


def test_the_blocking_scheduler_raises_the_same_error():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def later() -> None: ...

    with otd.BlockingScheduler(sched) as blocking:
        run = blocking.submit(later, delay="1h")
        blocking.cancel(run, why="enough")
        with pytest.raises(otd.RunFailed, match=r"is cancelled \(enough\)") as failed:
            blocking.result(run, timeout="20s")
    assert failed.value.state == "cancelled"
