"""PostgreSQL servers that are away, slow or restarted, and cancelled calls: errors and recovery."""

from __future__ import annotations

import asyncio
import socket

import asyncpg
import psycopg
import pytest

from onthedot.model.errors import StateError, StoreUnavailable, StoreUnusable
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.errors import translate
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.sql.port import Contended, sql
from onthedot.stores.values import Node
from tests.servers.postgres import PostgresServer

TTL = 10_000_000


SESSIONS = """
SELECT state, query, wait_event, now() - backend_start AS age FROM pg_stat_activity
WHERE application_name = 'onthedot' AND datname = current_database()
"""


async def sessions_left(url: str) -> list[tuple[object, ...]]:
    """Returns our sessions that the server still has in this database. The server may notice an end late."""
    with psycopg.connect(url, autocommit=True) as db:
        left = db.execute(SESSIONS).fetchall()
        for _ in range(1_500):  # half a minute: on a busy machine a session ends late
            if not left:
                break
            await asyncio.sleep(0.02)
            left = db.execute(SESSIONS).fetchall()
    return left


async def test_a_server_that_is_not_running_is_unavailable():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port}/shop: expected a server that answers"):
        await PostgresStore.open(f"postgresql://me:secret@127.0.0.1:{port}/shop")


@pytest.mark.parametrize("option", ["sslmode=bogus", "target_session_attrs=bogus"])
async def test_an_invalid_option_makes_the_store_unusable(option: str):
    with pytest.raises(StoreUnusable, match=r"127.0.0.1/shop: expected options .* mend the URL"):
        await PostgresStore.open(f"postgresql://me:secret@127.0.0.1/shop?{option}")


def test_an_error_of_several_lines_becomes_one_line():
    error = asyncpg.exceptions.InvalidCatalogNameError("no such thing")
    error.detail = "more of it"
    shown = str(translate(error, "there"))
    assert "more of it" in shown
    assert "\n" not in shown


async def test_a_wrong_password_or_missing_database_makes_the_store_unusable(postgres_url: str):
    wrong = psycopg.conninfo.conninfo_to_dict(postgres_url)
    place = f"127.0.0.1:{wrong['port']}"
    with pytest.raises(StoreUnusable, match="does not let this user in") as refused:
        await PostgresStore.open(f"postgresql://onthedot:wrong@{place}/{wrong['dbname']}")
    assert "wrong" not in str(refused.value).split("(")[0]
    with pytest.raises(StoreUnusable, match="there is no such database"):
        await PostgresStore.open(postgres_url.replace(str(wrong["dbname"]), "nowhere"))


async def test_a_store_reconnects_to_a_restarted_server(postgres_server: PostgresServer):
    store = await PostgresStore.open(postgres_server.create_database())
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    postgres_server.restart_immediately()
    for _ in range(100):
        try:
            beat = await store.beat("one", ttl=TTL)
        except StoreUnavailable:
            continue
        break
    else:
        raise AssertionError("the store did not come back")
    assert beat.lease_until == beat.now + TTL
    postgres_server.stop()
    with pytest.raises(StoreUnavailable, match="ask again"):
        await store.beat("one", ttl=TTL)
    postgres_server.start()
    await asyncio.sleep(0)
    for _ in range(100):
        try:
            await store.beat("one", ttl=TTL)
        except StoreUnavailable:
            continue
        break
    await store.close()


async def test_a_call_to_a_frozen_server_times_out(postgres_server: PostgresServer):
    url = postgres_server.create_database()
    await (await PostgresStore.open(url)).close()  # making the tables takes longer than the time-out below
    store = await PostgresStore.open(url + "?timeout=1")
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    postgres_server.pause()
    with pytest.raises(StoreUnavailable, match="expected an answer in time"):
        await store.beat("one", ttl=TTL)
    postgres_server.resume()
    for _ in range(100):
        try:
            await store.beat("one", ttl=TTL)
        except StoreUnavailable:
            continue
        break
    await store.close()


async def test_the_connection_of_a_cancelled_call_is_not_reused(store: PostgresStore, empty_url: str):
    """The server undoes the cancelled call, and the next call reads its own answer."""
    asked = asyncio.Event()

    async def echo(number: int) -> object:
        return await store.database.look(lambda tx: tx.value(sql("SELECT $1::int"), number))

    async def work(tx: Transaction) -> None:
        await tx.do(sql("INSERT INTO queues (name) VALUES ('half done')"))
        asked.set()
        await tx.rows(sql("SELECT pg_sleep(60)"))

    task = asyncio.create_task(store.database.write(work))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.gather(*(echo(n) for n in range(5))) == [*range(5)]
    assert await store.queries.list_queues() == []


async def test_a_transaction_is_repeated_after_a_deadlock(store: PostgresStore):
    """Two transactions lock the same rows in opposite orders. The server ends one, and the store repeats it."""
    await store.pause_queue("a", reason="")
    await store.pause_queue("b", reason="")
    meet = asyncio.Barrier(2)
    tries = 0

    async def lock(names: str) -> None:
        async def work(tx: Transaction) -> None:
            nonlocal tries
            tries += 1
            for place, name in enumerate(names):
                await tx.rows(sql("SELECT 1 FROM queues WHERE name = $1 FOR UPDATE"), name)
                if place == 0 and tries <= 2:
                    await meet.wait()
            await tx.do(sql("UPDATE queues SET reason = reason || $1"), names[0])

        await store.database.write_long(work)  # the server needs a second to notice the deadlock

    await asyncio.gather(lock("ab"), lock("ba"))
    assert tries == 3
    assert sorted(queue.reason for queue in await store.queries.list_queues())[0] in ("ab", "ba")


async def test_an_error_says_that_all_connections_are_in_use(empty_url: str):
    store = await PostgresStore.open(f"{empty_url}?connections=2&timeout=1")
    leave = asyncio.Event()

    async def stay(tx: Transaction) -> None:
        await leave.wait()

    busy = [asyncio.create_task(store.database.write(stay)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="expected one of 2 connections to be free"):
        await store.queries.list_jobs()
    leave.set()
    await asyncio.gather(*busy)
    assert await store.queries.list_jobs() == []
    await store.close()


async def test_a_closed_store_refuses_calls_and_leaves_no_sessions(postgres_url: str):
    """On a database of its own: poolers of other tests keep sessions in theirs."""
    store = await PostgresStore.open(postgres_url)
    await store.queries.list_jobs()
    await store.close()
    await store.close()
    with pytest.raises(StateError, match="it was closed; open it again"):
        await store.queries.list_jobs()
    assert await sessions_left(postgres_url) == []


async def test_characters_that_the_server_cannot_store_are_replaced(store: PostgresStore):
    queue = await store.pause_queue("mail", reason="a\0b")
    assert queue.reason == "a?b"


async def test_a_call_that_is_cancelled_during_its_rollback_is_not_repeated(store: PostgresStore):
    """Without the cancel, the transaction would be repeated after this error."""
    tries = 0

    async def work(tx: Transaction) -> None:
        nonlocal tries
        tries += 1
        task.get_loop().call_soon(task.cancel)
        raise Contended("a lock")

    task = asyncio.ensure_future(store.database.write(work))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tries == 1
