"""Finding in SQLite: the work for a page does not grow with the number of rows."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from onthedot.model.job import Call, Job
from onthedot.model.job_json import encode
from onthedot.model.run import RunState
from onthedot.stores.queries import AttemptFilter, JobFilter, RunFilter, SkipFilter
from onthedot.stores.sql import find
from onthedot.stores.sqlite import SqliteStore, schema
from onthedot.stores.sqlite.connection import connect, create_file

pytestmark = pytest.mark.slow

NOW = 1_000_000

FILTERS: dict[str, Any] = {
    "everything": RunFilter(),
    "a state that few have": RunFilter(states=frozenset({RunState.DEAD})),
    "a state that nobody has": RunFilter(states=frozenset({RunState.LOST, RunState.RESERVED})),
    "a queue that nobody has": RunFilter(queue="none"),
    "a label that nobody has": RunFilter(label="none"),
    "a node that nobody is": RunFilter(node="none"),
    "a job": RunFilter(job="job 3"),
    "a job, and a queue": RunFilter(job="job 3", queue="none"),
    "an owner of many jobs": RunFilter(owner="ann"),
    "an owner of few jobs": RunFilter(owner="bob"),
    "a namespace": RunFilter(namespaces=("default",)),
    "a namespace of few jobs, and a state": RunFilter(namespaces=("team",), states=frozenset({RunState.DEAD})),
    "a time": RunFilter(since=NOW - 100, until=NOW + 100),
    "a time of long ago": RunFilter(until=50),
    "attempts": AttemptFilter(),
    "attempts of a node": AttemptFilter(node="one"),
    "attempts that nobody may see": AttemptFilter(namespaces=()),
    "attempts of an owner": AttemptFilter(owner="bob", node="two"),
    "skips": SkipFilter(),
    "skips that nobody may see": SkipFilter(namespaces=()),
    "skips of an owner": SkipFilter(owner="bob"),
    "skips of a time of long ago": SkipFilter(until=50),
    "jobs": JobFilter(),
    "jobs that nobody may see": JobFilter(namespaces=("none",)),
}


def fill(db: sqlite3.Connection, rows: int) -> None:
    """Fifty jobs, `rows` live runs, and as many ended ones, many of these at one instant."""
    insert_job = (
        "INSERT INTO jobs VALUES (?, ?, ?, ?, 'active', 1, 'call:work', 'default', 'default', 1, '', 0, '', 0, 0, '',"
        " NULL)"
    )
    jobs = [(n, "team" if n > 47 else "default", f"job {n}", "bob" if n > 45 else "ann") for n in range(1, 51)]
    db.executemany(insert_job, jobs)
    definition = encode(Job(name="job", task=Call(handler="work")))
    db.executemany("INSERT INTO job_revisions VALUES (?, 1, ?, 0)", [(n, definition) for n in range(1, 51)])
    insert_run = (
        "INSERT INTO runs (id, job_id, state, queue, route, share, priority, slot_at, due_at, ready_at, attempt,"
        " failures, recoveries, delayed, created_at, trigger, target, reason)"
        " VALUES (?, ?, 'scheduled', 'default', 'default', '', 1, ?, ?, ?, 0, 0, 0, 0, 0, 'submit:x', '', '')"
    )
    due = [NOW if n % 3 else NOW + n for n in range(rows)]
    db.executemany(insert_run, [(n + 1, n % 50 + 1, n, at, at) for n, at in enumerate(due)])
    insert_history = (
        "INSERT INTO history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, ended_at,"
        " queue, priority, trigger, target, reason)"
        " VALUES (?, ?, ?, ?, 0, 1, 0, 0, 0, ?, 'default', 1, 'submit:x', '', '')"
    )
    ended = [(10**6 + n, n % 50 + 1, "succeeded" if n % 97 else "dead", n, n if n % 3 else NOW) for n in range(rows)]
    db.executemany(insert_history, ended)
    insert_attempt = "INSERT INTO attempts VALUES (?, 1, 'l', 1, ?, 1, 'succeeded', NULL, 0, 0, 0, 0, ?)"
    db.executemany(insert_attempt, [(run_id, "one" if run_id % 5 else "two", at) for run_id, *_, at in ended])
    skips = [(n, n % 45 + 1, n, n) for n in range(1, rows)]
    db.executemany("INSERT INTO skips VALUES (?, ?, 's', ?, ?, 1, 'missed', 0)", skips)


async def steps_of(rows: int, folder: Path) -> dict[str, int]:
    """Returns how many instructions SQLite executes for the longest of the first pages, for each filter."""
    path = str(folder / f"{rows}.db")
    create_file(path)
    db = connect(path, writing=True)
    schema.prepare(db, path)
    db.execute("BEGIN")
    fill(db, rows)
    db.execute("COMMIT")
    db.close()
    store = await SqliteStore.open(path, inline=True)
    await store.queries.count_runs()
    reader = store.database.reader._db
    assert reader is not None
    steps = {name: await _steps_of(store, reader, wanted) for name, wanted in FILTERS.items()}
    await store.close()
    return steps


async def _steps_of(store: SqliteStore, reader: sqlite3.Connection, wanted: Any) -> int:
    finds: dict[type, Any] = {
        RunFilter: store.queries.find_runs, AttemptFilter: store.queries.find_attempts,
        JobFilter: store.queries.find_jobs, SkipFilter: store.queries.find_skips,
    }  # fmt: skip
    find = finds[type(wanted)]
    steps, longest, after = 0, 0, None

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    for _ in range(12):
        steps = 0
        reader.set_progress_handler(count, 10)
        page = await find(wanted, after=after, limit=10)
        reader.set_progress_handler(None, 1)
        longest, after = max(longest, steps), page.next
        if after is None:
            break
    return longest


async def test_a_page_reads_no_more_in_a_larger_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """For every filter, also among thousands of runs that were due or ended at the same instant."""
    monkeypatch.setattr(find, "SCANNED", 300)
    few, many = await steps_of(5_000, tmp_path), await steps_of(25_000, tmp_path)
    more = {name: (few[name], many[name]) for name in FILTERS if many[name] > few[name] * 1.5 + 100}
    assert more == {}
    assert max(many.values()) < 20_000  # some 600 instructions for each row that is read, so tens of rows
