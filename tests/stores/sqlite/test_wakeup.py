"""Hints across processes. A second store on the same file is as foreign as one: it has a connection of its own."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onthedot.clock import SECOND
from onthedot.model.errors import StoreError
from onthedot.stores.hints import Hint, HintKind
from onthedot.stores.sqlite import SqliteStore, wakeup, writer_thread
from tests.stores.sqlite.working import define, register, submit


class Listener:
    """What one store's services would be told."""

    def __init__(self, store: SqliteStore) -> None:
        self.heard: list[Hint] = []
        self.last = Hint("runs", 0)
        self.threads: set[threading.Thread] = set()
        self._news = asyncio.Event()
        store.hints.listen(self._hear)

    def _hear(self, hint: Hint) -> None:
        self.heard.append(hint)
        self.last = hint
        self.threads.add(threading.current_thread())
        self._news.set()

    async def until(self, kind: HintKind) -> Counter[str]:
        """Wait for a hint of this kind; how many of each kind came up to then. Forgets them."""
        async with asyncio.timeout(20):
            while not any(hint.kind == kind for hint in self.heard):
                self._news.clear()
                await self._news.wait()
        heard, self.heard = self.heard, []
        return Counter(hint.kind for hint in heard)


@pytest.fixture
async def other(store: SqliteStore, path: Path) -> AsyncIterator[SqliteStore]:
    other = await SqliteStore.open(path)
    yield other
    await other.close()


async def call(store: SqliteStore, *kinds: HintKind) -> None:
    """A write with these hints and nothing else."""
    await store.database.writer.run(lambda tx: tx.hints.extend(Hint(kind, 0) for kind in kinds), writes=True)


async def test_a_hint_reaches_the_other_process_as_of_now(store, other):
    here = Listener(store)
    record = await define(other)
    assert await here.until("runs") == {"runs": 1, "schedules": 1}
    before = store.clock.now()
    await submit(other, record, delay=3600 * SECOND)
    await here.until("runs")
    hint = here.last
    assert before <= hint.ready_at <= store.clock.now()  # whatever its due instant: only the fact was passed on
    assert here.threads == {threading.current_thread()}


async def test_handing_over_is_a_hint_too(store, other):
    here, node = Listener(store), await register(other)
    term = await other.campaign(node, ttl=60 * SECOND)
    assert term is not None
    assert await other.resign(term)
    assert await here.until("terms") == {"terms": 1}
    assert not await other.resign(term)
    await other.leave(node)
    assert await here.until("terms") == {"runs": 1, "terms": 1}


async def test_our_own_commits_do_not_come_back(store, other):
    here = Listener(store)
    record = await define(store)
    for _ in range(20):
        await submit(store, record)
        await asyncio.sleep(0.01)  # over several looks
    await call(other, "beats")
    assert await here.until("beats") == {"schedules": 1, "runs": 21, "beats": 1}


async def test_a_write_without_hints_wakes_nobody(store, other):
    """Otherwise the beats of two nodes, each hinted at by the other's, would go on for ever."""
    here, node = Listener(store), await register(other)
    for _ in range(20):
        await other.beat(node, ttl=SECOND)
        await asyncio.sleep(0.01)
    await call(other, "beats")
    assert await here.until("beats") == {"beats": 1}


async def test_ours_and_theirs_of_one_kind_in_between_two_looks(store, other, monkeypatch):
    here = Listener(store)
    await call(other, "beats")
    await here.until("beats")
    monkeypatch.setattr(wakeup, "LOOK_EVERY", SECOND // 4)
    for first, second in [(store, other), (other, store)]:
        await call(first, "runs")
        await call(second, "runs")
        await call(other, "terms")
        assert await here.until("terms") == {"runs": 2, "terms": 1}  # ours, and the news of theirs


async def test_a_count_that_was_not_committed_is_not_ours(store, other, monkeypatch):
    here = Listener(store)

    def fail(db: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(writer_thread, "commit", fail)
        with pytest.raises(StoreError):
            await call(store, "runs")
    await call(other, "runs")  # moves the counter to where ours would have been
    assert await here.until("runs") == {"runs": 1}


async def test_an_error_while_looking_is_survived(store, other):
    here = Listener(store)
    looked = threading.Event()

    class Broken:
        def execute(self, statement: str) -> None:
            looked.set()
            raise sqlite3.OperationalError("disk I/O error")

    writer = store.database.writer
    real, writer._db = writer._db, Broken()
    assert await asyncio.to_thread(looked.wait, 20)
    writer._db = real
    await call(other, "runs")
    assert await here.until("runs") == {"runs": 1}
    assert len(await submit(store, await define(store))) == 1


async def test_a_new_connection_goes_on_where_the_old_one_was(store, other):
    here = Listener(store)
    await call(other, "runs")
    await here.until("runs")

    def hang_up(tx):
        tx.db.close()

    with pytest.raises(Exception, match="Cannot operate on a closed database"):
        await store.database.writer.run(hang_up)
    await call(other, "schedules")
    await define(store)  # connects anew
    await call(other, "beats")
    assert await here.until("beats") == {"runs": 1, "schedules": 2, "beats": 1}


async def test_a_closed_store_tells_nobody(store, path):
    gone = await SqliteStore.open(path)
    there, here = Listener(gone), Listener(store)
    await gone.close()
    another = await SqliteStore.open(path)
    await call(another, "runs")
    await here.until("runs")
    await another.close()
    assert there.heard == []


async def test_a_loop_that_is_closed_stops_nobody(store, path):
    async def open_and_forget() -> SqliteStore:
        return await SqliteStore.open(path)

    lost = await asyncio.to_thread(lambda: asyncio.run(open_and_forget()))
    here = Listener(store)
    await call(store, "terms")
    await call(lost, "runs")
    assert await here.until("runs") == {"terms": 1, "runs": 1}
    await asyncio.sleep(2 * wakeup.LOOK_EVERY / SECOND)  # it has looked by now, or soon will: it must not break
    assert (await lost.queries.list_jobs()) == []
    await lost.close()


async def test_inline_does_not_look_by_itself(path):
    before = set(threading.enumerate())
    store = await SqliteStore.open(path, inline=True)
    await define(store)
    assert not set(threading.enumerate()) - before
    await store.close()


@pytest.mark.slow
def test_looking_does_not_keep_a_process_alive(path):
    code = (
        "import asyncio, sys\nfrom onthedot.stores.sqlite import SqliteStore\n"
        "asyncio.run(SqliteStore.open(sys.argv[1]))\nprint('end of program')"
    )
    ended = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (0, "end of program\n"), ended.stderr


async def test_the_counters_are_few(store, path):
    record = await define(store)
    for _ in range(5):
        await submit(store, record)
    db = sqlite3.connect(path)
    assert db.execute(wakeup.LIST_COUNTS).fetchall() == [("runs", 6), ("schedules", 1)]
    db.close()
