"""Measures a drain of PostgreSQL with a million finished runs in history, as a share of the drain without any.

One worker process drains. `--large`: ten million runs. As in `bench.history` the finished runs are inserted in bulk by
SQL, over thirty days. The side with history keeps its database, which grows by one drain each time. Each queue is
filled just before its drain.
"""

from __future__ import annotations

import asyncio
import time

from bench import crew, server
from bench.drain_crews import RUNS
from bench.drain_postgres import filled
from bench.history import AIM, DAYS_30, FINISHED, JOBS
from bench.nodes import check_executions, check_history, check_never_fenced, open_store, wall
from bench.results import Result, ratio
from bench.rounds import Plan, alternate
from onthedot.model.job import Call, Job
from onthedot.model.run import RunState
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.sql.port import sql

# $1 number of runs, $2 number of jobs, $3 due instant of the first run, $4 distance between two runs.
_NUMBERS = "(SELECT n, $3::bigint + n * $4::bigint AS at FROM generate_series(1, $1::bigint) n) numbers"

INSERT_FINISHED = f"""
INSERT INTO history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, armed_at,
                     started_at, ended_at, queue, priority, trigger, target, reason, args, error, result)
SELECT n, 1 + n % $2::bigint, CASE WHEN n % 50 = 0 THEN 'dead' ELSE 'succeeded' END, at, at, 1,
       (n % 50 = 0)::integer, 0, at - 30000000, at - 5000, at + 700, at + 20700, 'default', 1,
       CASE WHEN n % 2 = 0 THEN 'submit:' || md5(n::text) ELSE 'schedule:0f1e2d3c4b5a6978' END, '',
       CASE WHEN n % 50 = 0 THEN 'failed' ELSE '' END,
       CASE WHEN n % 2 = 0 THEN '{{{{"order":' || n || ',"tenant":"t' || n % 500 || '"}}}}' END,
       CASE WHEN n % 50 = 0 THEN 'ConnectionResetError: [Errno 104] Connection reset by peer' END,
       CASE WHEN n % 50 > 0 THEN '{{{{"pages":' || n % 100 || '}}}}' END
FROM {_NUMBERS}
"""  # noqa: S608 - constants of this file

INSERT_TRIED = f"""
INSERT INTO attempts (run_id, attempt, lease_id, fence, node, revision, outcome, error, due_at, reserved_at, armed_at,
                      started_at, ended_at)
SELECT n, 1, substr(md5(n::text), 1, 20) || '-' || n % 500, n, 'worker-' || n % 8, 1,
       CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'succeeded' END,
       CASE WHEN n % 50 = 0 THEN 'ConnectionResetError: [Errno 104] Connection reset by peer' END,
       at, at - 2000000, at - 5000, at + 700, at + 20700 + $2::bigint * 0
FROM {_NUMBERS}
"""  # noqa: S608 - constants of this file

COUNT_ON = "SELECT setval('run_ids', $1), setval('fences', $1)"


def run(plan: Plan) -> list[Result]:
    """Measure on PostgreSQL."""
    finished, count = plan.count(FINISHED) * (10 if plan.large else 1), plan.count(RUNS)
    with server.running() as postgres:
        large = postgres.create()
        began = time.perf_counter()
        asyncio.run(_make(large, finished))
        took = time.perf_counter() - began

        def with_history(number: int) -> float:
            return _drain("drain with history", postgres, large, count, plan.seed + number, number + 1)

        def without(number: int) -> float:
            empty = postgres.create()
            rate = _drain("drain without history", postgres, empty, count, plan.seed + number, 1)
            postgres.drop(empty)
            return rate

        pairs = alternate(plan, without, with_history)
    note = f"{finished:,} finished runs made in {took:.0f} s; bare = empty"
    return [ratio("history postgres drain", pairs, unit="runs/s", aim=AIM, note=note)]


async def _make(url: str, finished: int) -> None:
    store = await PostgresStore.open(f"{url}?timeout=1000")
    for number in range(JOBS):
        await store.put_job(Job(name=f"job-{number}", task=Call(handler="other")))
    step = DAYS_30 // (finished + 1)
    first = wall() - DAYS_30
    values = (finished, JOBS, first, step)

    async def work(tx: Transaction) -> None:
        await tx.make_room(range(first, first + DAYS_30 + 1, DAYS_30 // 30))
        await tx.do(sql(INSERT_FINISHED), *values)
        await tx.do(sql(INSERT_TRIED), *values)
        await tx.rows(sql(COUNT_ON), finished)

    await store.database.write(work)
    await store.close()


def _drain(what: str, postgres: server.Server, url: str, count: int, seed: int, nodes: int) -> float:
    run_ids = asyncio.run(filled(url, count, seed))
    before = asyncio.run(_counts(url))
    done = crew.drain(what, postgres, crew.ours("ours", url, seed), 1, count)
    check_executions(what, run_ids, done.executed)
    asyncio.run(_check(what, url, count, before, nodes))
    return done.rate


async def _counts(url: str) -> dict[RunState, int]:
    store = await open_store(url)
    counts = await store.queries.count_runs()
    await store.close()
    counts.pop(RunState.SCHEDULED, None)
    return counts


async def _check(what: str, url: str, count: int, before: dict[RunState, int], nodes: int) -> None:
    store = await open_store(url)
    await check_history(what, store, count, before=before)
    await check_never_fenced(what, store, nodes)
    await store.close()
