"""The handler's context, through whole nodes: checkpoints, progress, log, cancellation and deadline."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import to_datetime
from onthedot.model.errors import StoreUnavailable
from onthedot.model.run import Progress
from onthedot.runners.notes import CHECKPOINT_LIMIT
from onthedot.stores.memory import MemoryStore
from onthedot.testing import Harness, run_virtual
from tests.behind import behind
from tests.observe.sample_events import lease

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("empty_url")
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'context.db'}"


async def test_a_retry_resumes_at_the_last_checkpoint(url):
    sched = otd.Scheduler(url)
    seen: list[object] = []

    @sched.job(retry=otd.Retry(3, delay="1ms"))
    async def pages(ctx: otd.Context) -> int:
        seen.append(ctx.last_checkpoint)
        await ctx.checkpoint({"page": ctx.attempt})
        seen.append(ctx.last_checkpoint)
        if ctx.attempt < 3:
            raise ConnectionError("again")
        return ctx.attempt

    async with sched:
        run = await sched.submit(pages.call())
        assert await run.result(timeout="20s") == 3
    assert seen == [None, {"page": 1}, {"page": 1}, {"page": 2}, {"page": 2}, {"page": 3}]


async def test_a_plain_function_saves_a_checkpoint_from_its_thread(url):
    sched = otd.Scheduler(url)

    @sched.job(retry=otd.Retry(2, delay="1ms"))
    def pages(ctx: otd.Context) -> object:
        found = ctx.last_checkpoint
        ctx.checkpoint_blocking([1, 2])
        if ctx.attempt == 1:
            raise ConnectionError("again")
        return found

    async with sched:
        run = await sched.submit(pages.call())
        assert await run.result(timeout="20s") == [1, 2]


async def test_a_coroutine_cannot_use_the_blocking_checkpoint():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def wrong(ctx: otd.Context) -> None:
        ctx.checkpoint_blocking(1)

    async with sched:
        run = await sched.submit(wrong.call())
        with pytest.raises(otd.RunFailed, match=r"await ctx\.checkpoint"):
            await run.result(timeout="20s")


def test_a_run_of_a_dead_node_is_resumed_from_its_checkpoint():
    """S3-29: a node crashes during a run. The next node resumes the run at its last checkpoint."""
    began: list[tuple[int, int]] = []
    sched = otd.Scheduler("memory:")

    @sched.job(schedule=otd.at("2026-06-01T12:00:05Z"))
    async def pages(ctx: otd.Context) -> dict[str, int]:
        first = ctx.last_checkpoint or 0
        began.append((ctx.attempt, first))
        for page in range(first, 100):
            await ctx.checkpoint(page)
            await asyncio.sleep(1)
        return {"pages": 100}

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await harness.advance("45500ms")
        await harness.crash()
        await harness.advance("30s")
        await harness.start(sched)
        await harness.advance("5m")
        [run] = await harness.runs("pages")
        await harness.stop()
        return run

    run = run_virtual(scenario())
    assert (run.state, run.result, run.recoveries) == ("succeeded", '{"pages":100}', 1)
    assert began == [(1, 0), (2, 40)]


async def test_a_handler_without_its_lease_gets_an_error_and_writes_nothing():
    store = MemoryStore()
    sched = otd.Scheduler(store)
    seen: list[Any] = []

    @sched.job
    async def slow(ctx: otd.Context) -> None:
        await ctx.checkpoint(1)
        behind(store, "UPDATE runs SET lease_id = 'not ' || lease_id")  # another node has the run now
        try:
            await ctx.checkpoint(2)
        except otd.LeaseLost as error:
            seen.append(str(error))
        finally:
            behind(store, "UPDATE runs SET lease_id = substr(lease_id, 5)")
        seen.append(ctx.last_checkpoint)

    async with sched:
        run = await sched.submit(slow.call())
        await run.result(timeout="20s")
    assert "has lost its lease" in seen[0]
    assert seen[1] == 1
    assert (await store.queries.get_checkpoint(run.id)) == (1, "1")


async def test_a_checkpoint_without_an_answer_is_sent_again():
    store = MemoryStore()
    sched = otd.Scheduler(store)
    write, lost = store.checkpoint, ["before", "after"]

    async def flaky(saves, *, now=None):
        if lost and lost[0] == "before":
            lost.pop(0)
            raise StoreUnavailable("the call was lost")
        answer = await write(saves, now=now)
        if lost:
            lost.pop(0)
            raise StoreUnavailable("the answer was lost")
        return answer

    store.checkpoint = flaky  # type: ignore[method-assign]

    @sched.job
    async def work(ctx: otd.Context) -> object:
        await ctx.checkpoint("a")
        await ctx.checkpoint("b")
        return ctx.last_checkpoint

    async with sched:
        run = await sched.submit(work.call())
        assert await run.result(timeout="20s") == "b"
    assert await store.queries.get_checkpoint(run.id) == (2, '"b"')


async def test_a_checkpoint_that_is_too_large_is_refused_and_the_attempt_can_continue():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def work(ctx: otd.Context) -> str:
        try:
            await ctx.checkpoint("x" * CHECKPOINT_LIMIT)
        except otd.ArgumentsError as error:
            return str(error)
        return "taken"

    async with sched:
        run = await sched.submit(work.call())
        assert "at most 65536 characters" in await run.result(timeout="20s")


async def test_progress_and_log_are_stored_with_the_run(url):
    sched = otd.Scheduler(url)

    @sched.job(retry=otd.Retry(2, delay="1ms"))
    async def pages(ctx: otd.Context) -> None:
        for page in range(1000):
            ctx.progress(page, of=1000)
        ctx.log(f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise ConnectionError("again")

    @sched.job
    def plain(ctx: otd.Context) -> None:
        ctx.progress(0.5)
        ctx.log("from a %s", "thread")
        ctx.log("rows", 7)

    async with sched:
        first, second = await sched.submit_many([pages, plain])
        await first.result(timeout="20s")
        await second.result(timeout="20s")
        failed, succeeded = await sched.logs(first)
        assert failed.text.startswith("attempt 1\nConnectionError came from (last frame last):\n")
        assert succeeded.text == "attempt 2\n"
        assert [log.text for log in await sched.logs(second)] == ["from a thread\nrows 7\n"]
        records = {run.id: run.progress for run in await sched.list_runs()}
    assert records == {first.id: Progress(999, 1000), second.id: Progress(0.5)}


def test_progress_is_written_once_a_second_and_visible_during_the_run():
    sched = otd.Scheduler("memory:")
    written: list[int] = []

    @sched.job(schedule=otd.at("2026-06-01T12:00:05Z"))
    async def pages(ctx: otd.Context) -> None:
        for page in range(1000):
            ctx.progress(page, of=1000)
            await asyncio.sleep(0.01)

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        store, note = harness.store, harness.store.note

        async def counted(notes, *, now=None):
            written.append(len(notes))
            return await note(notes, now=now)

        store.note = counted  # type: ignore[method-assign]
        await harness.advance("10s")
        [during] = await harness.runs("pages")
        await harness.advance("10s")
        [after] = await harness.runs("pages")
        await harness.stop()
        return during, after

    during, after = run_virtual(scenario())
    assert during.state == "running"
    assert during.progress is not None
    assert 380 <= during.progress.done <= 500
    assert (after.state, after.progress) == ("succeeded", Progress(999, 1000))
    assert 10 <= len(written) <= 12


async def test_the_last_log_lines_are_written_after_an_outage_of_the_store():
    store = MemoryStore()
    sched = otd.Scheduler(store)
    note, failures = store.note, 2

    async def flaky(notes, *, now=None):
        nonlocal failures
        if failures:
            failures -= 1
            raise StoreUnavailable("the disk is full")
        return await note(notes, now=now)

    store.note = flaky  # type: ignore[method-assign]

    @sched.job
    async def work(ctx: otd.Context) -> None:
        ctx.log("the last words")

    async with sched:
        run = await sched.submit(work.call())
        await run.result(timeout="20s")
        assert [log.text for log in await sched.logs(run)] == ["the last words\n"]


@pytest.mark.parametrize("wrong", ["half", None, True])
async def test_progress_must_be_a_number(wrong):
    sched = otd.Scheduler("memory:")

    @sched.job
    async def work(ctx: otd.Context) -> None:
        ctx.progress(wrong)

    async with sched:
        run = await sched.submit(work.call())
        with pytest.raises(otd.RunFailed, match="progress"):
            await run.result(timeout="20s")


async def test_a_thread_sees_that_it_is_cancelled():
    sched = otd.Scheduler("memory:")
    begun, seen = threading.Event(), []

    @sched.job
    def patient(ctx: otd.Context) -> None:
        seen.append(bool(ctx.cancelled))
        begun.set()
        seen.append(ctx.cancelled.wait(20))
        seen.append(bool(ctx.cancelled))

    async with sched:
        run = await sched.submit(patient.call())
        await asyncio.to_thread(begun.wait, 20)
        assert (await run.cancel(why="enough")).kind == "asked"
        with pytest.raises(otd.RunFailed) as failed:
            await run.result(timeout="20s")
    assert (failed.value.state, failed.value.reason) == ("cancelled", "enough")
    assert seen == [False, True, True]


async def test_a_thread_sees_its_time_out():
    sched = otd.Scheduler("memory:")
    seen = []

    @sched.job(timeout="100ms")
    def patient(ctx: otd.Context) -> None:
        assert ctx.deadline is not None
        seen.append(ctx.cancelled.wait(20))

    async with sched:
        run = await sched.submit(patient.call())
        with pytest.raises(otd.RunFailed, match="time-out"):
            await run.result(timeout="20s")
    assert seen == [True]


async def test_a_coroutine_sees_its_cancellation_while_it_cleans_up():
    sched = otd.Scheduler("memory:")
    begun, seen = asyncio.Event(), []

    @sched.job
    async def careful(ctx: otd.Context) -> None:
        try:
            begun.set()
            await asyncio.sleep(60)
        finally:
            seen.append(bool(ctx.cancelled))

    async with sched:
        run = await sched.submit(careful.call())
        await begun.wait()
        await run.cancel()
        with pytest.raises(otd.RunFailed):
            await run.result(timeout="20s")
    assert seen == [True]


async def test_the_deadline_is_the_start_plus_the_time_out(url):
    sched = otd.Scheduler(url)
    deadlines: dict[str, datetime | None] = {}

    @sched.job(timeout="7m")
    async def timed(ctx: otd.Context) -> None:
        deadlines["timed"] = ctx.deadline

    @sched.job
    async def free(ctx: otd.Context) -> None:
        deadlines["free"] = ctx.deadline

    async with sched:
        runs = await sched.submit_many([timed, free])
        for run in runs:
            await run.result(timeout="20s")
        record = await sched.get_run(runs[0])
    assert record is not None
    assert record.started_at is not None
    assert deadlines == {"timed": to_datetime(record.started_at) + timedelta(minutes=7), "free": None}


def test_a_context_without_an_attempt_raises_an_error():
    ctx = otd.Context(lease())
    with pytest.raises(otd.StateError, match="no running attempt"):
        ctx.log("hello")
