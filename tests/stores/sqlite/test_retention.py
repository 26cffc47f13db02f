"""Forgetting reads and writes its own rows only, and removes nothing that it has not counted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from onthedot.errors import StoreError
from onthedot.retention import Cut, Mark
from onthedot.run import TERMINAL
from onthedot.stores.sqlite import SqliteStore, plan, retention, schema
from onthedot.stores.sqlite.connection import connect, create_file
from onthedot.testing.contract.workbench import Workbench
from tests.stores.sqlite.test_query_plans import plan_of, steps_of

OLD, RECENT = 1_000, 1_000_000
FAR = 2**62
RANGE = {
    "now": RECENT, "until": OLD, "until_id": FAR, "after": 0, "after_id": 0, "last_id": FAR, "limit": 5, "job_id": 1
}  # fmt: skip
WATERMARK = "SEARCH s USING PRIMARY KEY (job_id=? AND schedule_id=?)"

QUESTIONS = {
    # what is asked: (statement, values, the index ranges that answer it)
    "what ended in the same instant": (
        retention.LIST_ENDED[0],
        RANGE | {"after": 3},
        ["SEARCH h USING INDEX history_ended (ended_at=? AND rowid>? AND rowid<?)", WATERMARK],
    ),
    "what ended later": (
        retention.LIST_ENDED[1],
        RANGE,
        ["SEARCH h USING INDEX history_ended (ended_at>? AND ended_at<?)", WATERMARK],
    ),
    "of one job, in the same instant": (
        retention.LIST_ENDED_OF_JOB[0],
        RANGE | {"after": 3},
        ["SEARCH h USING INDEX history_job_ended (job_id=? AND ended_at=? AND rowid>? AND rowid<?)", WATERMARK],
    ),
    "of one job, later": (
        retention.LIST_ENDED_OF_JOB[1],
        RANGE,
        ["SEARCH h USING INDEX history_job_ended (job_id=? AND ended_at>? AND ended_at<?)", WATERMARK],
    ),
    "the next job": (
        retention.FIND_NEXT_JOB,
        (0,),
        ["SEARCH history USING COVERING INDEX history_job_ended (job_id>?)"],
    ),
    "how many runs, up to so many": (
        retention.COUNT_UP_TO,
        (2, 10),
        ["SEARCH history USING COVERING INDEX history_job_ended (job_id=?)"],
    ),
    "the newest run beyond": (
        retention.FIND_NEWEST_BEYOND,
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
    """Eight old runs, and 2,000 or 20,000 that nobody asks for."""
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
def test_a_question_reads_its_range(name, databases):
    statement, values, ranges = QUESTIONS[name]
    for db in databases:
        found = plan_of(db, statement, values)
        assert [wanted for wanted in ranges if wanted not in found] == [], found
        assert not [line for line in found if "SCAN h" in line or "TEMP B-TREE" in line], found


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_does_not_concern_it_costs_nothing(name, databases):
    statement, values, _ = QUESTIONS[name]
    few, many = (steps_of(db, statement, values) for db in databases)
    assert many <= few * 1.1


@pytest.mark.parametrize(
    ("statement", "values", "key"),
    [
        (retention.DELETE_RUN, (1,), "SEARCH history USING INTEGER PRIMARY KEY (rowid=?)"),
        (retention.DELETE_KEY, (1,), "SEARCH submit_keys USING COVERING INDEX submit_keys_run (run_id=?)"),
        (retention.DELETE_ATTEMPTS, (1,), "SEARCH attempts USING PRIMARY KEY (run_id=?)"),
        (plan.HOLD_EDGE, (1, 1, "s"), "SEARCH schedules USING PRIMARY KEY (job_id=? AND schedule_id=?)"),
        (retention.DELETE_NODE, (1,), "SEARCH nodes USING INTEGER PRIMARY KEY (rowid=?)"),
        (retention.DELETE_SKIP, (1,), "SEARCH skips USING INTEGER PRIMARY KEY (rowid=?)"),
        (retention.DELETE_TERM, (0, 1), "SEARCH term_history USING PRIMARY KEY (shard=? AND number=?)"),
    ],
)
def test_a_write_finds_its_row_by_key(statement, values, key, databases):
    assert plan_of(databases[0], statement, values) == [key]


async def test_what_cannot_be_counted_is_not_removed(store: SqliteStore, path: Path):
    """One transaction: when the count fails, the run and its attempt are still there."""
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
