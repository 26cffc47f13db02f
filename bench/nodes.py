"""Starts a scheduler with one counting handler on a store, and checks the result. Every bench uses it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter as Tally
from collections.abc import Awaitable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import bench.revisions  # noqa: F401 - before the names that it gives
import onthedot as otd
from bench.results import BenchFailed
from onthedot.clock import Micros
from onthedot.ids import SeededIds
from onthedot.model.job import Call, Job
from onthedot.model.run import NewRun, RunState, submit_trigger

if TYPE_CHECKING:  # `bench.compare` runs this with the sources of older revisions, too
    from onthedot.stores.protocol import Store

T = TypeVar("T")

Where = Path | str | None
"""The place of a store: a SQLite file, a URL on PostgreSQL or Redis, or None for memory."""

JOB = "noop"
PATIENCE = 120.0  # seconds within which a bench must do its work; a thousand times what it needs at size 1 %

# No run may be pruned during a bench, because the bench counts all runs at its end.
KEEP_ALL = otd.Settings(retention=otd.Retention(age=None, count=None, failures_age=None, failures_count=None))


def wall() -> Micros:
    """Read the wall clock as handlers of users do."""
    return time.time_ns() // 1_000


async def open_store(where: Where) -> Store:
    """Open a SQLite file, a store at a URL, or (None) a new store in memory."""
    module = import_module("onthedot.stores.connect")
    url = f"sqlite:///{where}" if isinstance(where, Path) else where or "memory:"
    store: Store = await module.open_store(url)
    return store


def queries_of(store: Store) -> Any:
    """Return the queries of a store. In older revisions they are methods of the store itself."""
    return getattr(store, "queries", store)


async def fill(store: Store, count: int, *, seed: int, due_at: Micros | None = None) -> list[int]:
    """Submit runs of the counting job, and return their ids. Without `due_at` they are overdue, one after the other."""
    ids = SeededIds(seed)
    put = await store.put_job(Job(name=JOB, task=Call(handler=JOB)))
    first = wall() - count - 1_000_000
    return await submit_all(
        store,
        [
            NewRun(put.record.id, submit_trigger(ids.token()), first + number if due_at is None else due_at)
            for number in range(count)
        ],
    )


async def submit_all(store: Store, runs: Sequence[NewRun], *, batch: int = 5_000) -> list[int]:
    """Submit runs in batches, and return their ids."""
    run_ids: list[int] = []
    for start in range(0, len(runs), batch):
        run_ids += await store.submit(runs[start : start + batch])
    return run_ids


class Start(NamedTuple):
    """One start of the job."""

    slot_at: Micros
    started_at: Micros


class Counter:
    """A handler that notes the runs that it was called for. `all_started` is set when all were."""

    def __init__(self, expected: int) -> None:
        self.run_ids: list[int] = []
        self.all_started = asyncio.Event()
        self._expected = expected

    def scheduler(self, store: Store) -> otd.Scheduler:
        """Return a normal scheduler with only this handler."""
        sched = otd.Scheduler(store, settings=KEEP_ALL)
        sched.job(name=JOB)(self.handle)
        return sched

    async def handle(self, ctx: otd.Context) -> None:
        self.run_ids.append(ctx.run_id)
        if len(self.run_ids) == self._expected:
            self.all_started.set()


class TimedCounter(Counter):
    """A counter that also notes the instants of the calls."""

    def __init__(self, expected: int) -> None:
        super().__init__(expected)
        self.starts: list[Micros] = []

    async def handle(self, ctx: otd.Context) -> None:
        self.starts.append(wall())
        await super().handle(ctx)


class GatedCounter(Counter):
    """A counter that also notes how many runs of a tenant execute at once. Each call yields to the others."""

    def __init__(self, expected: int) -> None:
        super().__init__(expected)
        self._inside: Tally[int] = Tally()
        self._most = 0

    async def handle(self, ctx: otd.Context, tenant: int = -1) -> None:
        self._inside[tenant] += 1
        self._most = max(self._most, self._inside[tenant])
        await asyncio.sleep(0)
        self._inside[tenant] -= 1
        await super().handle(ctx)

    def check(self, what: str, most: int) -> None:
        """Check that no gate let more than `most` runs pass at once."""
        if self._most > most:
            raise BenchFailed(f"{what}: {self._most} runs at once behind a gate for {most}")


async def patiently(work: Awaitable[T], what: str) -> T:
    """Await the work, and fail the bench if it takes too long."""
    try:
        return await asyncio.wait_for(work, PATIENCE)
    except TimeoutError:
        raise BenchFailed(f"{what}: not done after {PATIENCE:.0f} s") from None


def check_executions(what: str, expected: Sequence[int], executed: Sequence[int]) -> None:
    """Check that every run was executed exactly once."""
    seen, wanted = set(executed), set(expected)
    lost, duplicated, unknown = len(wanted - seen), len(executed) - len(seen), len(seen - wanted)
    if lost or duplicated or unknown:
        raise BenchFailed(f"{what}: of {len(wanted)} runs {lost} lost, {duplicated} duplicated, {unknown} unknown")


def check_starts(what: str, starts: Sequence[Start], step: Micros) -> None:
    """Check that no start was early, and that every slot started exactly once."""
    early = [start for start in starts if start.started_at < start.slot_at]
    if early:
        worst = max(start.slot_at - start.started_at for start in early)
        raise BenchFailed(f"{what}: {len(early)} of {len(starts)} starts were early, by up to {worst} µs")
    slots = sorted(start.slot_at for start in starts)
    if not slots or slots != list(range(slots[0], slots[-1] + 1, step)):
        raise BenchFailed(f"{what}: expected every slot once, got {len(slots)} starts of {len(set(slots))} slots")


async def check_history(what: str, store: Store, succeeded: int, *, before: dict[RunState, int] | None = None) -> None:
    """Check that exactly this many runs have succeeded since `before`, and that no other runs are left."""
    wanted = dict(before or {})
    wanted[RunState.SUCCEEDED] = wanted.get(RunState.SUCCEEDED, 0) + succeeded
    found = await queries_of(store).count_runs()
    if found != wanted:
        raise BenchFailed(f"{what}: expected {_counts(wanted)} in the store, found {_counts(found)}")


async def check_never_fenced(what: str, store: Store, nodes: int = 1) -> None:
    """Check that no node was fenced. A fenced node registers again and would be listed twice."""
    found = len(await queries_of(store).list_nodes())
    if found != nodes:
        raise BenchFailed(f"{what}: {nodes} node started, {found} incarnations registered: the heartbeat was late")


def _counts(counts: dict[RunState, int]) -> str:
    return ", ".join(f"{count} {state.value}" for state, count in sorted(counts.items()))
