"""`ctx.transaction()` when a node crashes or the store does not answer: effects and completion stay one commit."""

import asyncio
import threading
from contextlib import suppress
from typing import Any

import onthedot as otd
from onthedot.model.errors import StoreUnavailable
from onthedot.stores.memory import MemoryStore, MemoryTransaction, MemoryTransactions, Statements
from tests.behind import behind
from tests.runners.exactly_once import run_for_a_minute


def test_a_crash_before_the_commit_leaves_no_effects():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute(f"attempt {ctx.attempt}")
            await asyncio.sleep(10)

    done = run_for_a_minute(work, crash="10s")
    assert (done.counts, done.sql) == (("succeeded", 2, 0, 1), ["attempt 2"])


def test_a_crash_after_the_commit_keeps_effects_and_completion():
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute(f"attempt {ctx.attempt}")
        await asyncio.sleep(30)

    done = run_for_a_minute(work, crash="10s")
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["attempt 1"])


async def test_a_handler_without_its_lease_gets_an_error_and_writes_nothing():
    store = MemoryStore()
    sched = otd.Scheduler(store)
    errors: list[object] = []

    @sched.job(guarantee="exactly_once")
    async def work(ctx: otd.Context) -> None:
        try:
            async with ctx.transaction() as db:
                await db.execute("stale")
                behind(store, "UPDATE runs SET lease_id = 'not ' || lease_id")  # another node has the run now
        except otd.LeaseLost as error:
            errors.append(error)
            behind(store, "UPDATE runs SET lease_id = substr(lease_id, 5)")
        async with ctx.transaction() as db:
            await db.execute("mine")

    async with sched:
        run = await sched.submit(work.call())
        await run.result(timeout="20s")
    assert "is rolled back" in str(errors[0])
    assert [statement.sql for statement in store.statements] == ["mine"]


class FaultyTransactions(MemoryTransactions):
    """Each call of the store fails as the next entry of `faults` says."""

    def __init__(self, store: MemoryStore, faults: list[str]) -> None:
        super().__init__(store, Statements)
        self.faults = faults
        self.loops: list[Any] = []

    def next(self) -> str:
        return self.faults.pop(0) if self.faults else ""

    async def begin(self, lease, *, now=None):
        self.loops.append(asyncio.get_running_loop())
        if self.faults[:1] == ["no begin"]:
            self.next()
            raise StoreUnavailable("away")
        found = await super().begin(lease, now=now)
        return FaultyTransaction(self._store, found.connection, self)


class FaultyTransaction(MemoryTransaction):
    def __init__(self, store, connection, trouble: FaultyTransactions) -> None:
        super().__init__(store, connection)
        self.trouble = trouble

    async def commit(self, finish, *, now=None):
        self.trouble.loops.append(asyncio.get_running_loop())
        faults = self.trouble.next()
        if faults == "slow":
            await asyncio.sleep(4)
        if faults == "late":  # it arrives after its caller has given up
            asyncio.get_running_loop().call_later(0.5, lambda: asyncio.ensure_future(self._late(finish)))
        if faults in ("lost on the way", "late"):
            raise StoreUnavailable("away")
        if faults == "broken":
            await self.rollback()
            raise ValueError("deferred constraint")
        answer = await super().commit(finish, now=now)
        if faults == "answer lost":
            raise StoreUnavailable("away")
        return answer

    async def _late(self, finish) -> None:
        await super().commit(finish)


def faulty_store(*faults: str) -> type[MemoryStore]:
    class FaultyStore(MemoryStore):
        def __init__(self, clock=None) -> None:
            super().__init__(clock)
            self.transactions = FaultyTransactions(self, list(faults))

    return FaultyStore


async def plain(ctx: otd.Context) -> None:
    async with ctx.transaction() as db:
        await db.execute(f"attempt {ctx.attempt}")


def test_a_transaction_begins_after_the_store_is_available_again():
    done = run_for_a_minute(plain, store=faulty_store("no begin", "no begin"))
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["attempt 1"])


def test_a_commit_whose_answer_was_lost_is_valid():
    done = run_for_a_minute(plain, store=faulty_store("answer lost"))
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["attempt 1"])
    assert (done.kept, done.refused) == ([], [])


def test_a_run_is_executed_again_if_its_commit_never_arrived():
    """Even if the handler swallows the error, and without a retry policy: the store failed, not the handler."""
    done = run_for_a_minute(plain, store=faulty_store("lost on the way"))
    assert (done.counts, done.sql) == (("succeeded", 2, 0, 1), ["attempt 2"])

    async def swallows(ctx: otd.Context) -> None:
        with suppress(StoreUnavailable):
            await plain(ctx)

    done = run_for_a_minute(swallows, store=faulty_store("lost on the way"))
    assert (done.counts, done.sql) == (("succeeded", 2, 0, 1), ["attempt 2"])


def test_a_commit_that_arrives_after_the_verdict_is_refused():
    done = run_for_a_minute(plain, store=faulty_store("late"))
    assert (done.counts, done.sql) == (("succeeded", 2, 0, 1), ["attempt 2"])


def test_a_commit_that_arrives_before_the_verdict_is_valid():
    async def lingers(ctx: otd.Context) -> None:
        with suppress(StoreUnavailable):
            await plain(ctx)
        await asyncio.sleep(3)

    done = run_for_a_minute(lingers, store=faulty_store("late"))
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["attempt 1"])
    assert len(done.refused) == 1


def test_a_time_out_during_a_commit_waits_for_its_answer():
    """The attempt keeps its seat and ends once. In the first case the verdict of the time-out wins, and the commit is
    refused."""
    done = run_for_a_minute(plain, store=faulty_store("slow"), timeout="2s", retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 2, 1, 0), ["attempt 2"])
    done = run_for_a_minute(plain, store=faulty_store("slow"), timeout="3500ms", retry=otd.Retry(3, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 1, 0, 0), ["attempt 1"])
    assert done.kept == ["took longer than its time-out of 3.5 s"]


def test_an_error_of_the_commit_fails_the_attempt():
    done = run_for_a_minute(plain, store=faulty_store("broken"), retry=otd.Retry(2, delay="1s"))
    assert (done.counts, done.sql) == (("succeeded", 2, 1, 0), ["attempt 2"])


async def test_connections_that_are_bound_to_a_loop_are_used_on_the_handlers_loop():
    store = faulty_store()()
    trouble = store.transactions
    assert isinstance(trouble, FaultyTransactions)
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


async def test_a_generator_exit_in_a_transaction_rolls_back():
    """GeneratorExit closes a coroutine, which cannot await any more. So another task does the rollback."""
    rolled_back = threading.Event()

    class Connection:
        def rollback(self) -> None:
            rolled_back.set()

    sched = otd.Scheduler(MemoryStore(connect=Connection))

    @sched.job(guarantee="exactly_once")
    async def work(ctx: otd.Context) -> None:
        async with ctx.transaction():
            raise GeneratorExit

    async with sched:
        run = await sched.submit(work.call())
        with suppress(otd.RunFailed):
            await run.result(timeout="20s")
        assert await asyncio.to_thread(rolled_back.wait, 20)
