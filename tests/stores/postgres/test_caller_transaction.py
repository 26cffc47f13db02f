"""Runs submitted inside the caller's transaction exist only if it commits, with any kind of connection."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

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
    StoreUnusable,
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
from tests.stores.postgres.callers import KINDS, Caller, by_asyncpg, by_psycopg

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
async def caller(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Caller]:
    async with KINDS[request.param](url) as caller:
        yield caller


async def test_a_committed_submit_starts_and_sees_the_callers_writes(sched: otd.Scheduler, caller: Caller, url: str):
    await caller.do("INSERT INTO orders VALUES (7)")
    run = await sched.submit(*call(7), connection=caller.connection)
    assert run.created
    await caller.do(
        "INSERT INTO orders VALUES (8)"
    )  # written to schema public: the caller's search path did not change
    assert await sched.get_run(run) is None  # not visible before the commit
    await caller.commit()
    assert await run.result(timeout="20s") == "t1: 7"
    record = await sched.get_run(run)
    assert record is not None
    assert (record.queue, record.priority, orders(url)) == ("mail", "high", [7, 8])


async def test_a_rolled_back_submit_leaves_nothing(sched: otd.Scheduler, caller: Caller, url: str):
    await caller.do("INSERT INTO orders VALUES (7)")
    run = await sched.submit(*call(7), connection=caller.connection, key="k")
    await caller.rollback()
    with pytest.raises(UnknownRun):
        await run.result(timeout="5s")
    assert (orders(url), await sched.list_runs()) == ([], [])
    assert (await sched.submit(*call(8), key="k")).created  # its key is free again


async def test_the_same_key_gives_the_same_run(sched: otd.Scheduler, caller: Caller):
    first = await sched.submit(*call(7), connection=caller.connection, key="k")
    again = await sched.submit(*call(7), connection=caller.connection, key="k")
    await caller.commit()
    later = await sched.submit(*call(7), connection=caller.connection, key="k")
    await caller.commit()
    outside = await sched.submit(*call(7), key="k")
    assert first == again == later == outside
    assert [run.created for run in (first, again, later, outside)] == [True, False, False, False]
    assert len(await sched.list_runs()) == 1


async def test_a_conflict_leaves_the_transaction_usable(sched: otd.Scheduler, caller: Caller, url: str):
    await sched.submit(*call(7), key="k")
    await caller.do("INSERT INTO orders VALUES (1)")
    with pytest.raises(KeyConflict, match="used before by run 1"):
        await sched.submit(*call(8), connection=caller.connection, key="k")
    calls = [bound(order) for order in (8, 9)]
    with pytest.raises(KeyConflict):
        await sched.submit_many(calls, keys=["new", "k"], connection=caller.connection)
    await caller.do("INSERT INTO orders VALUES (2)")
    await caller.commit()
    assert orders(url) == [1, 2]
    assert len(await sched.list_runs()) == 1
    assert (await sched.submit(*call(9), key="new")).created


async def test_wrong_arguments_are_refused_before_anything_is_written(sched: otd.Scheduler, caller: Caller):
    with pytest.raises(ArgumentsError, match="missing a required argument: 'order'"):
        await sched.submit("receipt", {"tenant": "t1"}, connection=caller.connection)
    with pytest.raises(UnknownJob, match="did you mean 'receipt'"):
        await sched.submit("reciept", {"tenant": "t1"}, connection=caller.connection)
    await caller.commit()
    assert await sched.list_runs() == []


async def test_many_submits_are_one_commit(sched: otd.Scheduler, caller: Caller):
    calls = [bound(order, f"t{order % 3}") for order in range(1200)]
    runs = await sched.submit_many(calls, connection=caller.connection, delay="1h", keys=[f"k{n}" for n in range(1200)])
    assert len(set(runs)) == 1200
    assert await sched.list_runs() == []
    await caller.commit()
    assert len(await sched.list_runs(limit=5000)) == 1200


async def test_delay_and_expiry_work_as_in_any_submit(sched: otd.Scheduler, caller: Caller, url: str):
    await sched.submit(*call(1), connection=caller.connection, delay="1h", expires="1m")
    await caller.commit()
    await sched.submit(*call(1), delay="1h", expires="1m")
    with psycopg.connect(url, autocommit=True) as db:
        (ours, lives), (theirs, live) = db.execute("SELECT due_at, expires_at - due_at FROM onthedot.runs").fetchall()
    assert lives == live == 60_000_000
    assert abs(ours - theirs) < 20_000_000


async def test_the_commit_wakes_a_worker(url: str, caller: Caller):
    """The next poll would be minutes later."""
    settings = otd.Settings(poll_every=600_000_000)
    async with program(url, settings=settings) as sched:
        await (await sched.submit(*call(1))).result(timeout="20s")  # after this run the worker listens
        run = await sched.submit(*call(2), connection=caller.connection)
        await asyncio.sleep(0.2)  # a worker that looks now finds nothing
        await caller.commit()
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
    """An empty database, and one with a store that even has a job of this name."""
    other = postgres.create()
    for _ in range(2):
        async with by_asyncpg(other) as caller:
            with pytest.raises(StateError, match="expected one to the database of the store, postgresql://"):
                await sched.submit(*call(1), connection=caller.connection)
            await caller.do("SELECT 1")  # the transaction is still usable
            await caller.rollback()
        async with program(other):
            pass
    postgres.drop(other)


async def test_an_unsupported_connection_is_refused_by_its_type(sched: otd.Scheduler, url: str):
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
async def test_a_store_without_caller_transactions_names_one_that_has_them(store: str, url: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with program(store) as sched, by_asyncpg(url) as caller:
        with pytest.raises(DefinitionError, match=r"expected a store that can take part .*PostgreSQL"):
            await sched.submit(*call(1), connection=caller.connection)
        assert await sched.list_runs() == []


async def test_a_submit_with_the_same_key_waits_for_the_commit(sched: otd.Scheduler, url: str):
    """Also on blocking connections: the wait blocks no loop or thread of another caller."""
    async with by_psycopg(url) as first, by_psycopg(url) as second:

        async def submit_by_second() -> otd.Run:
            run = await sched.submit(*call(7), connection=second.connection, key="k")
            await second.commit()
            return run

        one = await sched.submit(*call(7), connection=first.connection, key="k")
        others = [asyncio.create_task(submit_by_second()), asyncio.create_task(sched.submit(*call(7), key="k"))]
        done, _ = await asyncio.wait(others, timeout=0.3)
        assert not done
        await first.commit()
        assert [((run := await other), run.created) for other in others] == [(one, False)] * 2


async def test_a_submit_with_another_key_does_not_wait(sched: otd.Scheduler, url: str):
    """However many keys the open transaction has."""
    async with by_asyncpg(url) as caller:
        keys = [f"k{number}" for number in range(2_000)]
        await sched.submit_many([bound(n) for n in range(2_000)], keys=keys, connection=caller.connection, delay="1h")
        async with asyncio.timeout(10):
            assert (await sched.submit(*call(1), key="another", delay="1h")).created
            async with by_psycopg(url) as other:
                assert (await sched.submit(*call(2), key="a third", connection=other.connection)).created
        await caller.rollback()


async def test_a_cancelled_submit_leaves_its_transaction_usable(sched: otd.Scheduler, url: str):
    async with by_psycopg(url) as first, by_psycopg(url) as second:
        await sched.submit(*call(7), connection=first.connection, key="k")
        waiting = asyncio.create_task(sched.submit(*call(7), connection=second.connection, key="k"))
        await asyncio.sleep(0.2)
        waiting.cancel()
        done, _ = await asyncio.wait({waiting}, timeout=0.2)
        assert not done  # its thread still waits for the key
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


async def test_a_known_job_is_read_again_only_after_an_edit(
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
    async with by_asyncpg(url) as caller:
        await sched.submit("say", {"word": "a"}, connection=caller.connection)
        assert reads == []
        await caller.commit()
    async with opened(url) as other:
        await other.verbs().put(MORE)
    async with by_asyncpg(url) as caller:
        await caller.do("INSERT INTO orders VALUES (1)")
        await sched.submit("say", {"word": "a", "more": "b"}, connection=caller.connection)
        assert reads == ["say"]
        await caller.commit()
    async with opened(url) as other:
        await other.verbs().put(SAY)
    async with by_asyncpg(url) as caller:
        with pytest.raises(ArgumentsError, match="more"):
            await sched.submit("say", {"word": "a", "more": "b"}, connection=caller.connection)
        await caller.do("INSERT INTO orders VALUES (2)")  # the transaction is still usable
        await caller.commit()
    assert (len(await sched.list_runs("say")), orders(url)) == (3, [1, 2])


async def test_a_snapshot_with_an_older_revision_is_refused(sched: otd.Scheduler, url: str):
    """The arguments were checked against a revision that the snapshot of the transaction does not have."""
    await sched.put(SAY)
    async with by_asyncpg(url) as caller:
        await caller.do("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await caller.do("INSERT INTO orders VALUES (1)")
        await sched.put(MORE)
        with pytest.raises((RevisionConflict, asyncpg.SerializationError)):
            await sched.submit("say", {"word": "a", "more": "b"}, connection=caller.connection)
        await caller.rollback()
    assert await sched.list_runs("say") == []


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_the_caller_chooses_the_isolation_level(sched: otd.Scheduler, url: str, level: str):
    async with by_asyncpg(url) as caller:
        await caller.do(f"SET TRANSACTION ISOLATION LEVEL {level}")
        await caller.do("INSERT INTO orders VALUES (1)")
        run = await sched.submit(*call(7), connection=caller.connection, key="k")
        await caller.commit()
    assert await run.result(timeout="20s") == "t1: 7"


@pytest.mark.slow
def test_libraries_of_unused_connections_are_not_imported():
    module = "onthedot.stores.postgres.caller_transaction"
    program = f"import sys, {module}; print(*{{'psycopg', 'sqlalchemy'}} & sys.modules.keys())"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ""


async def test_an_open_transaction_does_not_block_workers(sched: otd.Scheduler, url: str):
    """Not even in a fair queue, which a worker locks to give turns."""
    await sched._running().on_store(lambda store: store.share_queue("mail", {"t1": 2}))
    async with by_asyncpg(url) as caller:
        inside = await sched.submit(*call(1), connection=caller.connection)
        outside = await sched.submit(*call(2))
        assert await outside.result(timeout="20s") == "t1: 2"
        await caller.commit()
        assert await inside.result(timeout="20s") == "t1: 1"


async def test_a_paused_job_keeps_committed_runs_until_it_is_resumed(sched: otd.Scheduler, url: str):
    await sched.pause("receipt")
    async with by_asyncpg(url) as caller:
        run = await sched.submit(*call(1), connection=caller.connection, expires="1ms")
        await caller.commit()
    assert await run.state() is RunState.SCHEDULED
    await sched.resume("receipt")
    assert await run.result(timeout="20s") == "t1: 1"


async def test_a_handler_can_submit_in_its_transaction(url: str):
    """The follow-up run exists only if the attempt succeeded."""
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


def test_a_plain_function_can_submit_in_its_transaction(url: str):
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
async def test_a_submit_works_through_a_pooler(kind: str, url: str, pgbouncer: PgBouncer):
    pooled = pgbouncer.url(name_of(url))
    async with program(f"{pooled}?pooler=transaction") as sched, KINDS[kind](pooled) as caller:
        run = await sched.submit(*call(7), connection=caller.connection, key="k")
        await caller.commit()
        assert await run.result(timeout="20s") == "t1: 7"


def test_a_submit_works_without_an_event_loop(url: str):
    """As in Flask and Django: a session of SQLAlchemy, or psycopg, and the blocking verbs."""
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


async def test_a_submit_is_audited_before_the_callers_transaction_ends(sched: otd.Scheduler, url: str):
    """The audit list is not locked meanwhile, so others can write to it."""

    async def recorded() -> list[object]:
        return [entry.after for entry in await sched._running().on_store(audit.read) if entry.verb == "runs.submit"]

    async with by_asyncpg(url) as caller:
        await sched.submit(*call(7), connection=caller.connection)
        assert await recorded() == [{"runs": 1}]
        await sched.submit_many([bound(8), bound(9)], connection=caller.connection)
        await sched.pause_queue("mail")
        await caller.rollback()
    await sched.stop()
    await sched.start()
    assert await recorded() == [{"runs": 1}, {"runs": 2}]


SHOP = f"shop_{os.getpid()}"
"""A role: other test processes have their own on the same server."""


def granted() -> str:
    """The statements of the documentation, which give the role `shop` what a submit needs; for `SHOP`."""
    page = (Path(__file__).parents[3] / "docs" / "operate" / "postgresql.md").read_text()
    [block] = [one for one in page.split("```sql")[1:] if "TO shop" in one]
    return block.partition("```")[0].replace("TO shop", f"TO {SHOP}")


@pytest.fixture
def clerk_url(url: str) -> Iterator[str]:
    """The database, for a role that owns nothing there, and may write its own tables only."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE ROLE {SHOP} LOGIN PASSWORD 'x'; GRANT ALL ON orders TO {SHOP}")
        try:
            yield url.replace(url.split("//")[1].split("@")[0], f"{SHOP}:x")
        finally:
            db.execute(f"DROP OWNED BY {SHOP}; DROP ROLE {SHOP}")


