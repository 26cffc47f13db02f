"""Submitted inside a transaction of the caller's own: there exactly if that is committed, by any connection."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import onthedot as otd
from onthedot.access import audit
from onthedot.model.errors import (
    ArgumentsError,
    DefinitionError,
    KeyConflict,
    RevisionConflict,
    StateError,
    UnknownJob,
    UnknownRun,
)
from onthedot.model.job import JobRecord, canonical
from onthedot.model.run import RunState
from onthedot.operations.open_verbs import opened
from onthedot.stores.protocol import Store
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import name_of
from tests.servers.shared import SharedPostgres
from tests.stores.postgres.callers import KINDS, Mine, by_asyncpg, by_psycopg

PREPARE = "DROP TABLE IF EXISTS public.orders; CREATE TABLE public.orders (id bigint PRIMARY KEY)"


def program(url: str, **settings: object) -> otd.Scheduler:
    sched = otd.Scheduler(url, **settings)  # type: ignore[arg-type]

    @sched.job(queue="mail", priority="high", share="tenant", concurrency=otd.Limit(2, key="tenant"))
    async def receipt(tenant: str, order: int) -> str:
        return f"{tenant}: {order}"

    return sched


def call(order: int, tenant: str = "t1") -> tuple[str, dict[str, object]]:
    return "receipt", {"tenant": tenant, "order": order}


def bound(order: int, tenant: str = "t1") -> otd.BoundCall:
    return otd.BoundCall("receipt", canonical({"tenant": tenant, "order": order}))


def engine_of(url: str) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sqlalchemy.NullPool)


def orders(url: str) -> list[int]:
    with psycopg.connect(url, autocommit=True) as db:
        return [number for (number,) in db.execute("SELECT id FROM orders ORDER BY id")]


@pytest.fixture
def url(empty_url: str) -> str:
    with psycopg.connect(empty_url, autocommit=True) as db:
        db.execute(PREPARE)
    return empty_url


@pytest.fixture
async def sched(url: str) -> AsyncIterator[otd.Scheduler]:
    async with program(url) as sched:
        yield sched


@pytest.fixture(params=KINDS)
async def mine(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Mine]:
    async with KINDS[request.param](url) as mine:
        yield mine


async def test_what_is_committed_starts_with_what_was_written(sched: otd.Scheduler, mine: Mine, url: str):
    await mine.do("INSERT INTO orders VALUES (7)")
    run = await sched.submit(*call(7), connection=mine.connection)
    assert run.created
    await mine.do("INSERT INTO orders VALUES (8)")  # in public, still: the search path is the caller's own
    assert await sched.get_run(run) is None  # nobody sees it yet
    await mine.commit()
    assert await run.result(timeout="20s") == "t1: 7"
    record = await sched.get_run(run)
    assert record is not None
    assert (record.queue, record.priority, orders(url)) == ("mail", "high", [7, 8])


async def test_what_is_rolled_back_never_was(sched: otd.Scheduler, mine: Mine, url: str):
    await mine.do("INSERT INTO orders VALUES (7)")
    run = await sched.submit(*call(7), connection=mine.connection, key="k")
    await mine.rollback()
    with pytest.raises(UnknownRun):
        await run.result(timeout="5s")
    assert (orders(url), await sched.list_runs()) == ([], [])
    assert (await sched.submit(*call(8), key="k")).created  # its key is free, too


async def test_the_same_key_is_the_same_run(sched: otd.Scheduler, mine: Mine):
    first = await sched.submit(*call(7), connection=mine.connection, key="k")
    again = await sched.submit(*call(7), connection=mine.connection, key="k")
    await mine.commit()
    later = await sched.submit(*call(7), connection=mine.connection, key="k")
    await mine.commit()
    outside = await sched.submit(*call(7), key="k")
    assert first == again == later == outside
    assert [run.created for run in (first, again, later, outside)] == [True, False, False, False]
    assert len(await sched.list_runs()) == 1


async def test_a_conflict_leaves_the_transaction_as_it_was(sched: otd.Scheduler, mine: Mine, url: str):
    await sched.submit(*call(7), key="k")
    await mine.do("INSERT INTO orders VALUES (1)")
    with pytest.raises(KeyConflict, match="used before by run 1"):
        await sched.submit(*call(8), connection=mine.connection, key="k")
    calls = [bound(order) for order in (8, 9)]
    with pytest.raises(KeyConflict):
        await sched.submit_many(calls, keys=["new", "k"], connection=mine.connection)
    await mine.do("INSERT INTO orders VALUES (2)")
    await mine.commit()
    assert orders(url) == [1, 2]
    assert len(await sched.list_runs()) == 1
    assert (await sched.submit(*call(9), key="new")).created


async def test_wrong_arguments_are_refused_before_anything_is_written(sched: otd.Scheduler, mine: Mine):
    with pytest.raises(ArgumentsError, match="missing a required argument: 'order'"):
        await sched.submit("receipt", {"tenant": "t1"}, connection=mine.connection)
    with pytest.raises(UnknownJob, match="did you mean 'receipt'"):
        await sched.submit("reciept", {"tenant": "t1"}, connection=mine.connection)
    await mine.commit()
    assert await sched.list_runs() == []


async def test_many_are_one_commit(sched: otd.Scheduler, mine: Mine):
    calls = [bound(order, f"t{order % 3}") for order in range(1200)]
    runs = await sched.submit_many(calls, connection=mine.connection, delay="1h", keys=[f"k{n}" for n in range(1200)])
    assert len(set(runs)) == 1200
    assert await sched.list_runs() == []
    await mine.commit()
    assert len(await sched.list_runs(limit=5000)) == 1200


async def test_delay_and_expiry_are_those_of_any_submit(sched: otd.Scheduler, mine: Mine, url: str):
    await sched.submit(*call(1), connection=mine.connection, delay="1h", expires="1m")
    await mine.commit()
    await sched.submit(*call(1), delay="1h", expires="1m")
    with psycopg.connect(url, autocommit=True) as db:
        (ours, lives), (theirs, live) = db.execute("SELECT due_at, expires_at - due_at FROM onthedot.runs").fetchall()
    assert lives == live == 60_000_000
    assert abs(ours - theirs) < 20_000_000


async def test_the_commit_itself_wakes_a_worker(url: str, mine: Mine):
    """With polls that are minutes apart."""
    settings = otd.Settings(poll_every=600_000_000)
    async with program(url, settings=settings) as sched:
        await (await sched.submit(*call(1))).result(timeout="20s")  # it listens by now
        run = await sched.submit(*call(2), connection=mine.connection)
        await asyncio.sleep(0.2)  # whoever looks meanwhile finds nothing
        await mine.commit()
        assert await run.result(timeout="10s") == "t1: 2"


async def test_a_connection_without_a_transaction_is_refused(sched: otd.Scheduler, url: str):
    plain = await asyncpg.connect(url)
    with psycopg.connect(url, autocommit=True) as automatic:
        engine = engine_of(url)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as alchemy:
            for connection in (plain, automatic, alchemy):
                with pytest.raises(StateError, match="expected one with a transaction that is open"):
                    await sched.submit(*call(1), connection=connection)
        with automatic.transaction():
            await sched.submit(*call(1), connection=automatic)
    await plain.close()
    assert len(await sched.list_runs()) == 1


async def test_a_connection_to_another_database_is_refused(sched: otd.Scheduler, postgres: SharedPostgres):
    """One that is empty, and one with a store of its own that even has a job of this name."""
    other = postgres.create()
    for _ in range(2):
        async with by_asyncpg(other) as mine:
            with pytest.raises(StateError, match="expected one to the database of the store, postgresql://"):
                await sched.submit(*call(1), connection=mine.connection)
            await mine.do("SELECT 1")  # the transaction goes on
            await mine.rollback()
        async with program(other):
            pass
    postgres.drop(other)


async def test_what_is_no_connection_is_refused_by_name(sched: otd.Scheduler, url: str):
    with pytest.raises(DefinitionError, match=r"connection of asyncpg or psycopg 3, .* got builtins.object"):
        await sched.submit(*call(1), connection=object())
    engine = sqlalchemy.create_engine("sqlite://")
    with (
        Session(engine) as session,
        pytest.raises(DefinitionError, match="expected one to PostgreSQL, got one to sqlite"),
    ):
        await sched.submit(*call(1), connection=session)
    local = scoped_session(sessionmaker(engine))
    with pytest.raises(DefinitionError, match="give the session itself"):
        await sched.submit(*call(1), connection=local)
    engine.dispose()


@pytest.mark.parametrize("store", ["memory:", "sqlite:///jobs.db"])
async def test_stores_that_cannot_say_who_can(store: str, url: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with program(store) as sched, by_asyncpg(url) as mine:
        with pytest.raises(DefinitionError, match=r"expected a store that can take part .*PostgreSQL"):
            await sched.submit(*call(1), connection=mine.connection)
        assert await sched.list_runs() == []


async def test_who_asks_with_the_same_key_waits_for_the_commit(sched: otd.Scheduler, url: str):
    """Also on connections that block: nobody else's loop or thread is needed to go on."""
    async with by_psycopg(url) as first, by_psycopg(url) as second:

        async def by_the_second() -> otd.Run:
            run = await sched.submit(*call(7), connection=second.connection, key="k")
            await second.commit()
            return run

        one = await sched.submit(*call(7), connection=first.connection, key="k")
        others = [asyncio.create_task(by_the_second()), asyncio.create_task(sched.submit(*call(7), key="k"))]
        done, _ = await asyncio.wait(others, timeout=0.3)
        assert not done
        await first.commit()
        assert [((run := await other), run.created) for other in others] == [(one, False)] * 2


