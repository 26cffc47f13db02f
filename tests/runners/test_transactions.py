"""`ctx.transaction()`: effects and completion are one commit, whatever the handler does. Through whole nodes."""

import asyncio
import sqlite3
import threading
from contextlib import suppress

import pytest

import onthedot as otd
from onthedot.model.run import RunRecord
from onthedot.stores.memory import MemoryStore
from onthedot.testing import Harness, run_virtual
from tests.runners.exactly_once import START, job, run_for_a_minute

# ── the normal case ──────────────────────────────────────────────────────────────────────────────────────────


def test_effects_result_and_completion_are_one_commit():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute("update orders set receipted = true where id = $1", 7)
            ctx.result({"order": 7})
            ctx.log("in the middle")
            ctx.progress(1, of=1)

    done = run_for_a_minute(work)
    assert done.counts == ("succeeded", 1, 0, 0)
    assert (done.run.result, done.run.progress) == ('{"order":7}', (1, 1))
    assert done.sql == ["update orders set receipted = true where id = $1"]
    assert (done.kept, done.refused) == ([], [])


async def test_transactions_work_on_the_applications_loop_with_a_real_engine():
    store = MemoryStore()
    sched = otd.Scheduler(store)

    @sched.job(guarantee="exactly_once")
    async def work(ctx: otd.Context, number: int) -> None:
        async with ctx.transaction() as db:
            await db.execute("insert", number)
            ctx.result(number)

    async with sched:
        runs = [await sched.submit(work.call(number=number)) for number in range(20)]
        assert [await run.result(timeout="20s") for run in runs] == list(range(20))
    assert sorted(statement.args[0] for statement in store.statements) == list(range(20))


async def test_a_plain_function_runs_each_statement_from_its_thread():
    store = MemoryStore()
    sched = otd.Scheduler(store)
    threads: list[str] = []

    @sched.job(guarantee="exactly_once", retry=otd.Retry(2, delay="1ms"))
    def work(ctx: otd.Context) -> None:
        threads.append(threading.current_thread().name)
        with ctx.transaction_blocking() as db:
            db.execute("insert", ctx.attempt)
            assert db.fetchval("select") is None
            ctx.result("done")
            if ctx.attempt == 1:
                raise ConnectionError("in the middle")

    async with sched:
        run = await sched.submit(work.call())
        assert await run.result(timeout="20s") == "done"
    assert [(one.sql, one.args) for one in store.statements] == [("insert", (2,)), ("select", ())]
    assert all(name.startswith("onthedot handler") for name in threads)


async def test_a_function_that_times_out_either_commits_or_rolls_back():
    """A thread cannot be stopped. It leaves its block after the time-out. The store accepts only the first of commit
    and verdict."""
    store = MemoryStore()
    sched = otd.Scheduler(store)

    @sched.job(guarantee="exactly_once", timeout="100ms")
    def work(ctx: otd.Context) -> None:
        with ctx.transaction_blocking() as db:
            db.execute("insert")
            ctx.cancelled.wait(20)

    async with sched:
        runs = [await sched.submit(work.call()) for _ in range(10)]
        for run in runs:
            with suppress(otd.RunFailed):
                await run.result(timeout="20s")
        states = {run.id: await run.state() for run in runs}
    succeeded = sorted(run_id for run_id, state in states.items() if state == "succeeded")
    assert sorted(statement.run_id for statement in store.statements) == succeeded


async def test_a_coroutine_cannot_use_the_blocking_transaction():
    sched = otd.Scheduler("memory:")

    @sched.job(guarantee="exactly_once")
    async def work(ctx: otd.Context) -> None:
        with ctx.transaction_blocking():
            pass

    async with sched:
        run = await sched.submit(work.call())
        with pytest.raises(otd.RunFailed, match=r"async with ctx\.transaction"):
            await run.result(timeout="20s")


