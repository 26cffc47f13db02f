"""Every bench works at 1 % of its size, with right counts and the expected lines. Floors are not checked here."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bench import bare, bare_postgres, bare_redis, drain, drain_postgres, drain_redis
from bench.__main__ import BENCHES, main
from bench.nodes import check_executions, check_history, fill, open_store
from bench.results import BenchFailed
from onthedot.stores.redis import RedisStore
from tests.servers.valkey import ValkeyServer

ROOT = Path(__file__).parents[2]

STORES = ("memory", "sqlite", "postgres", "redis")
LINES = {
    "drain": [
        "drain memory",
        "drain sqlite",
        *(f"drain {store}, {count}" for store in ("postgres", "redis") for count in ("1 process", "2 processes")),
    ],
    "gated": [f"gated {store} {kind}" for store in STORES for kind in ("overlap", "limit", "one key")],
    "lateness": [f"lateness {store} {share}" for store in STORES for share in ("p50", "p99")],
    "submit": [f"submit {store}" for store in STORES],
    "submitting": [f"submitting {store}, {size} at a time" for store in ("postgres", "redis") for size in (1, 500)],
    "history": ["history sqlite drain", "history postgres drain", "history redis drain"],
    "schedules": [
        "schedules sqlite RSS",
        "schedules sqlite idle CPU",
        "schedules sqlite CPU, total",
        "schedules postgres RSS",
        "schedules postgres idle CPU",
        "schedules postgres CPU, total",
        "schedules redis RSS",
        "schedules redis idle CPU",
        "schedules redis CPU, total",
    ],
    "memory": ["memory redis, waiting", "memory redis, finished"],
    "imports": ["import onthedot", "onthedot.Job, every", "onthedot.Scheduler", "onthedot --help"],
    "herd": [f"herd {store} last start" for store in STORES],
    "sizing": ["sizing sqlite p99", "sizing sqlite RSS", "sizing sqlite CPU", "sizing RSS by jobs"],
    "failover": [
        "failover planner killed",
        *(f"failover node killed, {what}" for what in ("reserved", "others", "resumed")),
    ],
    "commands": [
        "commands start",
        "commands per second",
        "commands guard RSS",
        "commands end to end memory",
        "commands end to end sqlite",
        "commands end to end start p50",
        "commands end to end start p99",
    ],
    "api": [
        *(f"api {kind} {store}" for store in ("sqlite", "postgres") for kind in ("submit", "bulk")),
        "api with followers median",
        "api with followers p99",
    ],
}


@pytest.mark.soak
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_counts_its_work_and_prints_the_expected_lines(name, capsys, tmp_path):
    assert main(["--only", name, "--size", "0.01", "--rounds", "1", "--json", "--dir", str(tmp_path)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["failures"] == []
    assert [line["name"] for line in told["results"]] == LINES[name]
    assert all(line["verdict"] in ("aim", "ok", "FAILS", "printed") for line in told["results"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_command_prints_a_header_and_a_table():
    command = [sys.executable, "-m", "bench", "--only", "drain,submit", "--size", "0.01", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True)
    header, titles, *lines = done.stdout.splitlines()
    assert header.startswith("onthedot bench: size 0.01, rounds 1, seed 1, Python 3.")
    assert titles.split() == ["bench", "ours", "bare", "unit", "measured", "spread", "floor", "aim", "verdict"]
    assert [line[: len(name)] for line, name in zip(lines, LINES["drain"] + LINES["submit"], strict=True)] == (
        LINES["drain"] + LINES["submit"]
    )
    assert "floors count at size 1 only" in done.stderr


async def test_the_bare_loop_on_sqlite_writes_the_same_rows_as_ours(tmp_path):
    """For a fair comparison both sides write the same rows, except names, leases and instants."""
    left = []
    for name in ("bare", "ours"):
        path = tmp_path / f"{name}.db"
        run_ids = await drain.fill_file(path, 700, 1)
        if name == "bare":
            _, executed = await bare.drain_sqlite(path, 1)
            check_executions("bare", run_ids, executed)
        else:
            await drain.drain_file("ours", path, run_ids)
        left.append(rows_of(path))
    assert left[0] == left[1]


async def test_the_bare_loop_on_postgres_writes_the_same_rows_as_ours(postgres_url):
    left = []
    for schema in ("bare", "ours"):
        url = f"{postgres_url}?schema={schema}"
        run_ids = await drain_postgres.filled(url, 700, 1)
        if schema == "bare":
            db = await bare_postgres.connect(url)
            executed: list[int] = []
            await bare_postgres.drain(db, executed, 1, "bare")
            await db.close()
            check_executions("bare", run_ids, executed)
        else:
            await drain.drain_file("ours", url, run_ids)
        db = await bare_postgres.connect(url)
        left.append([[tuple(row) for row in await db.fetch(statement)] for statement in LEFT])
        await db.close()
    assert left[0] == left[1]


async def test_the_bare_loop_on_redis_writes_the_same_runs_as_ours(valkey: ValkeyServer):
    left = []
    for prefix in ("bare", "ours"):
        url = f"{valkey.url()}?prefix={prefix}"
        run_ids = await drain_redis.filled(url, 700, 1)
        if prefix == "bare":
            loop = await bare_redis.Bare.connect(url)
            executed: list[int] = []
            await loop.drain(executed, 1, "bare")
            await loop.close()
            check_executions("bare", run_ids, executed)
        else:
            await drain.drain_file("ours", url, run_ids)
        store = await RedisStore.open(url)
        runs = sorted(await store.queries.list_runs(limit=1_000), key=lambda run: run.id)
        attempts = [(await store.queries.list_attempts(run.id))[0] for run in runs[::50]]
        await store.close()
        left.append(
            [(run.id, run.state, run.attempts, run.failures, run.queue, bool(run.started_at)) for run in runs]
            + [(one.run_id, one.attempt, one.outcome, one.fence > 0, one.armed_at > 0) for one in attempts]
        )
    assert len(left[0]) > 700
    assert left[0] == left[1]


LEFT = (
    "SELECT count(*) FROM runs",
    "SELECT id, job_id, state, attempts, failures, recoveries, queue, trigger, target, reason, origin, args, error,"
    " result, armed_at > 0, started_at > 0, ended_at >= started_at FROM history ORDER BY id",
    "SELECT run_id, attempt, revision, outcome, error, fence > 0, reserved_at > 0, armed_at > 0, started_at > 0"
    " FROM attempts ORDER BY run_id",
)


def rows_of(path: Path) -> list[list[tuple[object, ...]]]:
    db = sqlite3.connect(path)
    found = [db.execute(statement).fetchall() for statement in LEFT]
    db.close()
    return found


async def test_a_run_that_was_not_executed_fails_the_bench():
    store = await open_store(None)
    run_ids = await fill(store, 10, seed=1)
    with pytest.raises(BenchFailed, match="10 succeeded in the store, found 10 scheduled"):
        await check_history("made up", store, len(run_ids))
