"""Measures how fast a full queue of no-op runs is drained, compared with a bare loop of the same batched statements.

Ours is a normal scheduler with engine thread, leases, fences, retries, history and attempts. It is measured from
`start()` until `stop()` has returned, when the last verdict is acknowledged. Bare does the same writes in the same
batches on a copy of the same database (or the same calls on an equal store in memory), with one no-op task per run.
Opening and closing the file does not count. Both note every run that they execute.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from bench import bare
from bench.nodes import Counter, Where, check_executions, check_history, check_never_fenced, fill, open_store, patiently
from bench.results import Result, ratio
from bench.rounds import Plan, alternate
from onthedot.model.run import RunState
from onthedot.stores.protocol import Store
from onthedot.stores.sqlite import SqliteStore

RUNS = 20_000
AIM = 0.6


@dataclass(frozen=True, slots=True)
class Drained:
    """The result of one drain."""

    rate: float  # runs per second
    commits: int | None = None  # None if the store does not count them


def run(plan: Plan) -> list[Result]:
    """Measure on memory and SQLite."""
    return [_memory(plan), _sqlite(plan)]


def _memory(plan: Plan) -> Result:
    count = plan.count(RUNS)
    pairs = alternate(
        plan,
        lambda number: asyncio.run(_bare_memory(count, plan.seed + number)),
        lambda number: asyncio.run(_ours_memory(count, plan.seed + number)),
    )
    return ratio("drain memory", [(b.rate, o.rate) for b, o in pairs], unit="runs/s", aim=AIM)


async def _bare_memory(count: int, seed: int) -> Drained:
    store = await open_store(None)
    run_ids = await fill(store, count, seed=seed)
    seconds, executed = await bare.drain_store(store, seed)
    check_executions("drain memory, bare", run_ids, executed)
    await check_history("drain memory, bare", store, count)
    return Drained(count / seconds)


async def _ours_memory(count: int, seed: int) -> Drained:
    store = await open_store(None)
    run_ids = await fill(store, count, seed=seed)
    return await drain("drain memory", store, run_ids)


def _sqlite(plan: Plan) -> Result:
    count = plan.count(RUNS)
    full = plan.folder / "full.db"
    run_ids = asyncio.run(fill_file(full, count, plan.seed))
    pairs = alternate(
        plan,
        lambda number: asyncio.run(_bare_sqlite(_copied(full, f"bare{number}.db"), run_ids, plan.seed + number)),
        lambda number: asyncio.run(drain_file("drain sqlite", _copied(full, f"ours{number}.db"), run_ids)),
    )
    commits = [ours.commits or 0 for _, ours in pairs]
    note = f"{min(commits)}–{max(commits)} commits, bare {-(-count // bare.BATCH) + 1}"
    return ratio("drain sqlite", [(b.rate, o.rate) for b, o in pairs], unit="runs/s", aim=AIM, note=note)


async def _bare_sqlite(path: Path, run_ids: list[int], seed: int) -> Drained:
    seconds, executed = await bare.drain_sqlite(path, seed)
    check_executions("drain sqlite, bare", run_ids, executed)
    store = await open_store(path)
    await check_history("drain sqlite, bare", store, len(run_ids))
    await store.close()
    return Drained(len(run_ids) / seconds)


def _copied(full: Path, name: str) -> Path:
    """Copy the full queue, so that every drain begins with the same pages."""
    return Path(shutil.copyfile(full, full.with_name(name)))


async def fill_file(path: Path, count: int, seed: int) -> list[int]:
    """Submit runs to a file and close it, so that a drain begins with an empty log."""
    store = await open_store(path)
    run_ids = await fill(store, count, seed=seed)
    await store.close()
    return run_ids


async def drain_file(what: str, where: Where, run_ids: list[int], *, nodes: int = 1) -> Drained:
    """Drain a store of its waiting runs. `nodes`: how many nodes have drained it, including this one."""
    store = await open_store(where)
    before = await store.queries.count_runs()
    drained = await drain(what, store, run_ids, before=before, nodes=nodes)
    await store.close()
    return drained


async def drain(
    what: str,
    store: Store,
    run_ids: list[int],
    *,
    before: dict[RunState, int] | None = None,
    nodes: int = 1,
    counter: Counter | None = None,
) -> Drained:
    """Let a scheduler drain these runs, and check that each was executed once and is in history once."""
    ended = dict(before or {})
    ended.pop(RunState.SCHEDULED, None)
    counter = counter or Counter(len(run_ids))
    sched = counter.scheduler(store)
    commits_before = commits_of(store)
    began = time.perf_counter()
    await sched.start()
    try:
        await patiently(counter.all_started.wait(), what)
    finally:
        await sched.stop()
    seconds = time.perf_counter() - began
    check_executions(what, run_ids, counter.run_ids)
    await check_history(what, store, len(run_ids), before=ended)
    await check_never_fenced(what, store, nodes)
    commits = commits_of(store)
    made = None if commits is None or commits_before is None else commits - commits_before
    return Drained(len(run_ids) / seconds, made)


def commits_of(store: Store) -> int | None:
    """Return how many transactions the writer of the store has committed so far; None if it does not count them."""
    return store.database.writer.commits if isinstance(store, SqliteStore) else None
