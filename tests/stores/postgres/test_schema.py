"""The schema of PostgreSQL: the migrations make what the snapshot has, once, and leave other programs alone."""

from __future__ import annotations

import asyncio
from importlib.resources import files

import psycopg
import pytest

from onthedot.model.errors import StoreUnusable
from onthedot.stores import migration
from onthedot.stores.migration import Migration
from onthedot.stores.postgres import PostgresStore, schema
from onthedot.stores.sql.port import sql
from tests.stores.postgres.conftest import deadlocks
from tests.stores.postgres.snapshot import snapshot

REGENERATE = "write the snapshot again, as described in tests/stores/postgres/snapshot.py"
STEPS = migration.load(schema.DRIVER)


def do(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        found = db.execute(statement.encode())
        return found.fetchall() if found.description else []


async def test_a_new_schema_equals_the_snapshot(postgres_url: str):
    kept = files("onthedot.stores.postgres").joinpath("schema.sql").read_text(encoding="utf-8")
    assert await snapshot(postgres_url) == kept, REGENERATE
    assert await snapshot(f"{postgres_url}?schema=another") == kept


def test_the_index_of_submitted_runs_has_the_condition_of_the_queries():
    """Otherwise no query would use the index, and a finished submit would be executed again."""
    [index] = [line for line in STEPS[0].sql.splitlines() if "INDEX history_submitted" in line]
    assert index.endswith(sql("WHERE {is_no_slot};").postgres)


async def test_several_opens_at_once_make_the_schema_once(postgres_url: str):
    stores = await asyncio.gather(*(PostgresStore.open(postgres_url) for _ in range(6)))
    for store in stores:
        await store.close()
    made = do(postgres_url, "SELECT number, name FROM onthedot.migrations ORDER BY number")
    assert made == [(step.number, step.name) for step in STEPS]


async def test_two_schemas_of_a_database_are_two_stores(postgres_url: str):
    one = await PostgresStore.open(postgres_url)
    other = await PostgresStore.open(f"{postgres_url}?schema=other")
    await one.pause_queue("mail", reason="here only")
    assert [queue.name for queue in await one.queries.list_queues()] == ["mail"]
    assert await other.queries.list_queues() == []
    await one.close()
    await other.close()


async def test_a_migration_is_applied_once_and_completely_or_not_at_all(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    await (await PostgresStore.open(postgres_url)).close()
    more = Migration(len(STEPS) + 1, "more", "CREATE TABLE more (a integer); INSERT INTO more VALUES (1);")
    broken = Migration(len(STEPS) + 2, "broken", "CREATE TABLE most (a integer); INSERT INTO nowhere VALUES (1);")
    monkeypatch.setattr(migration, "load", lambda driver: [*STEPS, more, broken])
    for _ in range(2):
        with pytest.raises(StoreUnusable, match="nowhere"):
            await PostgresStore.open(postgres_url)
    assert do(postgres_url, "SELECT a FROM onthedot.more") == [(1,)]
    assert do(postgres_url, "SELECT to_regclass('onthedot.most')") == [(None,)]
    monkeypatch.undo()
    with pytest.raises(
        StoreUnusable, match=f"expected schema version {len(STEPS)} or older, got {len(STEPS) + 1}: a newer"
    ):
        await PostgresStore.open(postgres_url)


WAITING = "SELECT count(*) FROM pg_locks WHERE relation = 'onthedot.gate_holders'::regclass AND NOT granted"


async def test_a_migration_is_repeated_after_a_deadlock(postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    """Step 4 locks `runs` and then `gate_holders`. A working node locks them in the other order."""
    monkeypatch.setattr(migration, "load", lambda driver: STEPS[:3])
    await (await PostgresStore.open(postgres_url)).close()
    monkeypatch.undo()
    before = deadlocks(postgres_url)
    async with await psycopg.AsyncConnection.connect(postgres_url) as node:
        await node.execute("SET deadlock_timeout = '60s'")  # then the server ends the migration, not the node
        await node.execute("SELECT FROM onthedot.gate_holders")
        opening = asyncio.create_task(PostgresStore.open(postgres_url))
        while await asyncio.to_thread(do, postgres_url, WAITING) == [(0,)]:
            pass
        await node.execute("SELECT FROM onthedot.runs")
    await (await opening).close()
    assert deadlocks(postgres_url) == before + 1
    assert do(postgres_url, "SELECT max(number) FROM onthedot.migrations") == [(len(STEPS),)]


async def test_a_schema_of_another_program_is_refused(postgres_url: str):
    do(postgres_url, "CREATE SCHEMA onthedot; CREATE TABLE onthedot.theirs (a integer)")
    with pytest.raises(StoreUnusable, match=r"another program \(1 tables and indexes\); name another one with"):
        await PostgresStore.open(postgres_url)


async def test_a_read_only_store_requires_an_existing_schema(postgres_url: str):
    with pytest.raises(StoreUnusable, match="schema onthedot: expected the tables of onthedot, found none;"):
        await PostgresStore.open(postgres_url, read_only=True)
    assert do(postgres_url, "SELECT to_regnamespace('onthedot')") == [(None,)]
    await (await PostgresStore.open(postgres_url)).close()
    store = await PostgresStore.open(postgres_url, read_only=True)
    assert await store.queries.list_jobs() == []
    with pytest.raises(StoreUnusable, match="opened for reading only"):
        await store.pause_queue("mail", reason="")
    await store.close()


async def test_a_user_who_cannot_create_tables_can_use_an_existing_schema(postgres_url: str):
    await (await PostgresStore.open(postgres_url)).close()
    grants = "GRANT USAGE ON SCHEMA onthedot TO clerk; GRANT ALL ON ALL TABLES IN SCHEMA onthedot TO clerk"
    do(postgres_url, f"CREATE ROLE clerk LOGIN PASSWORD 'x'; {grants}")
    try:
        store = await PostgresStore.open(postgres_url.replace(postgres_url.split("//")[1].split("@")[0], "clerk:x"))
        assert (await store.pause_queue("mail", reason="")).name == "mail"
        await store.close()
    finally:
        do(postgres_url, "DROP OWNED BY clerk; DROP ROLE clerk")
