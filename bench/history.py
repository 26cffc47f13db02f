"""Measures a drain of SQLite with a million finished runs in history, as a share of the drain without any.

The runs are inserted in bulk by SQL: twenty jobs over thirty days, half of them slots and half submitted, some dead,
with their attempts. Both sides are filled, closed and drained in the same way. The side with history keeps its file, so
that it grows by one drain (2 %) each time. A loss of a few per cent is hard to see on a busy machine, so a round has
three drains of each side.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.drain import RUNS, drain_file, fill_file
from bench.nodes import open_store, wall
from bench.results import Result, ratio
from bench.rounds import Plan, alternate
from onthedot.model.job import Call, Job
from onthedot.stores.sqlite.connection import connect

FINISHED = 1_000_000
JOBS = 20
DRAINS = 3  # of each side in a round
AIM = 0.95

DAYS_30 = 30 * 86_400 * 1_000_000

# `n` is the number of a run, `at` its due instant.
_NUMBERS = """
WITH RECURSIVE numbers (n, at) AS (
    SELECT 1, :first UNION ALL SELECT n + 1, :first + n * :step FROM numbers WHERE n < :count)
"""

INSERT_FINISHED = f"""
INSERT INTO history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, armed_at,
                     started_at, ended_at, queue, priority, trigger, target, reason, args, error,
                     result)
{_NUMBERS}
SELECT n, 1 + n % :jobs, iif(n % 50, 'succeeded', 'dead'), at, at, 1, n % 50 = 0, 0, at - 30000000, at - 5000,
       at + 700, at + 20700, 'default', 1,
       iif(n % 2, 'schedule:0f1e2d3c4b5a6978', 'submit:' || lower(hex(randomblob(16)))), '',
       iif(n % 50, '', 'failed'), iif(n % 2, NULL, '{{"order":' || n || ',"tenant":"t' || n % 500 || '"}}'),
       iif(n % 50, NULL, 'ConnectionResetError: [Errno 104] Connection reset by peer'),
       iif(n % 50, '{{"pages":' || n % 100 || '}}', NULL)
FROM numbers
"""  # noqa: S608 - constants of this file

INSERT_TRIED = f"""
INSERT INTO attempts (run_id, attempt, lease_id, fence, node, revision, outcome, error, due_at, reserved_at, armed_at,
                      started_at, ended_at)
{_NUMBERS}
SELECT n, 1, lower(hex(randomblob(10))) || '-' || n % 500, n, 'worker-' || n % 8, 1,
       iif(n % 50, 'succeeded', 'failed'),
       iif(n % 50, NULL, 'ConnectionResetError: [Errno 104] Connection reset by peer'),
       at, at - 2000000, at - 5000, at + 700, at + 20700
FROM numbers
"""  # noqa: S608 - constants of this file

COUNT_ON = "UPDATE meta SET value = :count WHERE name IN ('run', 'fence')"


def run(plan: Plan) -> list[Result]:
    """Measure on SQLite."""
    finished, count = plan.count(FINISHED) * (10 if plan.large else 1), plan.count(RUNS)
    large = plan.folder / "large.db"
    began = time.perf_counter()
    asyncio.run(_make(large, finished))
    took = time.perf_counter() - began

    def with_history(number: int) -> float:
        run_ids = asyncio.run(fill_file(large, count, plan.seed + number))
        drained = drain_file("drain with history", large, run_ids, nodes=number + 1)
        return asyncio.run(drained).rate

    def without(number: int) -> float:
        empty = plan.folder / f"empty{number}.db"
        run_ids = asyncio.run(fill_file(empty, count, plan.seed + number))
        return asyncio.run(drain_file("drain without history", empty, run_ids)).rate

    pairs = alternate(replace(plan, rounds=plan.rounds * DRAINS), without, with_history)
    note = f"{finished:,} finished runs made in {took:.0f} s, {large.stat().st_size / 1e6:,.0f} MB; bare = empty"
    return [ratio("history sqlite drain", pairs, unit="runs/s", aim=AIM, note=note)]


async def _make(path: Path, finished: int) -> None:
    store = await open_store(path)
    for number in range(JOBS):
        await store.put_job(Job(name=f"job-{number}", task=Call(handler="other")))
    await store.close()
    db = connect(str(path), writing=True)
    first = wall() - DAYS_30
    values = {"count": finished, "jobs": JOBS, "first": first, "step": DAYS_30 // (finished + 1)}
    bulk(db, [(INSERT_FINISHED, values), (INSERT_TRIED, values), (COUNT_ON, values)])
    db.close()


def bulk(db: sqlite3.Connection, statements: Sequence[tuple[str, Mapping[str, int | str]]]) -> None:
    """Execute the statements of a set-up in one transaction."""
    db.execute("BEGIN IMMEDIATE")
    for statement, values in statements:
        db.execute(statement, values)
    db.execute("COMMIT")
