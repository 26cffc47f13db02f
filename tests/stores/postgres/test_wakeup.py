"""Hints travel between processes, a few times a second at most. If they are lost, only latency suffers."""

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
from tests.stores.heard_hints import record_hints, wait_for_hint, wait_listening

TTL = 10_000_000
END_LISTENERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE query LIKE '%LISTEN%' AND datname = current_database() AND pid <> pg_backend_pid()
"""


async def test_a_commit_of_one_store_sends_a_hint_to_others(stores: list[PostgresStore]):
    await wait_listening(*stores)
    mine, others = record_hints(stores[0]), [record_hints(store) for store in stores[1:]]
    await stores[0].resume_queue("mail")
    for heard in others:
        await wait_for_hint(heard, "runs")
    await asyncio.sleep(0.05)
    assert mine == ["runs"]  # once, at its own commit, and not again from the server


async def test_a_broken_listening_connection_is_replaced(postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    """After a freeze, asyncpg raises this error when it gets an answer that no call waits for."""
    listen, tries = Listener._listen_once, []

    async def fail_once(self: Listener, *, missed: bool) -> None:
        tries.append(missed)
        if len(tries) == 1:
            raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")
        await listen(self, missed=missed)

    monkeypatch.setattr(Listener, "_listen_once", fail_once)
    store = await PostgresStore.open(postgres_url)
    try:
        await wait_listening(store)
        assert tries == [False, True]
    finally:
        await store.close()


async def test_a_heartbeat_sends_no_hint(stores: list[PostgresStore]):
    await wait_listening(*stores)
    heard = record_hints(stores[1])
    await stores[0].register(Node(id="node", incarnation="one"), ttl=TTL)
    await stores[0].beat("one", ttl=TTL)
    await stores[0].probe()
    await wait_for_hint(heard, "beats")
    assert heard == ["beats"]


async def test_many_commits_send_few_notifications(stores: list[PostgresStore]):
    await wait_listening(*stores)
    heard = record_hints(stores[1])
    # At the same time: in sequence, a slow machine would take longer than the 20 ms of one notification for each.
    await asyncio.gather(*(stores[0].resume_queue(f"queue{number}") for number in range(60)))
    await stores[0].probe()
    await wait_for_hint(heard, "beats")
    assert heard.count("runs") < 40


async def test_hints_are_sent_before_a_store_closes(stores: list[PostgresStore], empty_url: str):
    """As of a command that submits and ends."""
    await wait_listening(*stores)
    heard = record_hints(stores[0])
    brief = await PostgresStore.open(empty_url)
    for number in range(5):
        await brief.resume_queue(f"queue{number}")
    await brief.probe()
    await brief.close()
    await wait_for_hint(heard, "beats")


async def test_a_listener_that_was_cut_off_sends_all_hints_once_when_it_is_back(store: PostgresStore, empty_url: str):
    await wait_listening(store)
    heard = record_hints(store)
    with psycopg.connect(empty_url, autocommit=True) as db:
        db.execute(END_LISTENERS)
    await wait_for_hint(heard, "terms")
    assert {"runs", "schedules", "beats", "terms", "ends"} <= set(heard)


async def test_hints_continue_after_a_restart_of_the_server(postgres_server: PostgresServer):
    url = postgres_server.create_database()
    one, other = await PostgresStore.open(url), await PostgresStore.open(url)
    await wait_listening(one, other)
    postgres_server.restart_immediately()
    heard = record_hints(other)
    await wait_for_hint(heard, "ends")  # it is back, and sent all hints once
    heard.clear()
    one.hints.send(Hint("runs", 0))  # to this store only
    for _ in range(200):
        try:
            await one.resume_queue("mail")
            break
        except Exception:  # noqa: BLE001 - until it is back
            await asyncio.sleep(0.01)
    await wait_for_hint(heard, "runs")
    await one.close()
    await other.close()
