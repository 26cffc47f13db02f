"""The harness lists the statements that jobs with exactly_once have committed."""

from datetime import UTC, datetime

import pytest

import onthedot as otd
from onthedot.stores.memory import Statement
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def test_only_statements_of_committed_transactions_are_listed():
    sched = otd.Scheduler("memory:")

    @sched.job(schedule=otd.at("2026-06-01T12:00:05Z"), guarantee="exactly_once", retry=otd.Retry(2, delay="1s"))
    async def receipt(ctx: otd.Context) -> None:
        async with ctx.transaction() as db:
            await db.execute("update orders set receipted = true where id = $1", 7)
            await db.executemany("insert into mails values ($1)", [("a",), ("b",)])
            assert (await db.fetch("select"), await db.fetchrow("select"), await db.fetchval("select")) == (
                [],
                None,
                None,
            )
            if ctx.attempt == 1:
                raise ConnectionError("in the middle")

    async def scenario() -> list[Statement]:
        harness = Harness(START)
        await harness.start(sched)
        await harness.advance("60s")
        await harness.stop()
        return harness.statements

    found = run_virtual(scenario())
    assert [(one.run_id, one.fence) for one in found] == [(1, 2)] * 6
    assert [(one.sql, one.args) for one in found][:3] == [
        ("update orders set receipted = true where id = $1", (7,)),
        ("insert into mails values ($1)", ("a",)),
        ("insert into mails values ($1)", ("b",)),
    ]


def test_another_store_has_no_statements(tmp_path):
    async def scenario() -> None:
        harness = Harness(START, store=lambda clock: SqliteStore.open(tmp_path / "otd.db", clock=clock, inline=True))
        await harness.start(otd.Scheduler("memory:"))
        try:
            with pytest.raises(otd.StateError, match="memory store only"):
                _ = harness.statements
        finally:
            await harness.stop()
            await harness.store.close()

    run_virtual(scenario())
