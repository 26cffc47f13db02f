"""New runs are stored by one statement, and by the move if somebody edits their job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from onthedot.model.errors import RevisionConflict
from onthedot.model.job import JobRecord
from onthedot.model.run import NewRun, submit_trigger
from onthedot.stores.postgres import PostgresStore
from onthedot_verify.contract.workbench import Workbench, at


@pytest.fixture
async def other(store: PostgresStore, empty_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection beside the store's."""
    db = await asyncpg.connect(empty_url)
    yield db
    db.terminate()


@pytest.fixture
def moves(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each call of the move had."""
    sizes: list[int] = []
    write_many = store.database.write_many

    async def counted(count: int, *args: Any, **named: Any) -> Any:
        sizes.append(count)
        return await write_many(count, *args, **named)

    monkeypatch.setattr(store.database, "write_many", counted)
    return sizes


def new(record: JobRecord, *tokens: str) -> list[NewRun]:
    return [NewRun(record.id, submit_trigger(token), at(0), revision=record.revision, is_new=True) for token in tokens]


async def test_new_runs_need_no_transaction_of_several_statements(store: PostgresStore, moves: list[int]):
    bench = Workbench(store)
    one, two = await bench.define("one"), await bench.define("two")
    ids = await store.submit([*new(one, "a", "b"), *new(two, "c")])
    assert (moves, len(set(ids))) == ([], 3)
    assert [run.id for run in await bench.runs()] == sorted(ids)


async def test_a_job_that_is_being_edited_holds_up_only_its_own_runs(
    store: PostgresStore, other: asyncpg.Connection, moves: list[int]
):
    bench = Workbench(store)
    edited, free = await bench.define("edited"), await bench.define("free")
    await other.execute("BEGIN")
    await other.execute("SELECT 1 FROM onthedot.jobs WHERE id = $1 FOR UPDATE", edited.id)
    await other.execute("UPDATE onthedot.jobs SET revision = revision + 1, owner = 'ops' WHERE id = $1", edited.id)
    waiting = asyncio.create_task(store.submit(new(edited, "a")))
    assert len(await store.submit(new(free, "b"))) == 1
    while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        await asyncio.wait([waiting], timeout=0.001)
    assert moves == [1]
    await other.execute("COMMIT")
    with pytest.raises(RevisionConflict):
        await waiting


async def test_a_run_that_is_there_already_is_found(store: PostgresStore, moves: list[int]):
    """The answer of a call was lost, and it is made again."""
    bench = Workbench(store)
    record = await bench.define()
    [first] = await store.submit(new(record, "a"))
    assert (await store.submit(new(record, "b", "a")))[1] == first
    assert moves == [2]
    assert len(await bench.runs()) == 2


async def test_more_runs_than_a_statement_has_go_by_the_move(store: PostgresStore, moves: list[int]):
    record = await Workbench(store).define()
    many = new(record, *(str(number) for number in range(1001)))
    assert len(set(await store.submit(many))) == 1001
    assert moves == [1001]


async def test_strange_arguments_are_stored_as_they_are(store: PostgresStore):
    bench = Workbench(store)
    record = await bench.define()
    args = ['{"a":"\\"\\\\{},NULL"}', "{}", '{"n":null}', None]
    runs = [replace(run, args=text) for run, text in zip(new(record, *"abcd"), args, strict=True)]
    await store.submit(runs)
    leases = await bench.take(await bench.node(), seats=9)
    assert [lease.args for lease in leases] == args


async def test_each_run_of_a_job_has_its_revision_compared(store: PostgresStore, moves: list[int]):
    record = await Workbench(store).define()
    [other, good] = new(record, "a", "b")
    with pytest.raises(RevisionConflict):
        await store.submit([replace(other, revision=record.revision + 1), good])
    assert (moves, await store.queries.list_runs()) == ([2], [])
