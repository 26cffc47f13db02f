"""Thousands of commands through scheduler, worker and guards leave nothing behind: no memory, descriptor or folder.

1,000 in `make test`, 10,000 in `make soak`."""

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
"""Until all that is made once has been made: guards, pools, caches, spare places."""
KEPT = otd.Retention(age=None, count=100)
"""Of what the store itself remembers, so little that it does not grow: this is about the rest."""


class Size(NamedTuple):
    """What a process has."""

    megabytes: float
    descriptors: int


def size(pid: int) -> Size:
    return Size(round(rss(pid) / (1 << 20), 1), descriptors(pid))


async def drain(sched: otd.Scheduler, count: int) -> None:
    for start in range(0, count, 500):
        runs = await sched.submit_many(["it"] * min(500, count - start))
        for run in runs:
            await run.result(timeout="60s")


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_worker_and_guards_are_as_large_after_thousands_as_before(tmp_path):
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
        told = f"worker {worker_before} -> {worker}, guards {before} -> {after}"
        print(told)
        assert await sched._running().on_engine(pids_of_guards) == guards, "a guard has died on the way"
        assert worker.descriptors <= worker_before.descriptors + 2, told  # readers of the store come and go
        assert [each.descriptors for each in after] == [each.descriptors for each in before], told
        assert worker.megabytes - worker_before.megabytes < 8, told
        assert all(now.megabytes - was.megabytes < 2 for was, now in zip(before, after, strict=True)), told
        failed = await sched.list_runs(states=[RunState.DEAD, RunState.LOST])
        assert failed == []
    left = await asyncio.to_thread(lambda: sorted(path.relative_to(spool).parts for path in spool.rglob("*")))
    [[store], logs] = left  # the folder of this store, and in it nothing but the empty one of records
    assert logs == (store, "logs")
    assert not await asyncio.to_thread(output.exists)


async def pids_of_guards(engine: Any) -> list[int]:
    pids: list[int] = engine._runners._guard.pids
    return pids
