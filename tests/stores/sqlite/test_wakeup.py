"""Hints travel between processes on one file.

The second process is a second store on the file here: it has its own connection, too.
"""

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
    """Records the hints that the services of one store would get."""

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

    async def count_until(self, kind: HintKind) -> Counter[str]:
        """Wait for a hint of this kind. Returns how many of each kind came until then, and forgets them."""
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


async def write_hints(store: SqliteStore, *kinds: HintKind) -> None:
    """A write with these hints and nothing else."""
    await store.database.writer.run(lambda tx: tx.hints.extend(Hint(kind, 0) for kind in kinds), writes=True)


async def test_a_hint_reaches_the_other_process_without_its_instant(store, other):
    here = Listener(store)
    record = await define(other)
    assert await here.count_until("runs") == {"runs": 1, "schedules": 1}
    before = store.clock.now()
    await submit(other, record, delay=3600 * SECOND)
    await here.count_until("runs")
    hint = here.last
    # Now, not the due instant of the run: only the kind is passed on.
    assert before <= hint.ready_at <= store.clock.now()
    assert here.threads == {threading.current_thread()}


async def test_a_resignation_sends_a_hint(store, other):
    here, node = Listener(store), await register(other)
    term = await other.campaign(node, ttl=60 * SECOND)
    assert term is not None
    assert await other.resign(term)
    assert await here.count_until("terms") == {"terms": 1}
    assert not await other.resign(term)
    await other.leave(node)
    assert await here.count_until("terms") == {"runs": 1, "terms": 1}


async def test_a_store_gets_no_hints_for_its_own_commits_from_the_file(store, other):
    here = Listener(store)
    record = await define(store)
    for _ in range(20):
        await submit(store, record)
        await asyncio.sleep(0.01)  # longer than several polls
    await write_hints(other, "beats")
    assert await here.count_until("beats") == {"schedules": 1, "runs": 21, "beats": 1}


async def test_a_write_without_hints_sends_none(store, other):
    """Otherwise the heartbeats of two nodes would cause hints for ever."""
    here, node = Listener(store), await register(other)
    for _ in range(20):
        await other.beat(node, ttl=SECOND)
        await asyncio.sleep(0.01)
    await write_hints(other, "beats")
    assert await here.count_until("beats") == {"beats": 1}


async def test_hints_of_one_kind_from_both_stores_between_two_polls_are_counted(store, other, monkeypatch):
    here = Listener(store)
    await write_hints(other, "beats")
    await here.count_until("beats")
    monkeypatch.setattr(wakeup, "LOOK_EVERY", SECOND // 4)
    for first, second in [(store, other), (other, store)]:
        await write_hints(first, "runs")
        await write_hints(second, "runs")
        await write_hints(other, "terms")
        assert await here.count_until("terms") == {"runs": 2, "terms": 1}  # our own, and the one of the other store


async def test_a_count_that_was_not_committed_does_not_hide_a_hint(store, other, monkeypatch):
    here = Listener(store)

    def fail(db: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(writer_thread, "commit", fail)
        with pytest.raises(StoreError):
            await write_hints(store, "runs")
    await write_hints(other, "runs")  # the counter now has the value that the failed write would have set
    assert await here.count_until("runs") == {"runs": 1}


async def test_polling_continues_after_an_error(store, other):
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
    await write_hints(other, "runs")
    assert await here.count_until("runs") == {"runs": 1}
    assert len(await submit(store, await define(store))) == 1


async def test_a_new_connection_continues_at_the_last_count(store, other):
    here = Listener(store)
    await write_hints(other, "runs")
    await here.count_until("runs")

    def hang_up(tx):
        tx.db.close()

    with pytest.raises(Exception, match="Cannot operate on a closed database"):
        await store.database.writer.run(hang_up)
    await write_hints(other, "schedules")
    await define(store)  # connects again
    await write_hints(other, "beats")
    assert await here.count_until("beats") == {"runs": 1, "schedules": 2, "beats": 1}


async def test_a_closed_store_sends_no_hints(store, path):
    gone = await SqliteStore.open(path)
    closed, here = Listener(gone), Listener(store)
    await gone.close()
    another = await SqliteStore.open(path)
    await write_hints(another, "runs")
    await here.count_until("runs")
    await another.close()
    assert closed.heard == []


async def test_a_closed_loop_does_not_disturb_others(store, path):
    async def open_and_forget() -> SqliteStore:
        return await SqliteStore.open(path)

    lost = await asyncio.to_thread(lambda: asyncio.run(open_and_forget()))
    here = Listener(store)
    await write_hints(store, "terms")
    await write_hints(lost, "runs")
    assert await here.count_until("runs") == {"terms": 1, "runs": 1}
    await asyncio.sleep(2 * wakeup.LOOK_EVERY / SECOND)  # it has polled by now, or soon will, and must not fail
    assert (await lost.queries.list_jobs()) == []
    await lost.close()


async def test_an_inline_store_does_not_poll(path):
    before = set(threading.enumerate())
    store = await SqliteStore.open(path, inline=True)
    await define(store)
    assert not set(threading.enumerate()) - before
    await store.close()


@pytest.mark.slow
def test_polling_does_not_keep_a_process_alive(path):
    code = (
        "import asyncio, sys\nfrom onthedot.stores.sqlite import SqliteStore\n"
        "asyncio.run(SqliteStore.open(sys.argv[1]))\nprint('end of program')"
    )
    ended = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (0, "end of program\n"), ended.stderr


async def test_there_is_one_counter_per_kind_of_hint(store, path):
    record = await define(store)
    for _ in range(5):
        await submit(store, record)
    db = sqlite3.connect(path)
    assert db.execute(wakeup.LIST_COUNTS).fetchall() == [("runs", 6), ("schedules", 1)]
    db.close()
