"""Several processes share one file, and a process that is killed during a write leaves nothing half written."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from onthedot.model.run import RunState
from onthedot.rules.shards import bucket_of
from onthedot.stores.sqlite import SqliteStore
from tests.stores.sqlite.working import define, ended, start, submit

pytestmark = pytest.mark.slow

WRITER = "tests.stores.sqlite.writer"


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Returns the whole content of the file."""
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    found = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in tables}  # noqa: S608
    db.close()
    return found


VERBS = {
    # verb: the table that it changes, and the counts of runs before and after
    "put_job": ("jobs", {}, {RunState.SCHEDULED: 2}),
    "plan": ("runs", {}, {RunState.SCHEDULED: 3}),
    "reserve": ("runs", {RunState.SCHEDULED: 5}, {RunState.RUNNING: 5}),
    "finish": ("history", {RunState.RUNNING: 5}, {RunState.SUCCEEDED: 5}),
    "reap": ("attempts", {RunState.RUNNING: 1}, {RunState.SCHEDULED: 1}),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_process_that_is_killed_during_a_write_leaves_nothing_half_written(verb, path):
    await (await SqliteStore.open(path)).close()
    empty = content(path)
    code, out, err = await ended(start(WRITER, path, "one", verb, crash_at=f"{verb}.in_transaction"))
    assert code == -signal.SIGKILL, err
    assert out.split() == ["ready"]
    store = await SqliteStore.open(path)
    assert await store.queries.count_runs() == VERBS[verb][1]
    await store.close()
    found = content(path)
    assert (found["history"], found["attempts"]) == ([], [])
    if verb == "put_job":
        assert found == empty
    elif verb == "plan":
        # Watermark and next_at are unchanged.
        assert [row[:6] for row in found["schedules"]] == [(1, "s", bucket_of(1), 0, 0, 1)]
    elif verb == "reserve":
        counters = {"document": 0, "fence": 0, "hint:runs": 2, "hint:schedules": 1, "job": 1, "run": 5}
        assert found["meta"] == list(counters.items())
    elif verb == "reap":
        assert [row[-3:-1] for row in found["nodes"]] == [(0, 0)]  # neither ended nor reaped


@pytest.mark.parametrize("verb", VERBS)
async def test_the_same_process_without_the_kill_writes_everything(verb, path):
    code, out, err = await ended(start(WRITER, path, "one", verb))
    assert (code, out.split()[:2]) == (0, ["ready", "done"]), err
    store = await SqliteStore.open(path)
    assert await store.queries.count_runs() == VERBS[verb][2]
    await store.close()
    assert content(path)[VERBS[verb][0]]


async def test_two_processes_share_the_work_without_duplicates(path):
    store = await SqliteStore.open(path)
    record = await define(store)
    ids = await submit(store, record, 2_000)
    children = [start(WRITER, path, "drain", f"node {number}") for number in range(2)]
    beats = 0
    while any(child.poll() is None for child in children):
        await store.queries.get_job("job")
        await submit(store, record, 1, delay=10**12)  # a third process writes meanwhile
        beats += 1
        await asyncio.sleep(0.01)
    taken: Counter[int] = Counter()
    for child in children:
        code, out, err = await ended(child)
        assert code == 0, err
        taken.update(int(line) for line in out.splitlines() if line.isdigit())
    assert taken == Counter(ids)
    assert await store.queries.count_runs() == {RunState.SCHEDULED: beats, RunState.SUCCEEDED: 2_000}
    await store.close()
    found = content(path)
    # Every attempt has its own fence.
    assert len(found["attempts"]) == len({row[3] for row in found["attempts"]}) == 2_000


async def test_many_processes_can_open_a_new_file_at_once(path):
    children = [start(WRITER, path, "drain", f"node {number}") for number in range(4)]
    for child in children:
        code, _, err = await ended(child)
        assert code == 0, err
    assert len(content(path)["nodes"]) == 4
