"""`ctx.transaction()` when the node dies and the store does not answer: effects and completion stay one."""

import asyncio
import threading
from contextlib import suppress
from typing import Any

import onthedot as otd
from onthedot.model.errors import StoreUnavailable
from onthedot.stores.memory import MemoryStore, MemoryTransaction, MemoryTransactions, Statements
from tests.behind import behind
from tests.runners.exact import minute


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
        try:
            async with ctx.transaction() as db:
                await db.execute("stale")
                behind(store, "UPDATE runs SET lease_id = 'not ' || lease_id")  # it is somebody else's
        except otd.LeaseLost as error:
            told.append(error)
            behind(store, "UPDATE runs SET lease_id = substr(lease_id, 5)")
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


async def test_a_handler_that_raises_generator_exit_in_its_transaction_is_rolled_back():
    """As if its coroutine were closed, where nothing can be awaited: a task of its own rolls back."""
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
