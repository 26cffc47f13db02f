"""Thousands of commands through scheduler, worker and guards leave no memory, descriptor or folder behind.

1,000 commands in `make test`, 10,000 in `make soak`.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, NamedTuple

import pytest

import onthedot as otd
from onthedot.model.run import RunState
from tests.lanes import SOAK
from tests.runners.guard.guarded_programs import descriptors, rss

MANY = 10_000 if SOAK else 1_000
WARM = 400
"""Commands before the measurement, so that guards, pools, caches and spare folders exist."""
KEPT = otd.Retention(age=None, count=100)
"""The store keeps so few runs that it does not grow. This test is about the rest."""


class ProcessSize(NamedTuple):
    """The memory and the descriptors of a process."""

    megabytes: float
    descriptors: int


def size(pid: int) -> ProcessSize:
    return ProcessSize(round(rss(pid) / (1 << 20), 1), descriptors(pid))


async def drain(sched: otd.Scheduler, count: int) -> None:
    for start in range(0, count, 500):
        runs = await sched.submit_many(["it"] * min(500, count - start))
        for run in runs:
            await run.result(timeout="60s")


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_worker_and_guards_do_not_grow_with_thousands_of_commands(tmp_path):
    spool, output = tmp_path / "spool", tmp_path / "output"
    settings = otd.Settings(retention=KEPT, spool=str(spool), output=str(output))
    sched = otd.Scheduler(f"sqlite:///{tmp_path / 'it.db'}", settings=settings)
    sched.command("it", ["/bin/true"])
    async with sched:
        await drain(sched, WARM)
        guards = await sched._running().on_engine(pids_of_guards)
        worker_before, before = size(os.getpid()), [size(pid) for pid in guards]
        await drain(sched, MANY)
        worker, after = size(os.getpid()), [size(pid) for pid in guards]
        sizes = f"worker {worker_before} -> {worker}, guards {before} -> {after}"
        print(sizes)
        assert await sched._running().on_engine(pids_of_guards) == guards, "a guard died during the test"
        assert worker.descriptors <= worker_before.descriptors + 2, sizes  # the store opens and closes readers
        assert [each.descriptors for each in after] == [each.descriptors for each in before], sizes
        assert worker.megabytes - worker_before.megabytes < 8, sizes
        assert all(now.megabytes - was.megabytes < 2 for was, now in zip(before, after, strict=True)), sizes
        failed = await sched.list_runs(states=[RunState.DEAD, RunState.LOST])
        assert failed == []
    left = await asyncio.to_thread(lambda: sorted(path.relative_to(spool).parts for path in spool.rglob("*")))
    [[store], logs] = left  # one folder for this store, which contains only an empty folder for logs
    assert logs == (store, "logs")
    assert not await asyncio.to_thread(output.exists)


async def pids_of_guards(engine: Any) -> list[int]:
    pids: list[int] = engine._runners._guard.pids
    return pids
