"""Measures commands end to end: submitted in bulk to a scheduler, run by its worker through the guard, and recorded.

Bare spawns the same program and waits for it, as many at a time as the worker has seats. Ours is the time from
`submit_many` until the last verdicts: gates, leases, a workspace per command, the guard, output and history.

The delay of a start is the time that `date` prints minus the time before the request; for ours that is `submit`, one at
a time on an idle scheduler.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import onthedot as otd
from bench.commands import DATE, TRUE, bare_starts
from bench.nodes import KEEP_ALL, Where, check_history, check_never_fenced, open_store, patiently
from bench.results import BenchFailed, Result, above, ratio
from bench.rounds import Plan, alternate, percentile

COMMANDS = 1_000
STARTS = 100
SEATS = KEEP_ALL.seats
AIM = 0.6

_WARM = 20  # commands as a warm-up, because the guard is a process that must start


def run(plan: Plan) -> list[Result]:
    """Measure on memory and SQLite."""
    return [*_rates(plan), *_starts(plan)]


def _rates(plan: Plan) -> list[Result]:
    count = plan.count(COMMANDS, least=SEATS)
    lines = []
    for store in ("memory", "sqlite"):
        pairs = alternate(
            plan,
            lambda _: _bare_rate(count),
            lambda number, store=store: asyncio.run(_rate(plan, _where(plan, store, number), count)),  # type: ignore[misc]
        )
        note = f"bare = posix_spawn and wait; both {SEATS} at a time"
        lines.append(ratio(f"commands end to end {store}", pairs, unit="1/s", aim=AIM, note=note))
    return lines


def _starts(plan: Plan) -> list[Result]:
    pairs = alternate(
        plan,
        lambda _: bare_starts(plan.count(STARTS)),
        lambda number: asyncio.run(_start(plan, _where(plan, "starts", number), plan.count(STARTS))),
    )
    shares = (("p50", 0.5, 30.0, 5.0), ("p99", 0.99, 150.0, 20.0))
    return [
        above(
            f"commands end to end start {name}",
            [(percentile(bare, share), percentile(ours, share)) for bare, ours in pairs],
            unit="ms",
            floor=floor,
            aim=aim,
            note="sqlite; from submit; bare = posix_spawn",
        )
        for name, share, floor, aim in shares
    ]


def _where(plan: Plan, store: str, number: int) -> Path | None:
    return None if store == "memory" else plan.folder / f"{store}{number}.db"


def _bare_rate(count: int) -> float:
    under_way: deque[int] = deque()
    began = time.perf_counter()
    for _ in range(count):
        if len(under_way) == SEATS:
            _succeed(under_way.popleft())
        under_way.append(os.posix_spawn(TRUE, [TRUE], {}))
    while under_way:
        _succeed(under_way.popleft())
    return count / (time.perf_counter() - began)


def _succeed(pid: int) -> None:
    if os.waitpid(pid, 0)[1]:
        raise BenchFailed("commands: `true` failed")


@asynccontextmanager
async def _scheduler(plan: Plan, where: Where, argv: list[str], expected: int) -> AsyncIterator[otd.Scheduler]:
    """Run a normal scheduler with one job after a warm-up. At its end every run must have succeeded once."""
    store = await open_store(where)
    folder = plan.folder / f"left-{time.monotonic_ns()}"
    settings = replace(KEEP_ALL, seats=SEATS, spool=str(folder / "spool"), output=str(folder / "output"))
    sched = otd.Scheduler(store, settings=settings)
    sched.command("it", argv)
    try:
        async with sched:
            for warm in await sched.submit_many(["it"] * _WARM):
                await warm.result()
            yield sched
        await check_history("commands end to end", store, expected + _WARM)
        await check_never_fenced("commands end to end", store)
    finally:
        await store.close()


async def _rate(plan: Plan, where: Where, count: int) -> float:
    async with _scheduler(plan, where, [TRUE], count) as sched:
        began = time.perf_counter()
        runs = await sched.submit_many(["it"] * count)
        last = asyncio.gather(*(run.result() for run in runs[-SEATS:]))
        await patiently(last, "commands end to end")
        return count / (time.perf_counter() - began)


async def _start(plan: Plan, where: Where, count: int) -> list[float]:
    waits = []
    async with _scheduler(plan, where, [DATE, "+%s%N"], count) as sched:
        for _ in range(count):
            asked = time.time_ns()
            run = await sched.submit("it")
            await patiently(run.result(), "commands end to end start")
            [said] = await sched.logs(run)
            waits.append((int(said.text) - asked) / 1e6)
    return waits
