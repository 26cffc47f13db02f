"""The schema of SQLite: the migrations make what the snapshot has, in order, once, and completely or not at all."""

from __future__ import annotations

import sqlite3
from importlib.resources import files

import pytest

from onthedot.model.errors import StoreUnusable
from onthedot.stores import migration
from onthedot.stores.migration import Migration
from onthedot.stores.sql.port import sql
from onthedot.stores.sqlite import SqliteStore, schema
from tests.stores.sqlite.snapshot import dump, snapshot

REGENERATE = "write the snapshot again, as described in tests/stores/sqlite/snapshot.py"


async def test_a_new_database_equals_the_snapshot(store, path):
    kept = files("onthedot.stores.sqlite").joinpath("schema.sql").read_text(encoding="utf-8")
    assert snapshot() == kept, REGENERATE
    db = sqlite3.connect(path)
    assert dump(db) == kept
    db.close()


def test_the_index_of_submitted_runs_has_the_condition_of_the_queries():
    """Otherwise no query would use the index, and a finished submit would be executed again."""
    [index] = [line for line in snapshot().splitlines() if "history_submitted" in line]
    assert index.endswith(sql("WHERE {is_no_slot};").sqlite)


async def test_opening_again_changes_nothing(path):
    for _ in range(2):
        store = await SqliteStore.open(path)
        await store.close()
        db = sqlite3.connect(path)
        assert dump(db) == snapshot()
        assert db.execute("PRAGMA application_id").fetchone() == (schema.APPLICATION_ID,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        db.close()


async def test_only_its_owner_can_open_a_new_file(path):
    store = await SqliteStore.open(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert (path.parent / "otd.db-wal").stat().st_mode & 0o777 == 0o600
    await store.close()


async def test_an_empty_file_becomes_a_store(path):
    path.touch(mode=0o640)
    store = await SqliteStore.open(path)
    await store.close()
    assert path.stat().st_mode & 0o777 == 0o640


NEXT = len(migration.load(schema.DRIVER)) + 1
NEXT_STEP = Migration(NEXT, "more", "CREATE TABLE more (a INTEGER) STRICT;\nINSERT INTO more VALUES (1);\n")
BROKEN_STEP = Migration(NEXT + 1, "broken", "CREATE TABLE most (a INTEGER) STRICT;\nINSERT INTO nowhere VALUES (1);\n")


async def test_migrations_are_applied_in_order_and_once(path, monkeypatch):
    await (await SqliteStore.open(path)).close()
    steps = [*migration.load(schema.DRIVER), NEXT_STEP]
    monkeypatch.setattr(migration, "load", lambda driver: steps)
    for _ in range(2):
        await (await SqliteStore.open(path)).close()
    db = sqlite3.connect(path)
    assert db.execute("SELECT count(*) FROM more").fetchone() == (1,)
    assert db.execute("PRAGMA user_version").fetchone() == (NEXT,)
    db.close()


async def test_a_migration_that_fails_leaves_nothing_behind(path, monkeypatch):
    steps = [*migration.load(schema.DRIVER), NEXT_STEP, BROKEN_STEP]
    monkeypatch.setattr(migration, "load", lambda driver: steps)
    with pytest.raises(StoreUnusable, match="no such table: nowhere"):
        await SqliteStore.open(path)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (NEXT,)
    assert "most" not in dump(db)
    db.close()


def test_a_gap_in_the_numbers_is_an_error(tmp_path, monkeypatch):
    folder = tmp_path / "migrations"
    folder.mkdir()
    for name in ("0001_one.sql", "0003_three.sql", "notes.txt"):
        (folder / name).write_text("SELECT 1;")
    monkeypatch.setattr(migration, "files", lambda driver: tmp_path)
    with pytest.raises(ValueError, match=r"without a gap, got \[1, 3\]"):
        migration.load("some.driver")


async def test_a_read_only_store_creates_and_writes_nothing(path):
    with pytest.raises(StoreUnusable, match="expected the path of a database, found none"):
        await SqliteStore.open(path, read_only=True)
    assert not path.exists()
    writing = await SqliteStore.open(path)
    reading = await SqliteStore.open(path, read_only=True)
    assert await reading.queries.list_jobs() == []
    with pytest.raises(StoreUnusable, match="opened for reading only"):
        await reading.pause_job(1, reason="")
    await reading.close()
    await writing.close()
