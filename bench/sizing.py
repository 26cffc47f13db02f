"""Measures the load of a service that embeds onthedot, for three minutes on SQLite.

20,000 jobs with evenly spread slots make 500 runs a minute. Their coroutines take 10 ms to a minute, on 500 seats. The
node is a separate process (`bench.sizing_node`). Every run must start once, never early, and be in history; the floor
is for its lateness. Starts of the first two seconds are counted but not timed, because the node then takes runs that
became due during its start. There is one round, and handlers that still run at its end are cut short. Another line
compares the memory of a node with 100,000 jobs with that of one with 1,000, both with 500 runs a minute.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from bench.nodes import PATIENCE, check_never_fenced, open_store, wall
from bench.results import BenchFailed, Result, above
from bench.rounds import Plan, percentile
from bench.schedules import COUNT_ON, ROOT
from onthedot.clock import MILLISECOND, SECOND, Micros, to_datetime
from onthedot.model.job import Call, Every, Job, is_gated
from onthedot.model.job_json import encode, hash_of
from onthedot.model.run import RunState
from onthedot.rules.shards import bucket_of
from onthedot.stores.sqlite.connection import connect

JOBS, MANY, FEW = 20_000, 100_000, 1_000
STEP: Micros = 60 * SECOND // 500  # between two slots of all jobs together
LEAD: Micros = 1 * SECOND  # for the node to start
SECONDS, LEAST_SECONDS = 180.0, 3.0
MEMORY_SECONDS = 20.0

INSERT_JOB = """
INSERT INTO jobs (id, namespace, name, owner, state, revision, task, queue, route, priority, share, gated,
                  definition_hash, created_at, updated_at)
VALUES (:id, 'default', :name, '', 'active', 1, 'call:sized', 'default', 'default', 1, '', :gated, :hash, :now, :now)
"""
INSERT_REVISION = "INSERT INTO job_revisions (job_id, revision, definition, created_at) VALUES (:id, 1, :text, :now)"
INSERT_SCHEDULE = """
INSERT INTO schedules (job_id, schedule_id, bucket, origin, watermark, next_at)
VALUES (:id, 's', :bucket, :now, :now, :first)
"""


class NodeReport(NamedTuple):
    """The figures that a node prints."""

    late: list[Micros]
    runs: int
    megabytes: float
    cpu_percent: float


def run(plan: Plan) -> list[Result]:
    """Measure one round of three minutes, whatever `--rounds` says, because one long round has little noise."""
    seconds = plan.seconds(SECONDS, LEAST_SECONDS)
    seen = watch(plan.folder / "sized.db", plan.count(JOBS), seconds, plan.seed)
    short = plan.seconds(MEMORY_SECONDS, LEAST_SECONDS)
    few = watch(plan.folder / "few.db", plan.count(FEW, 100), short, plan.seed)
    many = watch(plan.folder / "many.db", plan.count(MANY), short, plan.seed)
    late = percentile(seen.late, 0.99) / MILLISECOND
    p50, worst = percentile(seen.late, 0.5) / MILLISECOND, max(seen.late) / MILLISECOND
    note = f"{plan.count(JOBS):,} jobs, {seen.runs} runs; p50 {p50:.1f} ms, max {worst:.0f} ms"
    return [
        above("sizing sqlite p99", [(0.0, late)], unit="ms", floor=50.0, note=note),
        above("sizing sqlite RSS", [(0.0, seen.megabytes)], unit="MB"),
        above("sizing sqlite CPU", [(0.0, seen.cpu_percent)], unit="%"),
        above(
            "sizing RSS by jobs", [(few.megabytes, many.megabytes)], unit="MB", floor=10.0,
            note=f"{plan.count(MANY):,} jobs; bare = {plan.count(FEW, 100):,}",
        ),
    ]  # fmt: skip


def watch(path: Path, jobs: int, seconds: float, seed: int) -> NodeReport:
    """Run a node with these jobs for this time, check that every started run has succeeded, and return its figures."""
    asyncio.run(_make(path, jobs))
    command = [sys.executable, "-m", "bench.sizing_node", str(path), str(seconds), str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE + seconds, check=False)
    if done.returncode:
        raise BenchFailed(f"sizing: the node ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    seen = NodeReport(**json.loads(done.stdout))
    asyncio.run(_check(path, seen))
    return seen


async def _make(path: Path, count: int) -> None:
    await (await open_store(path)).close()
    db = connect(str(path), writing=True)
    db.execute("BEGIN IMMEDIATE")
    for values in _rows(count):
        for statement in (INSERT_JOB, INSERT_REVISION, INSERT_SCHEDULE):
            db.execute(statement, values)
    db.execute(COUNT_ON, {"count": count})
    db.execute("COMMIT")
    db.close()


def _rows(count: int) -> Iterator[dict[str, int | str]]:
    """Yield jobs with the same interval and different anchors, so that their slots follow each other evenly."""
    now, interval = wall(), timedelta(microseconds=count * STEP)
    begin = now + LEAD + count * 100  # plus the time to write all jobs
    for number in range(1, count + 1):
        first = begin + number * STEP
        schedule = Every(interval=interval, anchor=to_datetime(first), id="s")
        job = Job(name=f"sized-{number:06d}", task=Call(handler="sized"), schedules=(schedule,))
        text = encode(job)
        yield {
            "id": number, "name": job.name, "gated": int(is_gated(job)), "hash": hash_of(text), "now": now,
            "text": text, "bucket": bucket_of(number), "first": first,
        }  # fmt: skip


async def _check(path: Path, seen: NodeReport) -> None:
    """Check that every started run has succeeded, and that no slot was skipped."""
    if not seen.late:
        raise BenchFailed("sizing: no run started while the node was watched")
    store = await open_store(path)
    counts = await store.queries.count_runs()
    ended = {state: count for state, count in counts.items() if state is not RunState.SCHEDULED}
    if ended != {RunState.SUCCEEDED: seen.runs}:
        raise BenchFailed(f"sizing: {seen.runs} runs started, but the store has {counts}")
    await check_never_fenced("sizing", store)
    await store.close()