async def submits_of_each_kind(sched: otd.Scheduler, caller: Caller) -> None:
    await caller.do("INSERT INTO orders VALUES (7)")
    first = await sched.submit(*call(7), connection=caller.connection, key="k")
    assert first == await sched.submit(*call(7), connection=caller.connection, key="k")
    await sched.submit(*call(8), connection=caller.connection)
    await sched.submit_many([bound(9), bound(10)], keys=["a", "b"], connection=caller.connection)
    await sched.submit_many([bound(11), bound(12)], connection=caller.connection)
    await caller.do("INSERT INTO orders VALUES (8)")
    await caller.commit()
    assert await first.result(timeout="20s") == "t1: 7"
    with pytest.raises(KeyConflict):  # of a run that has ended
        await sched.submit(*call(8), connection=caller.connection, key="k")
    await caller.rollback()


@pytest.mark.parametrize("kind", KINDS)
async def test_the_documented_rights_suffice(kind: str, sched: otd.Scheduler, url: str, clerk_url: str):
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(granted())
    async with KINDS[kind](clerk_url) as caller:
        await submits_of_each_kind(sched, caller)
    assert orders(url) == [7, 8]


async def test_each_documented_right_is_needed(sched: otd.Scheduler, url: str, clerk_url: str):
    statements = [one.strip() for one in granted().split(";") if one.strip()]
    assert len(statements) >= 5
    for missing in statements:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(granted())
            db.execute(missing.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
        async with by_asyncpg(clerk_url) as caller:
            with pytest.raises(StoreUnusable, match="permission denied"):
                await submits_of_each_kind(sched, caller)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_role_without_the_rights_is_refused_with_what_to_do(
    kind: str, sched: otd.Scheduler, url: str, clerk_url: str
):
    words = (
        "connection: expected a role that may submit runs in the schema onthedot, but the server says: .*"
        "permission denied for schema onthedot.*; connect with the role of the store, or grant this role the rights"
    )
    async with KINDS[kind](clerk_url) as caller:
        await caller.do("INSERT INTO orders VALUES (7)")
        with pytest.raises(StoreUnusable, match=words):
            await sched.submit(*call(7), connection=caller.connection)
        await caller.do("INSERT INTO orders VALUES (8)")  # its transaction is usable
        await caller.commit()
    assert (orders(url), await sched.list_runs()) == ([7, 8], [])


BOOKS = "DROP SCHEMA IF EXISTS books CASCADE; CREATE SCHEMA books; CREATE TABLE books.orders (id bigint PRIMARY KEY)"


def books(url: str) -> list[int]:
    with psycopg.connect(url, autocommit=True) as db:
        written = [number for (number,) in db.execute("SELECT id FROM books.orders ORDER BY id")]
        db.execute("DROP SCHEMA books CASCADE")
    return written


@pytest.mark.parametrize("fails", [False, True])
async def test_the_callers_own_search_path_is_restored(fails: bool, sched: otd.Scheduler, caller: Caller, url: str):
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(BOOKS)
    await caller.do("SET LOCAL search_path = books, public")
    await sched.submit(*call(7), connection=caller.connection, key="k")
    if fails:
        with pytest.raises(KeyConflict):
            await sched.submit(*call(8), connection=caller.connection, key="k")
    await caller.do("INSERT INTO orders VALUES (1)")
    await caller.commit()
    await caller.do("INSERT INTO orders VALUES (2)")
    await caller.commit()
    assert (books(url), orders(url)) == ([1], [2])


@pytest.mark.parametrize("by", [by_asyncpg, by_psycopg])
async def test_a_search_path_that_the_caller_sets_holds_after_the_commit(by, sched: otd.Scheduler, url: str):
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(BOOKS)
    async with by(url) as caller:
        await caller.do("SET search_path = books, public")
        await sched.submit(*call(7), connection=caller.connection)
        await caller.do("INSERT INTO orders VALUES (1)")
        await caller.commit()
        await caller.do("INSERT INTO orders VALUES (2)")
        await caller.commit()
    assert (books(url), orders(url)) == ([1, 2], [])