async def test_who_asks_with_another_key_waits_for_nobody(sched: otd.Scheduler, url: str):
    """However many keys a transaction has."""
    async with by_asyncpg(url) as mine:
        keys = [f"k{number}" for number in range(2_000)]
        await sched.submit_many([bound(n) for n in range(2_000)], keys=keys, connection=mine.connection, delay="1h")
        async with asyncio.timeout(10):
            assert (await sched.submit(*call(1), key="another", delay="1h")).created
            async with by_psycopg(url) as other:
                assert (await sched.submit(*call(2), key="a third", connection=other.connection)).created
        await mine.rollback()


async def test_who_is_cancelled_ends_first_and_its_transaction_can_be_used(sched: otd.Scheduler, url: str):
    async with by_psycopg(url) as first, by_psycopg(url) as second:
        await sched.submit(*call(7), connection=first.connection, key="k")
        waiting = asyncio.create_task(sched.submit(*call(7), connection=second.connection, key="k"))
        await asyncio.sleep(0.2)
        waiting.cancel()
        done, _ = await asyncio.wait({waiting}, timeout=0.2)
        assert not done  # its thread waits for the key still
        await first.rollback()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await second.do("INSERT INTO orders VALUES (1)")
        await second.rollback()
    assert (await sched.list_runs(), orders(url)) == ([], [])


