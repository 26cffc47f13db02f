"""Servers that are away, slow or restarted; calls that are cancelled. What is told, and what goes on by itself."""

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
    """The sessions of ours that the server still has in this database; it may take a moment to notice an end."""
    with psycopg.connect(url, autocommit=True) as db:
        left = db.execute(SESSIONS).fetchall()
        for _ in range(1_500):  # half a minute: on a busy machine a session takes its time to end
            if not left:
                break
            await asyncio.sleep(0.02)
            left = db.execute(SESSIONS).fetchall()
    return left


async def test_nobody_listens_there():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port}/shop: expected a server that answers"):
        await PostgresStore.open(f"postgresql://me:secret@127.0.0.1:{port}/shop")


@pytest.mark.parametrize("option", ["sslmode=bogus", "target_session_attrs=bogus"])
async def test_an_option_that_makes_no_sense_will_not_get_better(option: str):
    with pytest.raises(StoreUnusable, match=r"127.0.0.1/shop: expected options .* mend the URL"):
        await PostgresStore.open(f"postgresql://me:secret@127.0.0.1/shop?{option}")


def test_an_error_of_several_lines_is_told_in_one():
    error = asyncpg.exceptions.InvalidCatalogNameError("no such thing")
    error.detail = "more of it"
    told = str(translate(error, "there"))
    assert "more of it" in told
    assert "\n" not in told


async def test_a_wrong_password_and_a_missing_database_will_not_get_better(postgres_url: str):
    wrong = psycopg.conninfo.conninfo_to_dict(postgres_url)
    place = f"127.0.0.1:{wrong['port']}"
    with pytest.raises(StoreUnusable, match="does not let this user in") as refused:
        await PostgresStore.open(f"postgresql://onthedot:wrong@{place}/{wrong['dbname']}")
    assert "wrong" not in str(refused.value).split("(")[0]
    with pytest.raises(StoreUnusable, match="there is no such database"):
        await PostgresStore.open(postgres_url.replace(str(wrong["dbname"]), "nowhere"))


async def test_a_restarted_server_is_found_again(postgres_server: PostgresServer):
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


async def test_a_frozen_server_is_given_up_in_time(postgres_server: PostgresServer):
    url = postgres_server.create_database()
    await (await PostgresStore.open(url)).close()  # its tables take longer than what follows
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


async def test_a_call_that_is_cancelled_leaves_its_connection_to_nobody(store: PostgresStore, empty_url: str):
    """What the server was asked for is undone, and the next call reads its own answer."""
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


async def test_a_transaction_that_others_keep_from_passing_is_made_again(store: PostgresStore):
    """Two that lock the same rows in opposite orders: the server ends one, and it is made anew."""
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

        await store.database.write_long(work)  # it takes the server a second to find out

    await asyncio.gather(lock("ab"), lock("ba"))
    assert tries == 3
    assert sorted(queue.reason for queue in await store.queries.list_queues())[0] in ("ab", "ba")


async def test_when_all_connections_are_in_use_it_says_so(empty_url: str):
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


async def test_a_closed_store_says_so_and_leaves_nothing_behind(store: PostgresStore, empty_url: str):
    await store.queries.list_jobs()
    await store.close()
    await store.close()
    with pytest.raises(StateError, match="it was closed; open it again"):
        await store.queries.list_jobs()
    assert await sessions_left(empty_url) == []


async def test_text_that_the_server_cannot_keep_is_kept_as_well_as_it_can(store: PostgresStore):
    queue = await store.pause_queue("mail", reason="a\0b")
    assert queue.reason == "a?b"


async def test_a_call_that_is_cancelled_while_it_is_undone_is_not_made_again(store: PostgresStore):
    """The error before the cancel is one after which a transaction is made again."""
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
