"""Measures an idle node on SQLite with a million schedules, compared with one with a thousand.

The schedules are inserted in bulk by SQL, with their next slots months away; five more jobs run every second. The node
is a separate process (`bench.idle_node`). After a warm-up it is measured for ten seconds: resident memory at the end,
and CPU time of the whole process.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.history import bulk
from bench.nodes import PATIENCE, open_store, wall
from bench.results import BenchFailed, Result, above
from bench.rounds import Plan, alternate
from onthedot.clock import SECOND
from onthedot.model.job import Call, Cron, Job
from onthedot.model.job_json import encode
from onthedot.schedules import schedule_id
from onthedot.stores.sqlite.connection import connect

MANY, FEW = 1_000_000, 1_000
SECONDS, LEAST_SECONDS = 10.0, 1.0
ROOT = Path(__file__).parents[1]

YEARLY = Cron(expression="0 3 1 1 *")
NAME = "bulk-0"  # placeholder for the name of each job in the definition that all jobs share

_NUMBERS = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)"

INSERT_JOBS = f"""
INSERT INTO jobs (id, namespace, name, owner, state, revision, task, queue, route, priority, share, gated,
                  definition_hash, created_at, updated_at)
{_NUMBERS}
SELECT n, 'default', printf('bulk-%07d', n), 'team-' || n % 50, 'active', 1, 'call:bulk',
       'default', 'default', 1, '', 0, lower(hex(randomblob(32))), :now, :now
FROM numbers
"""  # noqa: S608 - constants of this file

INSERT_REVISIONS = f"""
INSERT INTO job_revisions (job_id, revision, definition, created_at)
{_NUMBERS}
SELECT n, 1, replace(:definition, '{NAME}', printf('bulk-%07d', n)), :now FROM numbers
"""  # noqa: S608 - constants of this file

INSERT_SCHEDULES = f"""
INSERT INTO schedules (job_id, schedule_id, bucket, origin, watermark, next_at)
{_NUMBERS}
SELECT n, :schedule_id, n * 2654435761 % 1024, :now, :now, :far + n * 1000 FROM numbers
"""  # noqa: S608 - constants of this file

COUNT_ON = "UPDATE meta SET value = :count WHERE name = 'job'"


class Idle(NamedTuple):
    """Memory and CPU of a node that had almost nothing to do."""

    megabytes: float
    cpu_percent: float


def run(plan: Plan) -> list[Result]:
    """Measure on SQLite."""
    seconds = plan.seconds(SECONDS, LEAST_SECONDS)
    counts = {"few": plan.count(FEW), "many": plan.count(MANY)}
    for name, count in counts.items():
        asyncio.run(_make(plan.folder / f"{name}.db", count))
    pairs = alternate(
        plan,
        lambda _: watch(f"sqlite:///{plan.folder / 'few.db'}", seconds),
        lambda _: watch(f"sqlite:///{plan.folder / 'many.db'}", seconds),
    )
    return lines("sqlite", pairs, counts)


def lines(store: str, pairs: Sequence[tuple[Idle, Idle]], counts: Mapping[str, int]) -> list[Result]:
    """Return lines for memory and CPU above those with few schedules, and for the total CPU."""
    note = f"{counts['many']:,} schedules; bare = {counts['few']:,}"
    memory = [(few.megabytes, many.megabytes) for few, many in pairs]
    cpu = [(few.cpu_percent, many.cpu_percent) for few, many in pairs]
    return [
        above(f"schedules {store} RSS", memory, unit="MB", floor=20.0, note=note),
        above(f"schedules {store} idle CPU", cpu, unit="%", floor=2.0, note=note),
        above(f"schedules {store} CPU, total", [(0.0, many) for _, many in cpu], unit="%", aim=1.0, note="5 runs/s"),
    ]


async def _make(path: Path, count: int) -> None:
    await (await open_store(path)).close()
    db = connect(str(path), writing=True)
    now = wall()
    values: dict[str, int | str] = {
        "count": count, "now": now, "far": now + 100 * 86_400 * SECOND, "schedule_id": schedule_id(YEARLY),
        "definition": encode(Job(name=NAME, task=Call(handler="bulk"), schedules=(YEARLY,))),
    }  # fmt: skip
    bulk(db, [(sql, values) for sql in (INSERT_JOBS, INSERT_REVISIONS, INSERT_SCHEDULES, COUNT_ON)])
    db.close()


def watch(url: str, seconds: float) -> Idle:
    """Run an idle node on this store, and return its memory and CPU."""
    command = [sys.executable, "-m", "bench.idle_node", url, str(seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise BenchFailed(f"schedules: the idle node ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    seen = json.loads(done.stdout)
    if not seen["runs"]:
        raise BenchFailed("schedules: none of the active jobs ran on the idle node")
    return Idle(seen["megabytes"], seen["cpu_percent"])
