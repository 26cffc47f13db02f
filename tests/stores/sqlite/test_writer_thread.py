"""The writer thread: calls that queue up share a commit, and a failed call does not affect the others."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from onthedot.model.errors import StateError, StoreUnavailable, UnknownJob
from onthedot.model.run import NewRun, RunState
from onthedot.stores.hints import Hint
from onthedot.stores.sqlite import SqliteStore, database, writer_thread
from onthedot.stores.sqlite.connection import commit
from onthedot.stores.sqlite.writer_thread import Transaction
from onthedot.stores.values import Node
from tests.stores.sqlite.working import ask, define, finished, job, register, reserve, submit


class BusyWriter:
    """Blocks the writer until the block ends, so that calls queue up behind it."""

    def __init__(self, store: SqliteStore) -> None:
        self._began = threading.Event()
        self._go_on = threading.Event()
        self._call = asyncio.create_task(store.database.writer.run(self._wait))

    def _wait(self, tx: Transaction) -> None:
        self._began.set()
        assert self._go_on.wait(30)

    async def __aenter__(self) -> None:
        assert await asyncio.to_thread(self._began.wait, 30)

    async def __aexit__(self, *error: object) -> None:
        for _ in range(3):
            await asyncio.sleep(0)  # let the calls of the test reach the queue
        self._go_on.set()
        await self._call


def commits(store: SqliteStore) -> int:
    return store.database.writer.commits


async def test_calls_that_queue_up_share_one_commit(store):
    record = await define(store)
    async with BusyWriter(store):
        before = commits(store)
        calls = [asyncio.create_task(submit(store, record)) for _ in range(10)]
    ids = await asyncio.gather(*calls)
    assert sorted(run for [run] in ids) == list(range(1, 11))
    assert commits(store) - before == 2  # one for the blocking call, and one for all others


async def test_finish_and_the_next_reserve_share_one_commit(store):
    record, node = await define(store), await register(store)
    await submit(store, record, 4)
    first = await reserve(store, node, seats=2)
    async with BusyWriter(store):  # otherwise the writer could begin with the first call before the second is queued
        before = commits(store)
        finishing = asyncio.create_task(store.finish([finished(store, lease) for lease in first.armed]))
        reserving = asyncio.create_task(store.reserve(ask(node, 2)))
    assert await finishing == [True, True]
    assert len((await reserving).armed) == 2
    assert commits(store) - before == 2  # one for the blocking call, and one for both others


async def test_a_commit_has_a_limited_number_of_calls(store):
    record = await define(store)
    async with BusyWriter(store):
        before = commits(store)
        calls = [asyncio.create_task(submit(store, record)) for _ in range(database.TOGETHER * 2)]
    await asyncio.gather(*calls)
    assert commits(store) - before == 3


async def test_an_acknowledged_write_is_in_the_file(store, path):
    record = await define(store)
    [run_id] = await submit(store, record)
    db = sqlite3.connect(path)
    assert db.execute("SELECT id FROM runs").fetchall() == [(run_id,)]
    db.close()


async def test_a_call_that_fails_undoes_only_itself(store):
    record = await define(store)

    def half(tx: Transaction) -> None:
        tx.db.execute("DELETE FROM runs")
        tx.hints.append(Hint("runs", 0))
        raise LookupError("on purpose")

    hints: list[Hint] = []
    store.hints.listen(hints.append)
    async with BusyWriter(store):
        one = asyncio.create_task(submit(store, record))
        broken = asyncio.create_task(store.database.writer.run(half, writes=True))
        unknown = asyncio.create_task(store.submit([NewRun(99, "submit:a", 0)]))
        nowhere = store.database.writer.run(lambda tx: tx.db.execute("SELECT * FROM nowhere"), writes=True)
        wrong = asyncio.create_task(nowhere)
        two = asyncio.create_task(submit(store, record))
    with pytest.raises(LookupError, match="on purpose"):
        await broken
    with pytest.raises(UnknownJob):
        await unknown
    with pytest.raises(Exception, match="no such table: nowhere"):
        await wrong
    assert await one == [1]
    assert await two == [2]
    assert [run.id for run in await store.queries.list_runs()] == [1, 2]
    assert len(hints) == 2  # those of the two committed calls


def break_commits(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the commit of a transaction with writes fails, as on a full disk."""
    assert store.database.writer._db is not None
    before = store.database.writer._db.total_changes

    def broken_commit(db: sqlite3.Connection) -> None:
        if db.total_changes == before:
            commit(db)
            return
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_FULL, "SQLITE_FULL"
        raise error

    monkeypatch.setattr(writer_thread, "commit", broken_commit)