SAY = otd.Job(
    name="say", task=otd.Command(argv=("echo", "${{ params.word }}")), params=(otd.Param(name="word"),),
    labels=frozenset({"tape"}),
)  # fmt: skip
MORE = replace(SAY, params=(otd.Param(name="word"), otd.Param(name="more", required=False)))


async def test_a_job_that_was_read_before_is_not_read_again_unless_it_was_edited(
    sched: otd.Scheduler, url: str, monkeypatch: pytest.MonkeyPatch
):
    await sched.put(SAY)
    await sched.submit("say", {"word": "a"})
    reads: list[str] = []

    async def count_reads(store: Store) -> None:
        get_job = store.queries.get_job

        async def counted(name: str, *, namespace: str = "default") -> JobRecord | None:
            reads.append(name)
            return await get_job(name, namespace=namespace)

        monkeypatch.setattr(store.queries, "get_job", counted)

    await sched._running().on_store(count_reads)
    async with by_asyncpg(url) as mine:
        await sched.submit("say", {"word": "a"}, connection=mine.connection)
        assert reads == []
        await mine.commit()
    async with opened(url) as other:
        await other.verbs().put(MORE)
    async with by_asyncpg(url) as mine:
        await mine.do("INSERT INTO orders VALUES (1)")
        await sched.submit("say", {"word": "a", "more": "b"}, connection=mine.connection)
        assert reads == ["say"]
        await mine.commit()
    async with opened(url) as other:
        await other.verbs().put(SAY)
    async with by_asyncpg(url) as mine:
        with pytest.raises(ArgumentsError, match="more"):
            await sched.submit("say", {"word": "a", "more": "b"}, connection=mine.connection)
        await mine.do("INSERT INTO orders VALUES (2)")  # the transaction is as good as before
        await mine.commit()
    assert (len(await sched.list_runs("say")), orders(url)) == (3, [1, 2])


