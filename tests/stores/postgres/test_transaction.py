"""History is partitioned by month. Partitions are made when needed and ahead, and dropped when empty."""

from __future__ import annotations

import psycopg
import pytest

from onthedot.clock import SECOND
from onthedot.model.errors import StoreUnavailable
from onthedot.model.retention import DAY, Cut, Mark
from onthedot.model.run import TERMINAL, RunState
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.transaction import LIST_MISSING, Transaction, begin_of, month_in, month_of, name_of
from onthedot_verify.contract.workbench import START, Workbench, at

LAST_ID = 2**62


def partitions(url: str, table: str = "history") -> list[str]:
    statement = f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'onthedot.{table}'::regclass"  # noqa: S608
    with psycopg.connect(url, autocommit=True) as db:
        return sorted(name.removeprefix("onthedot.") for (name,) in db.execute(statement.encode()).fetchall())


async def end_one(bench: Workbench, who: str) -> int:
    run_id = await bench.submit(await bench.define(), due=(bench.now - START) / SECOND)
    [lease] = await bench.take(who)
    assert await bench.finish(lease)
    return run_id


@pytest.fixture
async def bench(postgres_url: str) -> Workbench:
    """On its own database, because the partitions stay."""
    return Workbench(await PostgresStore.open(postgres_url))


@pytest.mark.parametrize("month", [1970 * 12, 2025 * 12 + 11, 2026 * 12])
def test_a_month_begins_where_the_last_one_ends(month: int):
    assert month_of(begin_of(month)) == month
    assert month_of(begin_of(month) - 1) == month - 1
    assert month_in(name_of("history", month)) == month


async def test_partitions_are_made_for_this_month_and_the_next(bench: Workbench, postgres_url: str):
    who = await bench.node(ttl=10**6)
    assert partitions(postgres_url) == []
    await end_one(bench, who)
    assert partitions(postgres_url) == ["history_2026_01", "history_2026_02"]
    assert partitions(postgres_url, "attempts") == ["attempts_2026_01", "attempts_2026_02"]
    bench.now = START + 45 * DAY
    await bench.store.beat(who, ttl=10**12, now=bench.now)
    await end_one(bench, who)
    assert partitions(postgres_url) == ["history_2026_01", "history_2026_02", "history_2026_03"]
    assert len(await bench.runs()) == 2
    await bench.store.close()


async def test_a_prune_makes_the_partition_of_the_next_month(bench: Workbench, postgres_url: str):
    await bench.store.prune_runs(Cut(TERMINAL, Mark(START, LAST_ID)), now=at(0))
    assert partitions(postgres_url) == ["history_2026_01", "history_2026_02"]
    await bench.store.close()


async def test_a_partition_that_retention_emptied_is_dropped(bench: Workbench, postgres_url: str):
    who = await bench.node(ttl=10**7)
    await end_one(bench, who)
    bench.now = START + 70 * DAY
    kept = await end_one(bench, who)
    cut = Cut(TERMINAL, Mark(START + 60 * DAY, LAST_ID))
    assert (await bench.store.prune_runs(cut, now=bench.now)).runs == 1
    for _ in range(4):  # each call drops one
        await bench.store.prune_runs(cut, now=bench.now)
    assert partitions(postgres_url) == ["history_2026_03", "history_2026_04"]
    assert partitions(postgres_url, "attempts") == ["attempts_2026_03", "attempts_2026_04"]
    assert [run.id for run in await bench.runs()] == [kept]
    bench.now = START + 10 * SECOND  # the clock was set back: the month is made again
    await end_one(bench, who)
    assert await bench.store.queries.count_runs() == {RunState.SUCCEEDED: 2}
    await bench.store.close()


async def test_a_partition_that_another_process_dropped_is_made_again(bench: Workbench, postgres_url: str):
    """This process still assumes that it exists."""
    who = await bench.node(ttl=10**7)
    await end_one(bench, who)
    with psycopg.connect(postgres_url, autocommit=True) as db:
        for name in ("history_2026_01", "attempts_2026_01"):
            db.execute(f"DROP TABLE onthedot.{name}".encode())
    await end_one(bench, who)
    assert "history_2026_01" in partitions(postgres_url)
    await bench.store.close()


async def test_a_partition_that_another_node_makes_at_the_same_time_is_seen(postgres_url: str):
    """Both nodes find it missing. The second one looks again when it has the lock."""
    wanted = [name_of(table, month_of(START)) for table in ("attempts", "history")]
    store, other = await PostgresStore.open(postgres_url), Workbench(await PostgresStore.open(postgres_url))
    who = await other.node()

    async def look_twice(tx: Transaction, *, meanwhile: bool) -> tuple[list[str], list[str]]:
        before = await tx.values(LIST_MISSING, wanted)
        if meanwhile:
            await end_one(other, who)
        await tx.lock_keys(["partitions"], late=True)
        return before, await tx.values(LIST_MISSING, wanted)

    look = store.database.write
    assert await look(look_twice, meanwhile=False) == (
        wanted,
        wanted,
    )  # parses the statements, which reads the catalogs
    assert await look(look_twice, meanwhile=True) == (wanted, [])
    await store.close()
    await other.store.close()


async def test_a_partition_that_is_in_use_is_dropped_later(bench: Workbench, postgres_url: str):
    await end_one(bench, await bench.node(ttl=10**7))
    cut = Cut(TERMINAL, Mark(START + 60 * DAY, LAST_ID))
    with psycopg.connect(postgres_url) as reader:
        reader.execute("SELECT count(*) FROM onthedot.history_2026_01")
        try:
            await bench.store.prune_runs(cut, now=START + 70 * DAY)
        except StoreUnavailable as error:  # pragma: no cover
            raise AssertionError("a prune must not fail because a partition is in use") from error
        assert "history_2026_01" in partitions(postgres_url)
    await bench.store.close()