def test_a_handler_gets_the_connection_of_the_harness():
    database = sqlite3.connect(":memory:")
    database.execute("create table orders (id integer)")

    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            db.execute("insert into orders values (?)", (ctx.attempt,))
            if ctx.attempt < 3:
                raise ConnectionError("again")

    async def scenario() -> RunRecord:
        harness = Harness(START, connect=lambda: database)
        await harness.start(job(work, retry=otd.Retry(5, delay="1s")))
        await harness.advance("60s")
        [run] = await harness.runs("work")
        await harness.stop()
        return run

    run = run_virtual(scenario())
    assert (run.state, run.attempts) == ("succeeded", 3)
    assert database.execute("select id from orders").fetchall() == [(3,)]


# ── the handler fails ────────────────────────────────────────────────────────────────────────────────────────


def test_an_error_in_the_block_rolls_back():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute(f"attempt {ctx.attempt}")
            if ctx.attempt < 3:
                raise ConnectionError("in the middle")

    done = run_for_a_minute(work, retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 3, 2, 0), ["attempt 3"])


def test_a_second_transaction_is_allowed_after_a_rollback():
    async def work(ctx: otd.Context) -> None:
        with suppress(ConnectionError):
            async with ctx.transaction() as db:
                await db.execute("first")
                raise ConnectionError("in the middle")
        async with ctx.transaction() as db:
            await db.execute("second")

    done = run_for_a_minute(work)
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["second"])


def test_an_attempt_without_a_transaction_fails():
    async def work(ctx: otd.Context) -> int:
        return 7

    done = run_for_a_minute(work)
    assert done.counts == ("dead", 1, 1, 0)
    assert "async with ctx.transaction() as db:" in (done.run.error or "")
    assert done.run.result is None


def test_an_error_after_the_commit_does_not_fail_the_run():
    began: list[int] = []

    async def work(ctx: otd.Context) -> None:
        began.append(ctx.attempt)
        async with ctx.transaction() as db:
            await db.execute("once")
        raise ConnectionError("afterwards")

    done = run_for_a_minute(work, retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql, began) == (("succeeded", 1, 0, 0), ["once"], [1])
    assert (done.kept, done.refused) == (["ConnectionError: afterwards"], [])


def test_a_time_out_after_the_commit_changes_nothing():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute("once")
        await asyncio.sleep(30)

    done = run_for_a_minute(work, timeout="5s", retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["once"])
    assert done.kept == ["took longer than its time-out of 5 s"]


def test_a_time_out_before_the_commit_rolls_back():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute(f"attempt {ctx.attempt}")
            await asyncio.sleep(30 if ctx.attempt == 1 else 0)

    done = run_for_a_minute(work, timeout="5s", retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 2, 1, 0), ["attempt 2"])


def test_a_lost_return_value_is_reported():
    async def work(ctx: otd.Context) -> int:
        async with ctx.transaction():
            ctx.result(1)
        return 2

    done = run_for_a_minute(work)
    assert (done.run.state, done.run.result) == ("succeeded", "1")
    assert done.kept == ["it returned a result that was not kept; say ctx.result(…) inside the transaction"]


def test_returning_the_stored_result_again_is_not_reported():
    async def work(ctx: otd.Context) -> int:
        async with ctx.transaction():
            ctx.result(1)
        return 1

    assert run_for_a_minute(work).kept == []


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("nested", "one transaction at a time"),
        ("second", "there is no second one"),
        ("late result", "before the end of the transaction"),
        ("not JSON", "result: expected JSON"),
    ],
)
def test_wrong_use_of_a_transaction_is_refused(wrong: str, expected: str):
    errors: list[str] = []

    async def attempt(ctx: otd.Context, what: str) -> None:
        try:
            if "result" in what or "JSON" in what:
                ctx.result({1, 2} if what == "not JSON" else 1)
            else:
                await ctx.transaction().__aenter__()
        except otd.OnTheDotError as error:
            errors.append(str(error))

    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute("once")
            if wrong in ("nested", "not JSON"):
                await attempt(ctx, wrong)
        if wrong in ("second", "late result"):
            await attempt(ctx, wrong)

    done = run_for_a_minute(work)
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["once"])
    assert expected in errors[0]


async def test_jobs_with_another_guarantee_have_no_transaction():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction():
            pass

    async with sched:
        run = await sched.submit(work.call())
        with pytest.raises(otd.RunFailed, match=r"guarantee='exactly_once', 'work' has 'at_least_once'"):
            await run.result(timeout="20s")