async def test_a_transaction_that_sees_an_older_revision_is_told(sched: otd.Scheduler, url: str):
    """Its arguments were checked by a revision that its snapshot does not have: nothing is stored by chance."""
    await sched.put(SAY)
    async with by_asyncpg(url) as mine:
        await mine.do("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await mine.do("INSERT INTO orders VALUES (1)")
        await sched.put(MORE)
        with pytest.raises((RevisionConflict, asyncpg.SerializationError)):
            await sched.submit("say", {"word": "a", "more": "b"}, connection=mine.connection)
        await mine.rollback()
    assert await sched.list_runs("say") == []


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_the_caller_chooses_its_isolation(sched: otd.Scheduler, url: str, level: str):
    async with by_asyncpg(url) as mine:
        await mine.do(f"SET TRANSACTION ISOLATION LEVEL {level}")
        await mine.do("INSERT INTO orders VALUES (1)")
        run = await sched.submit(*call(7), connection=mine.connection, key="k")
        await mine.commit()
    assert await run.result(timeout="20s") == "t1: 7"


@pytest.mark.slow
def test_nothing_is_imported_for_connections_that_nobody_has():
    module = "onthedot.stores.postgres.caller_transaction"
    program = f"import sys, {module}; print(*{{'psycopg', 'sqlalchemy'}} & sys.modules.keys())"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ""


async def test_an_open_transaction_keeps_no_worker_from_its_work(sched: otd.Scheduler, url: str):
    """Not in a queue that is shared fairly either, where whoever gives turns holds the queue."""
    await sched._running().on_store(lambda store: store.share_queue("mail", {"t1": 2}))
    async with by_asyncpg(url) as mine:
        inside = await sched.submit(*call(1), connection=mine.connection)
        outside = await sched.submit(*call(2))
        assert await outside.result(timeout="20s") == "t1: 2"
        await mine.commit()
        assert await inside.result(timeout="20s") == "t1: 1"


async def test_a_paused_job_keeps_what_was_committed_until_it_goes_on(sched: otd.Scheduler, url: str):
    await sched.pause("receipt")
    async with by_asyncpg(url) as mine:
        run = await sched.submit(*call(1), connection=mine.connection, expires="1ms")
        await mine.commit()
    assert await run.state() is RunState.SCHEDULED
    await sched.resume("receipt")
    assert await run.result(timeout="20s") == "t1: 1"


async def test_a_handler_submits_with_its_own_effects(url: str):
    """What follows is there exactly if the attempt has succeeded."""
    sched = otd.Scheduler(url)
    tries: list[int] = []

    @sched.job
    async def follow(order: int) -> int:
        return order

    @sched.job(guarantee="exactly_once", retry=otd.Retry(2, delay="1ms"))
    async def place(ctx: otd.Context, order: int) -> None:
        tries.append(order)
        async with ctx.transaction() as db:
            await db.execute("INSERT INTO orders VALUES ($1)", order)
            await sched.submit(follow.call(order), connection=db)
            if len(tries) == 1:
                raise RuntimeError("the first time")

    async with sched:
        await (await sched.submit(place.call(7))).result(timeout="20s")
        [following] = await sched.list_runs("follow")
        assert await sched.result(following.id, timeout="20s") == 7
    assert (tries, orders(url)) == ([7, 7], [7])


def test_a_plain_function_submits_with_its_own_effects(url: str):
    sched = otd.Scheduler(url)
    blocking = otd.BlockingScheduler(sched)

    @sched.job
    def follow(order: int) -> int:
        return order

    @sched.job(guarantee="exactly_once")
    def place(ctx: otd.Context, order: int) -> None:
        with ctx.transaction_blocking() as db:
            db.execute("INSERT INTO orders VALUES ($1)", order)
            assert blocking.submit(follow.call(order), connection=db, key="once").created

    with blocking:
        blocking.result(blocking.submit(place.call(7)), timeout="20s")
        [following] = blocking.list_runs("follow")
        assert blocking.result(following.id, timeout="20s") == 7
    assert orders(url) == [7]


@pytest.mark.parametrize("kind", KINDS)
async def test_through_a_pooler(kind: str, url: str, pgbouncer: PgBouncer):
    pooled = pgbouncer.url(name_of(url))
    async with program(f"{pooled}?pooler=transaction") as sched, KINDS[kind](pooled) as mine:
        run = await sched.submit(*call(7), connection=mine.connection, key="k")
        await mine.commit()
        assert await run.result(timeout="20s") == "t1: 7"


def test_without_an_event_loop(url: str):
    """As Flask and Django do it: a session of SQLAlchemy, or psycopg, and the blocking verbs."""
    sched = program(url)
    engine = engine_of(url)
    with otd.BlockingScheduler(sched) as blocking:
        with Session(engine) as session, session.begin():
            session.execute(sqlalchemy.text("INSERT INTO orders VALUES (1)"))
            one = blocking.submit(*call(1), connection=session)
        with psycopg.connect(url) as db:
            other = blocking.submit(*call(2), connection=db)
            assert blocking.get_run(other) is None
        assert [blocking.result(run, timeout="20s") for run in (one, other)] == ["t1: 1", "t1: 2"]
    assert orders(url) == [1]


async def test_a_submit_is_recorded_before_the_callers_transaction_ends(sched: otd.Scheduler, url: str):
    """The list of the audit is not locked meanwhile: others record at once."""

    async def recorded() -> list[object]:
        return [entry.after for entry in await sched._running().on_store(audit.read) if entry.verb == "runs.submit"]

    async with by_asyncpg(url) as mine:
        await sched.submit(*call(7), connection=mine.connection)
        assert await recorded() == [{"runs": 1}]
        await sched.submit_many([bound(8), bound(9)], connection=mine.connection)
        await sched.pause_queue("mail")
        await mine.rollback()
    await sched.stop()
    await sched.start()
    assert await recorded() == [{"runs": 1}, {"runs": 2}]
