"""`ctx.transaction()`: effects and completion are one, whatever happens around them. Through whole nodes."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import onthedot as otd
from onthedot.errors import StoreUnavailable
from onthedot.events import CommittedBefore
from onthedot.events import LeaseLost as Refused
from onthedot.run import RunRecord
from onthedot.stores.memory import MemoryStore
from onthedot.stores.memory.transactions import MemoryTransaction, MemoryTransactions, Statements
from onthedot.testing import Harness, run_virtual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SOON = "2026-06-01T12:00:05Z"

Handler = Callable[[otd.Context], Any]


def job(handler: Handler, **options: Any) -> otd.Scheduler:
    sched = otd.Scheduler("memory:")
    sched.job(name="work", schedule=otd.at(SOON), guarantee="exactly_once", **options)(handler)
    return sched


class Done:
    """What a virtual minute brought."""

    def __init__(self, harness: Harness, run: RunRecord) -> None:
        self.run = run
        self.sql = [statement.sql for statement in harness.store.statements]  # type: ignore[attr-defined]
        self.fences = [statement.fence for statement in harness.store.statements]  # type: ignore[attr-defined]
        self.kept = [event.said for event in harness.events if isinstance(event, CommittedBefore)]
        self.refused = [event.finish for event in harness.events if isinstance(event, Refused)]

    @property
    def counts(self) -> tuple[str, int, int, int]:
        return self.run.state, self.run.attempts, self.run.failures, self.run.recoveries


def minute(handler: Handler, *, store: type[MemoryStore] = MemoryStore, crash: str = "", **options: Any) -> Done:
    """Run the job in virtual time, on one node; `crash`: pull the plug after so long, and start another."""

    async def scenario() -> Done:
        sched = job(handler, **options)
        harness = Harness(START, store=store)
        await harness.start(sched)
        if crash:
            await harness.advance(crash)
            await harness.crash()
            await harness.advance("30s")
            await harness.start(sched)
        await harness.advance("60s")
        [run] = await harness.runs("work")
        await harness.stop()
        return Done(harness, run)

    return run_virtual(scenario())


# ── the way it goes ──────────────────────────────────────────────────────────────────────────────────────────


def test_effects_result_and_completion_are_one_commit():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute("update orders set receipted = true where id = $1", 7)
            ctx.result({"order": 7})
            ctx.log("in the middle")
            ctx.progress(1, of=1)

    done = minute(work)
    assert done.counts == ("succeeded", 1, 0, 0)
    assert (done.run.result, done.run.progress) == ('{"order":7}', (1, 1))
    assert done.sql == ["update orders set receipted = true where id = $1"]
    assert (done.kept, done.refused) == ([], [])


async def test_on_the_applications_loop_beside_a_real_engine():
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


async def test_a_plain_function_waits_for_each_statement_in_its_thread():
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


async def test_on_a_loop_one_does_not_block():
    sched = otd.Scheduler("memory:")

    @sched.job(guarantee="exactly_once")
    async def work(ctx: otd.Context) -> None:
        with ctx.transaction_blocking():
            pass

    async with sched:
        run = await sched.submit(work.call())
        with pytest.raises(otd.RunFailed, match=r"async with ctx\.transaction"):
            await run.result(timeout="20s")


def test_a_handler_gets_what_the_harness_was_given():
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


def test_what_raises_in_the_block_leaves_nothing():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute(f"attempt {ctx.attempt}")
            if ctx.attempt < 3:
                raise ConnectionError("in the middle")

    done = minute(work, retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 3, 2, 0), ["attempt 3"])


def test_after_a_rollback_there_may_be_another_one():
    async def work(ctx: otd.Context) -> None:
        with suppress(ConnectionError):
            async with ctx.transaction() as db:
                await db.execute("first")
                raise ConnectionError("in the middle")
        async with ctx.transaction() as db:
            await db.execute("second")

    done = minute(work)
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["second"])


def test_without_a_transaction_nothing_succeeds():
    async def work(ctx: otd.Context) -> int:
        return 7

    done = minute(work)
    assert done.counts == ("dead", 1, 1, 0)
    assert "async with ctx.transaction() as db:" in (done.run.error or "")
    assert done.run.result is None


def test_who_raises_after_the_commit_has_succeeded_and_is_not_tried_again():
    began: list[int] = []

    async def work(ctx: otd.Context) -> None:
        began.append(ctx.attempt)
        async with ctx.transaction() as db:
            await db.execute("once")
        raise ConnectionError("afterwards")

    done = minute(work, retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql, began) == (("succeeded", 1, 0, 0), ["once"], [1])
    assert (done.kept, done.refused) == (["ConnectionError: afterwards"], [])


def test_a_time_out_after_the_commit_changes_nothing():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute("once")
        await asyncio.sleep(30)

    done = minute(work, timeout="5s", retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["once"])
    assert done.kept == ["took longer than its time-out of 5 s"]


def test_a_time_out_before_the_commit_rolls_back():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute(f"attempt {ctx.attempt}")
            await asyncio.sleep(30 if ctx.attempt == 1 else 0)

    done = minute(work, timeout="5s", retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 2, 1, 0), ["attempt 2"])


def test_a_returned_result_is_said_to_be_lost():
    async def work(ctx: otd.Context) -> int:
        async with ctx.transaction():
            ctx.result(1)
        return 2

    done = minute(work)
    assert (done.run.state, done.run.result) == ("succeeded", "1")
    assert done.kept == ["it returned a result that was not kept; say ctx.result(…) inside the transaction"]


def test_the_same_result_returned_is_no_news():
    async def work(ctx: otd.Context) -> int:
        async with ctx.transaction():
            ctx.result(1)
        return 1

    assert minute(work).kept == []


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("nested", "one transaction at a time"),
        ("second", "there is no second one"),
        ("late result", "before the end of the transaction"),
        ("not JSON", "result: expected JSON"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: str, expected: str):
    told: list[str] = []

    async def attempt(ctx: otd.Context, what: str) -> None:
        try:
            if "result" in what or "JSON" in what:
                ctx.result({1, 2} if what == "not JSON" else 1)
            else:
                await ctx.transaction().__aenter__()
        except otd.OnTheDotError as error:
            told.append(str(error))

    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute("once")
            if wrong in ("nested", "not JSON"):
                await attempt(ctx, wrong)
        if wrong in ("second", "late result"):
            await attempt(ctx, wrong)

    done = minute(work)
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["once"])
    assert expected in told[0]


async def test_other_jobs_have_no_transaction():
    sched = otd.Scheduler("memory:")

    @sched.job
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction():
            pass

    async with sched:
        run = await sched.submit(work.call())
        with pytest.raises(otd.RunFailed, match=r"guarantee='exactly_once', 'work' has 'at_least_once'"):
            await run.result(timeout="20s")


# ── the store and the node fail ──────────────────────────────────────────────────────────────────────────────


def test_a_node_that_dies_before_the_commit_has_done_nothing():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute(f"attempt {ctx.attempt}")
            await asyncio.sleep(10)

    done = minute(work, crash="10s")
    assert (done.counts, done.sql) == (("succeeded", 2, 0, 1), ["attempt 2"])


def test_a_node_that_dies_after_the_commit_has_done_everything():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute(f"attempt {ctx.attempt}")
        await asyncio.sleep(30)

    done = minute(work, crash="10s")
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["attempt 1"])


async def test_who_has_lost_the_lease_is_told_and_writes_nothing():
    store = MemoryStore()
    sched = otd.Scheduler(store)
    told: list[object] = []

    @sched.job(guarantee="exactly_once")
    async def work(ctx: otd.Context) -> None:
        run = store.runs[ctx.run_id]
        mine = run.lease
        assert mine is not None
        try:
            async with ctx.transaction() as db:
                await db.execute("stale")
                run.lease = replace(mine, lease_id="somebody else's")
        except otd.LeaseLost as error:
            told.append(error)
            run.lease = mine
        async with ctx.transaction() as db:
            await db.execute("mine")

    async with sched:
        run = await sched.submit(work.call())
        await run.result(timeout="20s")
    assert "is rolled back" in str(told[0])
    assert [statement.sql for statement in store.statements] == ["mine"]


class Trouble(MemoryTransactions):
    """A store that answers as `mood` says, once per call."""

    def __init__(self, store: MemoryStore, mood: list[str]) -> None:
        super().__init__(store, Statements)
        self.mood = mood
        self.loops: list[Any] = []

    def next(self) -> str:
        return self.mood.pop(0) if self.mood else ""

    async def begin(self, lease, *, now=None):
        self.loops.append(asyncio.get_running_loop())
        if self.mood[:1] == ["no begin"]:
            self.next()
            raise StoreUnavailable("away")
        found = await super().begin(lease, now=now)
        return Troubled(self._store, found.connection, self)


class Troubled(MemoryTransaction):
    def __init__(self, store, connection, trouble: Trouble) -> None:
        super().__init__(store, connection)
        self.trouble = trouble

    async def commit(self, finish, *, now=None):
        self.trouble.loops.append(asyncio.get_running_loop())
        mood = self.trouble.next()
        if mood == "slow":
            await asyncio.sleep(4)
        if mood == "late":  # it arrives when its caller has given up
            asyncio.get_running_loop().call_later(0.5, lambda: asyncio.ensure_future(self._late(finish)))
        if mood in ("lost on the way", "late"):
            raise StoreUnavailable("away")
        if mood == "broken":
            await self.rollback()
            raise ValueError("deferred constraint")
        answer = await super().commit(finish, now=now)
        if mood == "answer lost":
            raise StoreUnavailable("away")
        return answer

    async def _late(self, finish) -> None:
        await super().commit(finish)


def troubled(*mood: str) -> type[MemoryStore]:
    class TroubledStore(MemoryStore):
        def __init__(self, clock=None) -> None:
            super().__init__(clock)
            self.transactions = Trouble(self, list(mood))

    return TroubledStore


async def plain(ctx: otd.Context) -> None:
    async with ctx.transaction() as db:
        await db.execute(f"attempt {ctx.attempt}")


def test_a_store_that_is_away_is_asked_again():
    done = minute(plain, store=troubled("no begin", "no begin"))
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["attempt 1"])


def test_a_commit_whose_answer_was_lost_counts():
    done = minute(plain, store=troubled("answer lost"))
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["attempt 1"])
    assert (done.kept, done.refused) == ([], [])


def test_a_commit_that_never_arrived_is_tried_again():
    """Whatever the handler makes of it, and with no retry in its policy: not it has failed, but the store."""
    done = minute(plain, store=troubled("lost on the way"))
    assert (done.counts, done.sql) == (("succeeded", 2, 0, 1), ["attempt 2"])

    async def swallows(ctx: otd.Context) -> None:
        with suppress(StoreUnavailable):
            await plain(ctx)

    done = minute(swallows, store=troubled("lost on the way"))
    assert (done.counts, done.sql) == (("succeeded", 2, 0, 1), ["attempt 2"])


def test_a_commit_that_arrives_after_all_comes_too_late():
    done = minute(plain, store=troubled("late"))
    assert (done.counts, done.sql) == (("succeeded", 2, 0, 1), ["attempt 2"])


def test_a_commit_that_arrives_before_the_verdict_counts():
    async def lingers(ctx: otd.Context) -> None:
        with suppress(StoreUnavailable):
            await plain(ctx)
        await asyncio.sleep(3)

    done = minute(lingers, store=troubled("late"))
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["attempt 1"])
    assert len(done.refused) == 1


def test_a_time_out_in_the_middle_of_a_commit_waits_for_its_answer():
    """It keeps its seat, and comes to one end: here the time-out's verdict is first, and the commit is refused."""
    done = minute(plain, store=troubled("slow"), timeout="2s", retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 2, 1, 0), ["attempt 2"])
    done = minute(plain, store=troubled("slow"), timeout="3500ms", retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["attempt 1"])
    assert done.kept == ["took longer than its time-out of 3.5 s"]


def test_an_error_of_the_commit_itself_is_the_handlers():
    done = minute(plain, store=troubled("broken"), retry=otd.Retry(2, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 2, 1, 0), ["attempt 2"])


async def test_connections_that_belong_to_a_loop_are_used_on_the_handlers():
    store = troubled()()
    trouble = store.transactions
    assert isinstance(trouble, Trouble)
    trouble.loop_bound = True
    sched = otd.Scheduler(store)
    sched.job(name="work", guarantee="exactly_once")(plain)
    async with sched:
        run = await sched.submit("work")
        await run.result(timeout="20s")
    assert trouble.loops == [asyncio.get_running_loop()] * 2
    trouble.loop_bound, trouble.loops = False, []
    async with sched:
        run = await sched.submit("work")
        await run.result(timeout="20s")
    assert asyncio.get_running_loop() not in trouble.loops
