"""Every way in which the file can be wrong gives one of our errors, which says what to do, never one of sqlite3's."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from onthedot.model.errors import StoreError, StoreUnavailable, StoreUnusable
from onthedot.model.run import RunState
from onthedot.stores.sqlite import SqliteStore, connection, schema
from onthedot.stores.sqlite.connection import translate
from onthedot.stores.sqlite.writer_thread import Transaction
from tests.stores.sqlite.working import define, register, reserve, submit


def not_a_database(path: Path) -> Path:
    path.write_text("name,schedule\nreport,@daily\n" * 100)
    return path


def another_programs_database(path: Path) -> Path:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE customers (id INTEGER)")
    db.close()
    return path


def marked_by_another_program(path: Path) -> Path:
    db = sqlite3.connect(path)
    db.execute("PRAGMA application_id = 77")
    db.close()
    return path


def newer_schema(path: Path) -> Path:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    db.execute("PRAGMA user_version = 99")
    db.close()
    return path


def damaged(path: Path) -> Path:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    db.execute("CREATE TABLE meta (name TEXT, value INTEGER)")
    db.close()
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xff" * 3996
    path.write_bytes(content)
    return path


def a_folder(path: Path) -> Path:
    path.mkdir()
    return path


def no_such_folder(path: Path) -> Path:
    return path / "nowhere" / "otd.db"


def a_file_for_a_folder(path: Path) -> Path:
    path.touch()
    return path / "otd.db"


UNUSABLE: list[tuple[Callable[[Path], Path], str]] = [
    (not_a_database, "is not an SQLite database.*name another file"),
    (another_programs_database, "got one of another program.*name another file"),
    (marked_by_another_program, "another program .application id 0x4d"),
    (newer_schema, "expected schema version 3 or older, got 99.*upgrade"),
    (damaged, "is damaged.*restore a backup"),
    (a_folder, "expected a file, got a folder"),
    (no_such_folder, "expected its folder to exist.*create it first"),
    (a_file_for_a_folder, "expected its folder to exist"),
]


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize(("make", "says"), UNUSABLE, ids=[make.__name__ for make, _ in UNUSABLE])
async def test_a_file_that_is_no_store_is_refused_and_not_changed(make, says, inline, path):
    wrong = make(path)
    before = wrong.read_bytes() if wrong.is_file() else None
    with pytest.raises(StoreUnusable, match=f"(?s)otd.db.*{says}"):
        await SqliteStore.open(wrong, inline=inline)
    assert before == (wrong.read_bytes() if wrong.is_file() else None)


@pytest.mark.parametrize("path", ["", ":memory:"])
async def test_a_store_without_a_file_is_refused(path):
    with pytest.raises(StoreUnusable, match="use the URL 'memory:'"):
        await SqliteStore.open(path)


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (errno.EACCES, StoreUnusable, "change its rights"),
        (errno.EROFS, StoreUnavailable, "Read-only file system"),
        (errno.ENOSPC, StoreUnavailable, "No space left"),
    ],
)
async def test_a_file_that_cannot_be_created_is_refused(code, kind, says, path, monkeypatch):
    def fail(*arguments: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(kind, match=says):
        await SqliteStore.open(path)


async def test_a_file_without_write_permission_is_refused(path, monkeypatch):
    path.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StoreUnusable, match="change their rights"):
        await SqliteStore.open(path)


async def test_an_old_version_of_sqlite_is_refused(path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 0))
    with pytest.raises(StoreUnusable, match=r"expected SQLite 3\.37\.0 or newer"):
        await SqliteStore.open(path)


async def test_a_write_fails_if_the_file_is_locked_for_too_long(store, path, monkeypatch):
    monkeypatch.setattr(connection, "PATIENCE", 50_000)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another process has been writing for too long"):
        await define(store)
    assert await store.queries.list_jobs() == []  # reads still work
    other.execute("ROLLBACK")
    other.close()
    assert (await define(store)).id == 1


async def test_a_write_waits_while_the_file_is_locked_for_a_moment(store, path):
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    waited = []

    class Event:
        """After some waits, the other process releases the lock."""

        def wait(self, seconds: float) -> None:
            assert 0.0001 < seconds <= 0.001
            waited.append(seconds)
            if len(waited) == 20:
                other.execute("ROLLBACK")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "Event", Event)
        assert (await define(store)).id == 1
    other.close()
    assert len(waited) == 20
    assert len(set(waited)) > 3  # random, so that two waiting processes do not collide again and again


async def limit_pages(store: SqliteStore, extra: int | None) -> None:
    def work(tx: Transaction) -> None:
        [pages] = tx.db.execute("PRAGMA page_count").fetchone()
        tx.db.execute(f"PRAGMA max_page_count = {pages + extra if extra is not None else 1_000_000}")

    await store.database.writer.run(work)


async def test_a_store_works_again_after_a_full_disk(store):
    record, node = await define(store), await register(store)
    await submit(store, record, 50)
    await limit_pages(store, 2)
    with pytest.raises(StoreUnavailable, match=r"the disk is full.*may be repeated"):
        await submit(store, record, 5_000)
    assert await store.queries.count_runs() == {RunState.SCHEDULED: 50}
    assert len((await reserve(store, node, 10)).armed) == 10  # writes that need no more space still work
    await limit_pages(store, None)
    assert len(await submit(store, record, 5_000)) == 5_000


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SQLITE_BUSY", StoreUnavailable),
        ("SQLITE_BUSY_RECOVERY", StoreUnavailable),
        ("SQLITE_FULL", StoreUnavailable),
        ("SQLITE_IOERR", StoreUnavailable),
        ("SQLITE_IOERR_FSYNC", StoreUnavailable),
        ("SQLITE_NOMEM", StoreUnavailable),
        ("SQLITE_CANTOPEN", StoreUnavailable),
        ("SQLITE_CORRUPT", StoreUnusable),
        ("SQLITE_CORRUPT_INDEX", StoreUnusable),
        ("SQLITE_NOTADB", StoreUnusable),
        ("SQLITE_READONLY", StoreUnusable),
        ("SQLITE_READONLY_DBMOVED", StoreUnusable),
        ("SQLITE_CONSTRAINT_UNIQUE", StoreUnusable),
        ("SQLITE_ERROR", StoreUnusable),
    ],
)
def test_each_error_of_sqlite_becomes_one_of_our_errors(name, kind):
    error = sqlite3.OperationalError("in sqlite's words")
    error.sqlite_errorcode, error.sqlite_errorname = getattr(sqlite3, name), name
    ours = translate(error, "/var/otd.db")
    assert type(ours) is kind
    assert str(ours).startswith("/var/otd.db: expected ")
    assert f"({name}: in sqlite's words); " in str(ours)


def test_an_error_without_a_code_becomes_one_of_our_errors():
    assert type(translate(sqlite3.ProgrammingError("bad use"), "otd.db")) is StoreUnusable


async def test_a_deleted_file_is_not_created_again(store, path):
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(StoreError):
        await store.queries.list_jobs()  # the reader connects only now
    assert not path.exists()


async def test_the_file_is_found_after_a_change_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = await SqliteStore.open("otd.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    await define(store)
    assert len(await store.queries.list_jobs()) == 1
    await store.close()


async def test_a_path_may_have_special_characters(tmp_path):
    path = tmp_path / "a b?mode=ro#%41ü.db"
    store = await SqliteStore.open(path)
    await define(store)
    assert len(await store.queries.list_jobs()) == 1
    await store.close()
    assert path.is_file()


async def damage_definition(store: SqliteStore, job_id: int) -> None:
    await store.database.writer.run(
        lambda tx: tx.db.execute("UPDATE job_revisions SET definition = '{\"name\":' WHERE job_id = ?", (job_id,)),
        writes=True,
    )
    store.database.records.forget()


async def test_an_unreadable_definition_stops_only_its_own_job(store):
    bad, good, node = await define(store, "bad"), await define(store, "good"), await register(store)
    [doomed] = await submit(store, bad)
    [fine] = await submit(store, good)
    await damage_definition(store, bad.id)
    assert [lease.run_id for lease in (await reserve(store, node, 5)).armed] == [fine]
    run = await store.queries.get_run(doomed)
    assert run is not None
    assert (run.state, run.reason) == (RunState.DEAD, "unreadable")
    assert [record.job.name for record in await store.queries.list_jobs()] == ["good"]
    with pytest.raises(StoreUnusable, match=r"job 1, revision 1: expected a job definition.*put the job again"):
        await store.queries.get_job("bad")
    assert (await define(store, "bad")).revision == 2  # a new definition repairs it
    assert await store.queries.get_job("bad") is not None
