"""Each fault of the proxy has its documented effect on an asyncpg connection to a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from tests.chaos.proxy import Proxy
from tests.servers import running
from tests.servers.postgres import name_of, url
from tests.servers.shared import SharedPostgres

LOST = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)


@pytest.fixture
def proxy(postgres: SharedPostgres) -> Iterator[Proxy]:
    with Proxy(postgres.port) as cable:
        yield cable


@pytest.fixture
def through(proxy: Proxy, postgres: SharedPostgres, postgres_url: str) -> str:
    return url(proxy.port, postgres.password, name_of(postgres_url))


@pytest.fixture
async def db(through: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(through)
    await connection.execute("CREATE TABLE t (x int)")
    yield connection
    connection.terminate()


@pytest.fixture
async def direct(postgres_url: str, db: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the same database, not through the proxy."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


async def silent(asked: asyncio.Task) -> bool:
    await asyncio.wait({asked}, timeout=0.1)
    return not asked.done()


async def test_a_proxy_without_faults_changes_nothing(db: asyncpg.Connection, proxy: Proxy):
    assert await db.fetchval("SELECT sum(x) FROM generate_series(1, 100000) x") == 5_000_050_000
    rows = await db.fetch("SELECT repeat('x', 1000) FROM generate_series(1, 2000)")
    assert len(rows) == 2000
    await db.copy_records_to_table("t", records=[(n,) for n in range(5000)])
    assert await db.fetchval("SELECT count(*) FROM t") == 5000
    assert proxy.connections == 1


async def test_cut_ends_connections_and_refuses_new_ones_until_healed(
    db: asyncpg.Connection, proxy: Proxy, through: str
):
    proxy.cut()
    with pytest.raises(LOST):
        await db.fetchval("SELECT 1")
    with pytest.raises(ConnectionRefusedError):
        await asyncpg.connect(through)
    proxy.heal()
    again = await asyncpg.connect(through)
    assert await again.fetchval("SELECT 1") == 1
    await again.close()


async def test_reset_ends_connections_and_accepts_new_ones(db: asyncpg.Connection, proxy: Proxy, through: str):
    asked = asyncio.create_task(db.fetchval("SELECT pg_sleep(30)"))
    assert await silent(asked)
    proxy.reset()
    with pytest.raises(LOST):
        await asked
    again = await asyncpg.connect(through)
    assert await again.fetchval("SELECT 1") == 1
    await again.close()


async def test_bytes_in_a_black_hole_arrive_after_heal(
    db: asyncpg.Connection, direct: asyncpg.Connection, proxy: Proxy
):
    proxy.black_hole()
    asked = asyncio.create_task(db.execute("INSERT INTO t VALUES (1)"))
    assert await silent(asked)
    assert await direct.fetchval("SELECT count(*) FROM t") == 0
    proxy.heal()
    assert await asked == "INSERT 0 1"


async def test_no_client_can_connect_through_a_black_hole(db: asyncpg.Connection, proxy: Proxy, through: str):
    proxy.black_hole()
    with pytest.raises(TimeoutError):
        await asyncpg.connect(through, timeout=0.2)


async def test_one_way_to_the_server_delivers_statements_and_blocks_answers(
    db: asyncpg.Connection, direct: asyncpg.Connection, proxy: Proxy
):
    proxy.one_way("server")
    asked = asyncio.create_task(db.execute("INSERT INTO t VALUES (1)"))
    async with asyncio.timeout(running.PATIENCE):
        while await direct.fetchval("SELECT count(*) FROM t") == 0:
            continue
    assert await silent(asked)
    proxy.heal()
    assert await asked == "INSERT 0 1"


async def test_one_way_to_the_client_delivers_notices_and_blocks_statements(
    db: asyncpg.Connection, direct: asyncpg.Connection, proxy: Proxy
):
    heard = asyncio.Event()
    await db.add_listener("bell", lambda *_: heard.set())
    proxy.one_way("client")
    await direct.execute("NOTIFY bell")
    await asyncio.wait_for(heard.wait(), 10)
    asked = asyncio.create_task(db.execute("INSERT INTO t VALUES (1)"))
    assert await silent(asked)
    assert await direct.fetchval("SELECT count(*) FROM t") == 0
    proxy.heal()
    await asked


async def test_a_delay_is_added_to_each_direction(db: asyncpg.Connection, proxy: Proxy):
    await db.fetchval("SELECT 1")
    proxy.delay(0.1)
    began = time.monotonic()
    await db.fetchval("SELECT 1")
    assert time.monotonic() - began >= 0.2


async def test_a_commit_whose_answer_is_lost_has_happened(
    db: asyncpg.Connection, direct: asyncpg.Connection, proxy: Proxy
):
    proxy.drop_reply("COMMIT")
    with pytest.raises(LOST):
        async with db.transaction():
            await db.execute("INSERT INTO t VALUES (1)")
    assert await direct.fetchval("SELECT count(*) FROM t") == 1
    assert [reply.tags for reply in proxy.dropped] == [("COMMIT",)]


async def test_only_the_answer_to_the_named_statement_is_lost(
    db: asyncpg.Connection, direct: asyncpg.Connection, proxy: Proxy, through: str
):
    proxy.drop_reply("INTO t /* third */", times=2)
    assert await db.execute("INSERT INTO t VALUES ($1) /* first */", 1) == "INSERT 0 1"
    assert await db.fetchval("SELECT count(*) FROM t") == 1
    for _ in range(2):
        with pytest.raises(LOST):
            await db.execute("INSERT INTO t /* third */ VALUES ($1)", 3)
        db = await asyncpg.connect(through)
    assert await db.execute("INSERT INTO t /* third */ VALUES ($1)", 3) == "INSERT 0 1"
    await db.close()
    assert await direct.fetchval("SELECT count(*) FROM t") == 4
    assert len(proxy.dropped) == 2


async def test_an_answer_may_be_lost_without_a_reset(db: asyncpg.Connection, direct: asyncpg.Connection, proxy: Proxy):
    proxy.drop_reply("INSERT", then="silence")
    asked = asyncio.create_task(db.execute("INSERT INTO t VALUES (1)"))
    await asyncio.to_thread(running.wait_until, lambda: bool(proxy.dropped), "an answer to be lost")
    assert await direct.fetchval("SELECT count(*) FROM t") == 1
    proxy.heal()
    assert await silent(asked)
    asked.cancel()
    await asyncio.wait({asked})


async def test_no_part_of_a_lost_answer_arrives(db: asyncpg.Connection, proxy: Proxy):
    proxy.drop_reply("RETURNING x")
    heard = []
    with pytest.raises(LOST):
        heard.append(await db.fetch("INSERT INTO t SELECT generate_series(1, 50000) RETURNING x"))
    assert heard == []
    assert [reply.tags for reply in proxy.dropped] == [("INSERT 0 50000",)]


async def test_the_answer_of_a_rollback_is_not_lost_by_mistake(db: asyncpg.Connection, proxy: Proxy):
    proxy.drop_reply("COMMIT")
    transaction = db.transaction()
    await transaction.start()
    await db.execute("INSERT INTO t VALUES (1)")
    await transaction.rollback()
    assert await db.fetchval("SELECT count(*) FROM t") == 0
    assert not proxy.dropped


async def test_a_client_that_leaves_is_disconnected_from_the_server(
    db: asyncpg.Connection, direct: asyncpg.Connection, proxy: Proxy
):
    await db.close()
    running.wait_until(lambda: proxy.connections == 0, "the connection to be closed")


async def test_connecting_without_a_server_fails():
    with Proxy(running.free_port()) as proxy, pytest.raises(LOST):
        await asyncpg.connect(url(proxy.port, "x", "x"))