async def test_a_failed_commit_fails_all_of_its_calls(store, monkeypatch):
    record = await define(store)
    async with BusyWriter(store):
        break_commits(store, monkeypatch)
        calls = [asyncio.create_task(submit(store, record)) for _ in range(3)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    monkeypatch.undo()
    assert await store.queries.list_runs() == []
    assert len(await submit(store, record)) == 1


async def test_a_revision_that_was_not_committed_is_not_cached(store, monkeypatch):
    """A definition that was read inside a lost transaction must not be used for a later one of the same number."""
    await define(store)
    async with BusyWriter(store):
        break_commits(store, monkeypatch)
        edit = asyncio.create_task(store.put_job(replace(job(), owner="first")))
        records = store.database.records
        look = asyncio.create_task(store.database.look(lambda tx: records.get(tx, 1, 2, "active")))
    for call in (edit, look):
        with pytest.raises(StoreUnavailable):
            await call
    monkeypatch.undo()
    await store.put_job(replace(job(), owner="second"))
    found = await store.queries.get_job("job")
    assert found is not None
    assert (found.revision, found.job.owner) == (2, "second")


async def test_a_cancelled_call_completes_and_its_answer_is_dropped(store):
    record = await define(store)
    hints: list[Hint] = []
    store.hints.listen(hints.append)
    async with BusyWriter(store):
        call = asyncio.create_task(submit(store, record))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert await submit(store, record) == [2]  # queued behind it
    assert [run.id for run in await store.queries.list_runs()] == [1, 2]
    assert [hint.kind for hint in hints] == ["runs", "runs"]


async def test_closing_finishes_the_queued_calls(path):
    store = await SqliteStore.open(path)
    record = await define(store)
    async with BusyWriter(store):
        calls = [asyncio.create_task(submit(store, record)) for _ in range(40)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(store.close())
    await closing
    assert len(await asyncio.gather(*calls)) == 40
    again = await SqliteStore.open(path)
    assert await again.queries.count_runs() == {RunState.SCHEDULED: 40}
    await again.close()


@pytest.mark.parametrize("inline", [False, True])
async def test_a_closed_store_refuses_calls(path, inline):
    store = await SqliteStore.open(path, inline=inline)
    await store.close()
    await store.close()
    for call in (store.queries.list_jobs(), store.beat("x", ttl=1), store.due_schedules(until=0, limit=1)):
        with pytest.raises(StateError, match="open it again"):
            await call


async def test_closing_leaves_no_thread_and_no_write_ahead_log(path):
    before = set(threading.enumerate())
    store = await SqliteStore.open(path)
    await store.queries.list_jobs()
    assert len(set(threading.enumerate()) - before) == 2
    await store.close()
    assert not set(threading.enumerate()) - before  # threads of other tests may have ended since
    assert [file.name for file in path.parent.iterdir()] == [path.name]


async def test_the_reader_thread_starts_at_the_first_read(path):
    before = set(threading.enumerate())
    store = await SqliteStore.open(path)
    await define(store)
    assert len(set(threading.enumerate()) - before) == 1
    await store.close()


async def test_a_slow_listing_delays_no_write(store):
    record = await define(store)
    began, go_on = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> list[tuple[int]]:
        before = tx.db.execute("SELECT count(*) FROM runs").fetchone()
        began.set()
        assert go_on.wait(30)
        return [before, tx.db.execute("SELECT count(*) FROM runs").fetchone()]

    listing = asyncio.create_task(store.database.reader.run(slow))
    assert await asyncio.to_thread(began.wait, 30)
    await submit(store, record)
    go_on.set()
    assert await listing == [(0,), (0,)]  # a snapshot from its start
    assert len(await store.queries.list_runs()) == 1


async def test_a_read_cannot_write(store):
    with pytest.raises(Exception, match="attempt to write a readonly database"):
        await store.database.reader.run(lambda tx: tx.db.execute("DELETE FROM runs"))


async def test_hints_arrive_on_the_callers_loop_after_the_commit(store, path):
    record = await define(store)
    seen: list[tuple[threading.Thread, int]] = []

    def listener(hint: Hint) -> None:
        db = sqlite3.connect(path)
        seen.append((threading.current_thread(), db.execute("SELECT count(*) FROM runs").fetchone()[0]))
        db.close()

    store.hints.listen(listener)
    await submit(store, record)
    assert seen == [(threading.current_thread(), 1)]


async def test_inline_runs_on_the_calling_thread(path):
    before = set(threading.enumerate())
    store = await SqliteStore.open(path, inline=True)
    record, node = await define(store), await register(store)
    hints: list[Hint] = []
    store.hints.listen(hints.append)
    await submit(store, record)
    assert len(hints) == 1
    [lease] = (await reserve(store, node)).armed
    assert await store.finish([finished(store, lease)]) == [True]
    with pytest.raises(UnknownJob):
        await store.submit([NewRun(99, "submit:a", 0)])
    assert await store.queries.count_runs() == {RunState.SUCCEEDED: 1}
    assert not set(threading.enumerate()) - before  # threads of other tests may have ended since
    await store.close()


def run_in_another_loop(work: Callable[[], object]) -> None:
    async def run() -> None:
        await work()  # type: ignore[misc]

    asyncio.run(run())


async def test_several_loops_share_a_store(store):
    record = await define(store)
    node = await register(store)

    async def elsewhere() -> None:
        for _ in range(20):
            await store.beat(node, ttl=10**9)

    other = asyncio.create_task(asyncio.to_thread(run_in_another_loop, elsewhere))
    for _ in range(20):
        await submit(store, record)
    await other
    assert len(await store.queries.list_runs()) == 20


async def test_a_closed_loop_does_not_stop_the_writer(store):
    record = await define(store)

    async def ask_and_go() -> None:
        task = asyncio.create_task(store.beat("x", ttl=1))
        await asyncio.sleep(0)
        task.cancel()

    async with BusyWriter(store):
        await asyncio.to_thread(run_in_another_loop, ask_and_go)
    assert len(await submit(store, record)) == 1
    gc.collect()


async def test_many_tasks_can_register_nodes_at_once(store):
    nodes = [Node(f"n{number}", f"i{number}") for number in range(50)]
    beats = await asyncio.gather(*(store.register(node, ttl=1000) for node in nodes))
    assert len(beats) == 50
    assert len(await store.queries.list_nodes()) == 50
