"""Retention in SQLite reads and writes only its own rows, and removes nothing that it has not counted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from onthedot.model.errors import StoreError
from onthedot.model.retention import Cut, Mark
from onthedot.model.run import TERMINAL
from onthedot.stores.sql import plan, prune
from onthedot.stores.sqlite import SqliteStore, schema
from onthedot.stores.sqlite.connection import connect, create_file
from onthedot_verify.contract.workbench import Workbench
from tests.stores.sqlite.test_query_plans import plan_of, steps_of, tables_read

OLD, RECENT = 1_000, 1_000_000
FAR = 2**62
SAME_INSTANT = (3, 0, FAR, 5)
LATER = (0, OLD, FAR, 5)
WATERMARK = "SEARCH s USING PRIMARY KEY (job_id=? AND schedule_id=?)"

QUESTIONS = {
    # name: (statement, values, the index ranges that answer it)
    "what ended in the same instant": (
        prune.LIST_ENDED[0],
        SAME_INSTANT,
        ["SEARCH h USING INDEX history_ended (ended_at=? AND rowid>? AND rowid<?)", WATERMARK],
    ),
    "what ended later": (
        prune.LIST_ENDED[1],
        LATER,
        ["SEARCH h USING INDEX history_ended (ended_at>? AND ended_at<?)", WATERMARK],
    ),
    "of one job, in the same instant": (
        prune.LIST_ENDED_OF_JOB[0],
        (*SAME_INSTANT, 1),
        ["SEARCH h USING INDEX history_job_ended (job_id=? AND ended_at=? AND rowid>? AND rowid<?)", WATERMARK],
    ),
    "of one job, later": (
        prune.LIST_ENDED_OF_JOB[1],
        (*LATER, 1),
        ["SEARCH h USING INDEX history_job_ended (job_id=? AND ended_at>? AND ended_at<?)", WATERMARK],
    ),
    "the next job": (
        prune.FIND_NEXT_JOB,
        (0,),
        ["SEARCH history USING COVERING INDEX history_job_ended (job_id>?)"],
    ),
    "how many runs, up to so many": (
        prune.COUNT_UP_TO,
        (2, 10),
        ["SEARCH history USING COVERING INDEX history_job_ended (job_id=?)"],
    ),
    "the newest run beyond": (
        prune.FIND_NEWEST_BEYOND,
        (2, 10),
        ["SEARCH history USING COVERING INDEX history_job_ended (job_id=?)"],
    ),
}
INSERT = (
    "INSERT INTO history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, ended_at, "
    "queue, priority, trigger, target, reason) "
    "VALUES (?, ?, 'succeeded', 0, 0, 1, 0, 0, 0, ?, 'default', 1, 'schedule:s', '', '')"
)


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sqlite3.Connection]]:
    """Eight old runs, and 2,000 or 20,000 runs that no query asks for."""
    opened = []
    for beside in (2_000, 20_000):
        path = str(tmp_path_factory.mktemp("plans") / Path(f"{beside}.db"))
        create_file(path)
        db = connect(path, writing=True)
        schema.prepare(db, path)
        db.execute("BEGIN")
        db.executemany(INSERT, [(number, 1, 3 + number // 4) for number in range(1, 9)])
        db.executemany(INSERT, [(100 + number, 1 + number % 5, RECENT + number) for number in range(beside)])
        db.execute("COMMIT")
        opened.append(db)
    yield opened
    for db in opened:
        db.close()


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_query_reads_only_its_range(name, databases):
    statement, values, ranges = QUESTIONS[name]
    for db in databases:
        found = plan_of(db, statement.sqlite, values)
        assert [wanted for wanted in ranges if wanted not in found] == [], found
        assert not [line for line in found if "SCAN h" in line or "TEMP B-TREE" in line], found


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_query_costs_no_more_with_more_other_rows(name, databases):
    statement, values, _ = QUESTIONS[name]
    few, many = (steps_of(db, statement.sqlite, values) for db in databases)
    assert many <= few * 1.1


@pytest.mark.parametrize(
    ("statement", "values", "key"),
    [
        (prune.DELETE_RUNS, ("[1]", "[3]"), "SEARCH history USING INTEGER PRIMARY KEY (rowid=?)"),
        (prune.DELETE_KEYS, ("[1]",), "SEARCH submit_keys USING COVERING INDEX submit_keys_run (run_id=?)"),
        (prune.DELETE_ATTEMPTS, ("[1]",), "SEARCH attempts USING PRIMARY KEY (run_id=?)"),
        (prune.DELETE_CHECKPOINTS, ("[1]",), "SEARCH checkpoints USING INTEGER PRIMARY KEY (rowid=?)"),
        (prune.DELETE_NOTES, ("[1]",), "SEARCH notes USING INDEX sqlite_autoindex_notes_1 (run_id=?)"),
        (plan.HOLD_EDGE, (1, 1, "s"), "SEARCH schedules USING PRIMARY KEY (job_id=? AND schedule_id=?)"),
        (prune.DELETE_NODES, ("[1]",), "SEARCH nodes USING INTEGER PRIMARY KEY (rowid=?)"),
        (prune.DELETE_SKIPS, ("[1]",), "SEARCH skips USING INTEGER PRIMARY KEY (rowid=?)"),
    ],
)
def test_a_write_finds_its_rows_by_key(statement, values, key, databases):
    assert tables_read(databases[0], statement.sqlite, values) == [key]


def test_old_terms_are_found_and_removed_by_key(databases):
    found = plan_of(databases[0], prune.DELETE_TERMS.sqlite, (OLD, 5))
    assert "SEARCH term_history USING PRIMARY KEY (shard=? AND number=?)" in found
    assert "SEARCH h USING PRIMARY KEY (shard=? AND number<?)" in found


def test_skips_are_read_only_up_to_the_first_one_that_stays(databases):
    insert = "INSERT INTO skips VALUES (?, 1, 's', 1, 1, 1, 'missed', ?)"
    few, many = databases
    for db, beside in ((few, 100), (many, 10_000)):
        db.execute("BEGIN")
        db.executemany(insert, [(number, OLD) for number in range(1, 6)])
        db.executemany(insert, [(5 + number, RECENT) for number in range(1, beside)])
    steps = [steps_of(db, prune.LIST_OLD_SKIPS.sqlite, (OLD, 500)) for db in databases]
    for db in databases:
        db.execute("ROLLBACK")
    assert steps[1] <= steps[0] * 1.1


async def test_a_run_that_cannot_be_counted_is_not_removed(store: SqliteStore, path: Path):
    """One transaction: if the count fails, the run and its attempt remain."""
    bench = Workbench(store)
    await bench.submit(await bench.define())
    [lease] = await bench.take(await bench.node())
    await bench.finish(lease)
    with sqlite3.connect(path) as other:
        other.execute("CREATE TRIGGER full BEFORE INSERT ON daily_counts BEGIN SELECT RAISE(ABORT, 'full'); END")
    other.close()
    async with bench.nothing_written():
        with pytest.raises((StoreError, sqlite3.Error)):
            await store.prune_runs(Cut(TERMINAL, Mark(bench.now, 2**62)), now=bench.now)
