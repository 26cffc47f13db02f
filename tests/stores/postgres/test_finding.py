"""Finding in PostgreSQL: the number of rows that a page reads is limited."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from onthedot.model.job import Call, Job
from onthedot.model.job_json import encode
from onthedot.model.run import RunState
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.queries import AttemptFilter, JobFilter, RunFilter, SkipFilter
from onthedot.stores.sql import find

START = 1_767_225_600_000_000  # 2026-01-01

FILL = """
INSERT INTO jobs (id, namespace, name, owner, state, revision, task, queue, route, priority, share, gated,
                  definition_hash, created_at, updated_at)
SELECT n, CASE WHEN n > 47 THEN 'team' ELSE 'default' END, 'job ' || n, CASE WHEN n > 45 THEN 'bob' ELSE 'ann' END,
       'active', 1, 'call:work', 'default', 'default', 1, '', false, '', 0, 0
FROM generate_series(1, 50) n;
INSERT INTO job_revisions SELECT n, 1, '{definition}', 0 FROM generate_series(1, 50) n;
INSERT INTO runs (id, job_id, slot_at, due_at, ready_at, created_at, priority, delayed, route, queue, share, trigger,
                  target)
SELECT n, 1 + n % 50, n, {start} + n * (n % 3), n, 0, 1, false, 'default', 'default', '', 'submit:x', ''
FROM generate_series(1, 30000) n;
INSERT INTO history (id, job_id, slot_at, due_at, created_at, ended_at, attempts, failures, recoveries, priority, state,
                     queue, trigger, target, reason)
SELECT 1000000 + n, 1 + n % 50, n, 0, 0, {start} + n * (n % 3), 1, 0, 0, 1,
       CASE WHEN n % 97 = 0 THEN 'dead' ELSE 'succeeded' END, 'default', 'submit:x', '', ''
FROM generate_series(1, 30000) n;
INSERT INTO attempts (run_id, fence, due_at, reserved_at, armed_at, ended_at, attempt, revision, lease_id, node,
                      outcome)
SELECT id, 1, 0, 0, 0, ended_at, 1, 1, 'l', CASE WHEN id % 5 = 0 THEN 'two' ELSE 'one' END, 'succeeded' FROM history;
INSERT INTO skips (job_id, schedule_id, first, last, count, reason, recorded_at)
SELECT 1 + n % 45, 's', n, n, 1, 'missed', 0 FROM generate_series(1, 30000) n;
"""

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
    "a time": RunFilter(since=START + 100, until=START + 200),
    "a time of long ago": RunFilter(until=START + 50),
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

READ = 400  # rows that a call may read here, of 30,000


def rows_read(plan: dict[str, Any]) -> int:
    """Returns how many rows of runs, history, attempts and skips were read, also those that did not match."""
    looked = 0
    if str(plan.get("Relation Name", "")).startswith(("runs", "history", "attempts", "skips")):
        per_loop = (
            plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        )
        looked = round(per_loop * plan["Actual Loops"])
    return looked + sum(rows_read(child) for child in plan.get("Plans", ()))


@pytest.fixture
async def full(store: PostgresStore) -> PostgresStore:
    definition = encode(Job(name="job", task=Call(handler="work")))

    async def work(tx: Transaction) -> None:
        await tx.make_room([START])
        await tx.db.execute(FILL.format(definition=definition, start=START))

    await store.database.write_long(work)
    # In a new transaction, after the rows are committed.
    await store.database.write_long(lambda tx: tx.db.execute("ANALYZE"))
    return store


@pytest.mark.timeout(120)
async def test_every_page_reads_a_limited_number_of_rows(full: PostgresStore, monkeypatch: pytest.MonkeyPatch):
    """For every filter, with the plans that the server makes for these values."""
    monkeypatch.setattr(find, "SCANNED", READ)
    asked: list[tuple[str, tuple[object, ...]]] = []
    rows, row, value = Transaction.rows, Transaction.row, Transaction.value

    def noting(method: Any) -> Any:
        async def note(self: Transaction, statement: str, *values: object) -> Any:
            asked.append((statement, values))
            return await method(self, statement, *values)

        return note

    async def scan(self: Transaction, statement: Any, lines: Sequence[Any], *values: object) -> Any:
        asked.extend([(statement, (*values, *zip(*lines, strict=True)))] if lines else [])
        return await scanned(self, statement, lines, *values)

    scanned = Transaction.scan
    monkeypatch.setattr(Transaction, "scan", scan)
    for name, method in (("rows", rows), ("row", row), ("value", value)):
        monkeypatch.setattr(Transaction, name, noting(method))
    finds: dict[type, Any] = {
        RunFilter: full.queries.find_runs, AttemptFilter: full.queries.find_attempts, JobFilter: full.queries.find_jobs,
        SkipFilter: full.queries.find_skips,
    }  # fmt: skip
    db = await asyncpg.connect(full.database.address.dsn, server_settings={"search_path": full.database.address.schema})
    too_many = {}
    try:
        for name, wanted in FILTERS.items():
            after = None
            for _ in range(3):
                asked.clear()
                page = await finds[type(wanted)](wanted, after=after, limit=10)
                looked = 0
                for statement, values in asked:
                    [[plan]] = await db.fetch(
                        f"EXPLAIN (ANALYZE, FORMAT JSON) {getattr(statement, 'postgres', statement)}", *values
                    )
                    looked += rows_read(json.loads(plan)[0]["Plan"])
                if looked > 6 * READ:  # live and finished runs, their attempts, and the search for the end
                    too_many[name] = looked
                after = page.next
                if after is None:
                    break
    finally:
        await db.close()
    assert too_many == {}
