"""Hints cross between processes, a few times a second at the most; losing them costs latency only."""

from __future__ import annotations

import asyncio

import asyncpg
import psycopg
import pytest

from onthedot.stores.hints import Hint
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.wakeup import Listener
from onthedot.stores.values import Node
from tests.servers.postgres import PostgresServer
from tests.stores.hearing import heard_by, listening, until

TTL = 10_000_000
END_LISTENERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE query LIKE '%LISTEN%' AND datname = current_database() AND pid <> pg_backend_pid()
"""


async def test_what_one_commits_another_hears(stores: list[PostgresStore]):
    await listening(*stores)
    mine, others = heard_by(stores[0]), [heard_by(store) for store in stores[1:]]
    await stores[0].resume_queue("mail")
    for heard in others:
        await until(heard, "runs")
    await asyncio.sleep(0.05)
    assert mine == ["runs"]  # once: at its commit, and not again by the server


async def test_a_connection_in_disorder_is_made_anew(postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    """asyncpg says that it cannot switch states when an answer comes that nobody waits for, after a freeze."""
    listen, tries = Listener._listen_once, []

    async def in_disorder(self: Listener, *, missed: bool) -> None:
        tries.append(missed)
        if len(tries) == 1:
            raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")
        await listen(self, missed=missed)

    monkeypatch.setattr(Listener, "_listen_once", in_disorder)
    store = await PostgresStore.open(postgres_url)
    try:
        await listening(store)
        assert tries == [False, True]
    finally:
        await store.close()


async def test_a_beat_wakes_nobody(stores: list[PostgresStore]):
    await listening(*stores)
    heard = heard_by(stores[1])
    await stores[0].register(Node(id="node", incarnation="one"), ttl=TTL)
    await stores[0].beat("one", ttl=TTL)
    await stores[0].probe()
    await until(heard, "beats")
    assert heard == ["beats"]


async def test_many_commits_are_few_notices(stores: list[PostgresStore]):
    await listening(*stores)
    heard = heard_by(stores[1])
    # Side by side: one after the other, a slow machine would need more than the 20 ms of one notice for each.
    await asyncio.gather(*(stores[0].resume_queue(f"queue{number}") for number in range(60)))
    await stores[0].probe()
    await until(heard, "beats")
    assert heard.count("runs") < 40


async def test_who_closes_at_once_is_heard_still(stores: list[PostgresStore], empty_url: str):
    """A command that submits and ends."""
    await listening(*stores)
    heard = heard_by(stores[0])
    brief = await PostgresStore.open(empty_url)
    for number in range(5):
        await brief.resume_queue(f"queue{number}")
    await brief.probe()
    await brief.close()
    await until(heard, "beats")


async def test_who_was_cut_off_looks_once_when_it_is_back(store: PostgresStore, empty_url: str):
    await listening(store)
    heard = heard_by(store)
    with psycopg.connect(empty_url, autocommit=True) as db:
        db.execute(END_LISTENERS)
    await until(heard, "terms")
    assert {"runs", "schedules", "beats", "terms", "ends"} <= set(heard)


async def test_hints_go_on_after_a_restart(postgres_server: PostgresServer):
    url = postgres_server.create_database()
    one, other = await PostgresStore.open(url), await PostgresStore.open(url)
    await listening(one, other)
    postgres_server.restart_immediately()
    heard = heard_by(other)
    await until(heard, "ends")  # back, and looking once
    heard.clear()
    one.hints.send(Hint("runs", 0))  # here only
    for _ in range(200):
        try:
            await one.resume_queue("mail")
            break
        except Exception:  # noqa: BLE001 - until it is back
            await asyncio.sleep(0.01)
    await until(heard, "runs")
    await one.close()
    await other.close()
