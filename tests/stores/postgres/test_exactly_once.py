"""Effects, fence check and completion are one commit on PostgreSQL: through a whole scheduler, and call by call."""

from __future__ import annotations

import asyncio

import asyncpg
import psycopg
import pytest

import onthedot as otd
from onthedot.model.errors import StateError, StoreUnavailable
from onthedot.model.job import Guarantee
from onthedot.model.run import Lease, RunState
from onthedot.stores.postgres import PostgresStore
from onthedot_verify.contract.workbench import Workbench, recover

PREPARE = """
DROP TABLE IF EXISTS public.orders;
CREATE TABLE public.orders (id bigint PRIMARY KEY, receipts bigint NOT NULL DEFAULT 0,
                            twin bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)
"""


def orders(url: str) -> dict[int, int]:
    with psycopg.connect(url, autocommit=True) as db:
        return dict(db.execute("SELECT id, receipts FROM orders").fetchall())


@pytest.fixture
def shop(empty_url: str) -> str:
    """A store in the database of a shop, which has its own table."""
    with psycopg.connect(empty_url, autocommit=True) as db:
        db.execute(PREPARE)
        db.execute("INSERT INTO orders (id) SELECT generate_series(1, 30)")
    return empty_url


async def running(bench: Workbench) -> Lease:
    await bench.submit(await bench.define(guarantee=Guarantee.EXACTLY_ONCE))
    [lease] = await bench.take(await bench.node())
    return lease


async def test_every_effect_exists_once_although_attempts_fail_before_and_after_the_commit(shop: str):
    """A third of the runs fail inside the transaction and a third after the commit. Only committed effects count."""
    sched = otd.Scheduler(shop)
    tries: dict[int, int] = {}

    @sched.job(guarantee="exactly_once", retry=otd.Retry(3, delay="1ms"))
    async def send_receipt(ctx: otd.Context, order: int = 0) -> None:
        tries[order] = tries.get(order, 0) + 1
        async with ctx.transaction() as db:
            await db.execute("UPDATE orders SET receipts = receipts + 1 WHERE id = $1", order)
            if order % 3 == 0 and tries[order] == 1:
                raise RuntimeError("inside")
        if order % 3 == 1:
            raise RuntimeError("after")

    async with sched:
        runs = [await sched.submit("send_receipt", {"order": order}) for order in range(1, 31)]
        await asyncio.gather(*(run.result(timeout="30s") for run in runs))
    assert orders(shop) == dict.fromkeys(range(1, 31), 1)
    assert {order for order, count in tries.items() if count > 1} == set(range(3, 31, 3))


async def test_a_commit_without_the_lease_writes_nothing(shop: str):
    store = await PostgresStore.open(shop)
    bench = Workbench(store)
    lease = await running(bench)
    transaction = await store.transactions.begin(lease)
    await transaction.connection.execute("UPDATE orders SET receipts = 1")
    assert await bench.finish(lease, recover(0))
    assert await transaction.commit(bench.finished(lease)) is False
    assert sum(orders(shop).values()) == 0
    await store.close()


async def test_of_a_verdict_and_a_commit_at_once_only_one_is_accepted(shop: str):
    """The store accepts the first one and refuses the other."""
    store = await PostgresStore.open(shop)
    bench = Workbench(store)
    record = await bench.define(guarantee=Guarantee.EXACTLY_ONCE)
    who = await bench.node()
    committed = 0
    for number in range(1, 21):
        await bench.submit(record)
        [lease] = await bench.take(who)
        transaction = await store.transactions.begin(lease)
        await transaction.connection.execute("UPDATE orders SET receipts = receipts + 1 WHERE id = $1", number)
        lost = recover(10_000)
        answers = await asyncio.gather(transaction.commit(bench.finished(lease)), bench.finish(lease, lost))
        assert sorted(answers) == [False, True]
        assert orders(shop)[number] == int(answers[0])
        committed += answers[0]
    assert (await store.queries.count_runs()).get(RunState.SUCCEEDED, 0) == committed
    await store.close()


async def test_an_error_of_a_deferred_constraint_is_raised_and_rolls_back(shop: str):
    store = await PostgresStore.open(shop)
    bench = Workbench(store)
    lease = await running(bench)
    transaction = await store.transactions.begin(lease)
    # Deferred: the constraint is checked at the commit.
    await transaction.connection.execute("UPDATE orders SET twin = 7")
    with pytest.raises(asyncpg.UniqueViolationError):
        await transaction.commit(bench.finished(lease))
    assert await bench.state(lease.run_id) is RunState.RUNNING
    await store.close()


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN"])
async def test_a_handler_that_ends_the_transaction_itself_gets_an_error(shop: str, statement: str):
    store = await PostgresStore.open(shop)
    bench = Workbench(store)
    lease = await running(bench)
    transaction = await store.transactions.begin(lease)
    await transaction.connection.execute(statement)
    with pytest.raises(StateError, match="the handler has ended it by itself"):
        await transaction.commit(bench.finished(lease))
    assert await bench.state(lease.run_id) is RunState.RUNNING
    await store.close()


async def test_a_handler_may_change_its_connection_which_is_reset_afterwards(shop: str):
    """It has the user's search path and isolation level, and savepoints by `transaction()`. The next user gets it
    without any of these changes."""
    store = await PostgresStore.open(shop)
    bench = Workbench(store)
    record = await bench.define(guarantee=Guarantee.EXACTLY_ONCE)
    who = await bench.node()
    pids = set()
    for _ in range(3):
        await bench.submit(record)
        [lease] = await bench.take(who)
        transaction = await store.transactions.begin(lease)
        db = transaction.connection
        await db.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        assert await db.fetchval("SHOW search_path") == '"$user", public'
        with pytest.raises(asyncpg.DivisionByZeroError):
            async with db.transaction():
                await db.execute("SELECT 1 / 0")
        await db.execute("SET search_path = nowhere")
        pids.add(db.get_server_pid())
        assert await transaction.commit(bench.finished(lease)) is True
    assert len(pids) == 1
    await store.close()


async def test_a_commit_without_an_answer_is_an_error(shop: str):
    store = await PostgresStore.open(shop)
    bench = Workbench(store)
    lease = await running(bench)
    transaction = await store.transactions.begin(lease)
    pid = transaction.connection.get_server_pid()
    with psycopg.connect(shop, autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(%s)", (pid,))
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await transaction.commit(bench.finished(lease))
    await transaction.rollback()
    assert await bench.finish(lease)  # in this test it was not committed
    await store.close()
