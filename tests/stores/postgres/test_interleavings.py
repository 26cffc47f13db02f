"""Another transaction commits between two statements of a call: the result is still right, on real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import asyncpg
import pytest

from onthedot.model.window import SkipRange
from onthedot.stores.postgres import PostgresStore
from onthedot_verify.contract import Workbench
from onthedot_verify.contract.workbench import at, every, window

T = TypeVar("T")

ARM = """
UPDATE onthedot.runs SET state = 'running', lease_id = 'lease', incarnation = 'other', fence = 1, revision = 1,
       reserved_at = 1, armed_at = 1, attempt = 1 WHERE id = $1
"""

ADD_SKIP = """
INSERT INTO onthedot.skips (job_id, schedule_id, first, last, count, reason, recorded_at)
VALUES ($1, 'gone', 1, $2, $3, 'missed', 1)
"""

COUNT_SLOTS = """
SELECT (SELECT coalesce(sum(count), 0) FROM onthedot.skips)
     + (SELECT coalesce(sum(count), 0) FROM onthedot.daily_counts)
"""


@pytest.fixture
async def other(store: PostgresStore, empty_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection besides that of the store."""
    db = await asyncpg.connect(empty_url)
    yield db
    db.terminate()


async def after_commit(other: asyncpg.Connection, call: Coroutine[Any, Any, T]) -> T:
    """Start a call, and commit the other transaction when the call waits for it or has ended."""
    task = asyncio.ensure_future(call)
    while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        ended, _ = await asyncio.wait([task], timeout=0.001)
        if ended:
            break
    await other.execute("COMMIT")
    return await task


async def test_a_slot_that_is_armed_during_its_cancel_gets_no_exception(
    store: PostgresStore, other: asyncpg.Connection
):
    bench = Workbench(store)
    record = await bench.define(slots=[10])
    [run] = await bench.runs()
    await other.execute("BEGIN")
    await other.execute(ARM, run.id)
    [answer] = await after_commit(other, store.cancel([run.id], why="late", now=bench.now))
    assert answer.kind == "asked"
    [schedule] = await store.queries.schedules_of(record.id)
    assert schedule.exceptions == ()


async def test_skips_that_are_extended_during_a_prune_are_counted_once(store: PostgresStore, other: asyncpg.Connection):
    record = await Workbench(store).define()
    await other.execute(ADD_SKIP, record.id, 5, 5)
    await other.execute("BEGIN")
    await other.execute("DELETE FROM onthedot.skips")
    await other.execute(ADD_SKIP, record.id, 7, 7)
    await after_commit(other, store.prune_skips(at(0)))
    assert await other.fetchval(COUNT_SLOTS) == 7


async def test_skips_that_are_pruned_during_an_extension_are_counted_once(
    store: PostgresStore, other: asyncpg.Connection
):
    bench = Workbench(store)
    bench.turn(100)
    node = await bench.node()
    plan = window(0, 60, skips=[SkipRange(at(10), at(60), 6, "missed")], next_at=70)
    record = (await bench.put(bench.job(every()), plan)).record
    [schedule] = await store.queries.schedules_of(record.id)
    later = window(60, 80, skips=[SkipRange(at(70), at(80), 2, "missed")], next_at=90)
    term = await bench.term(node)
    await other.execute("BEGIN")
    await other.execute("DELETE FROM onthedot.skips")
    assert await after_commit(other, store.plan(term, [(schedule, later)], now=bench.now)) == [True]
    assert await other.fetchval(COUNT_SLOTS) == 2
