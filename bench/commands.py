"""Measures commands that the guard starts, compared with a bare `posix_spawn` of the same program.

The delay of a start is the time that `date` prints minus the time before the request. Commands per second are measured
with `true`: bare spawns and awaits them one after the other; ours runs as many at a time as a small worker has seats,
each with its own session, bounds, a log, and a search for processes that it left. All rounds use the same guard: after
10,000 commands its memory and its descriptors must be as before.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from statistics import median

from bench.results import BenchFailed, Result, above, ratio
from bench.rounds import Plan
from onthedot.output.records import decode
from onthedot.runners.guard.client import GuardClient
from onthedot.runners.guard.protocol import Program

COMMANDS = 2_000
STARTS = 100
AT_A_TIME = 8
DATE, TRUE = "/usr/bin/date", "/usr/bin/true"

Figures = list[tuple[float, float]]


def run(plan: Plan) -> list[Result]:
    """Measure the delay of starts, commands per second, and the memory of the guard."""
    return asyncio.run(_run(plan))


async def _run(plan: Plan) -> list[Result]:
    guard = GuardClient(offers=frozenset(["none"]))
    starts: Figures = []
    rates: Figures = []
    sizes: Figures = []
    try:
        await _many(guard, plan, plan.count(200))  # warm-up: everything that is made once exists afterwards
        if guard.pid is None:
            raise BenchFailed("commands: the guard has ended")
        pid = guard.pid
        before, open_before = _megabytes(pid), _descriptors(pid)
        for _ in range(plan.rounds):
            starts.append((median(bare_starts(plan.count(STARTS))), await _start(guard, plan)))
            count = plan.count(COMMANDS)
            rates.append((_bare_rate(count), await _many(guard, plan, count)))
            sizes.append((before, _megabytes(pid)))
        if guard.pid != pid or _descriptors(pid) != open_before:
            raise BenchFailed(f"commands: {open_before} descriptors at first, {_descriptors(pid)} at the end")
    finally:
        await guard.close()
    each = f"bare = posix_spawn and wait, one at a time; ours = {AT_A_TIME} at a time"
    return [
        above("commands start", starts, unit="ms", floor=10.0, aim=3.0, note="bare = posix_spawn"),
        ratio("commands per second", rates, unit="1/s", aim=0.7, note=each),
        above("commands guard RSS", sizes[-1:], unit="MB", floor=2.0, aim=0.5, note="growth from begin to end"),
    ]


def bare_starts(count: int) -> list[float]:
    """Return for each start the milliseconds from the request until the program began."""
    waits = []
    for _ in range(count):
        ours, theirs = os.pipe()
        asked = time.time_ns()
        pid = os.posix_spawn(DATE, [DATE, "+%s%N"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 1)])
        os.close(theirs)
        with open(ours, "rb") as pipe:
            waits.append((int(pipe.read()) - asked) / 1e6)
        os.waitpid(pid, 0)
    return waits


async def _start(guard: GuardClient, plan: Plan) -> float:
    waits = []
    log = plan.folder / "start"
    for _ in range(plan.count(STARTS)):
        asked = time.time_ns()
        await _succeed(guard, Program((DATE, "+%s%N"), {}, "/", str(plan.folder), str(log)))
        text = "".join(record.text for record in decode(log.read_bytes().splitlines(keepends=True)))
        waits.append((int(text) - asked) / 1e6)
        log.unlink()
    return median(waits)


def _bare_rate(count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        pid = os.posix_spawn(TRUE, [TRUE], {})
        if os.waitpid(pid, 0)[1]:
            raise BenchFailed("commands: `true` failed")
    return count / (time.perf_counter() - began)


async def _many(guard: GuardClient, plan: Plan, count: int) -> float:
    async def some(number: int) -> None:
        program = Program((TRUE,), {}, "/", str(plan.folder), str(plan.folder / f"log{number}"))
        for _ in range(number, count, AT_A_TIME):
            await _succeed(guard, program)

    began = time.perf_counter()
    await asyncio.gather(*map(some, range(AT_A_TIME)))
    return count / (time.perf_counter() - began)


async def _succeed(guard: GuardClient, program: Program) -> None:
    end = await guard.run(program)
    if end.code != 0:
        raise BenchFailed(f"commands: {program.argv[0]}: {end.in_words()}")


def _megabytes(pid: int) -> float:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
