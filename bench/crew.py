"""Lets several processes drain one database together, and stops them when all runs have been executed.

The measured time is from "go" until the last process has printed "done", after it has written all its verdicts. Opening
and closing connections does not count. `bench.crew_protocol` is the side of the processes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.results import BenchFailed

ROOT = Path(__file__).parents[1]
PATIENCE = 120.0

_LONGEST_LINE = 1 << 24


class Server(Protocol):
    """The server with the database."""

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used until now."""


@dataclass(frozen=True, slots=True)
class CrewResult:
    """The result of a crew. CPU is in microseconds per run."""

    rate: float  # runs per second
    executed: list[int]
    worker_cpu: float
    server_cpu: float

    @property
    def cpu(self) -> str:
        return f"{self.worker_cpu:.0f} + {self.server_cpu:.0f}"


def drain(what: str, server: Server, command: Sequence[str], processes: int, count: int) -> CrewResult:
    """Let processes of this command drain `count` runs."""
    return asyncio.run(_drain(what, server, command, processes, count))


def ours(kind: str, url: str, seed: int) -> list[str]:
    """Return the command for a process of `bench.crew_node`."""
    return [sys.executable, "-m", "bench.crew_node", kind, url, str(seed)]


async def _drain(what: str, server: Server, command: Sequence[str], processes: int, count: int) -> CrewResult:
    crew = [
        await asyncio.create_subprocess_exec(
            *command, str(number), cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=_LONGEST_LINE
        )
        for number in range(processes)
    ]
    try:
        async with asyncio.timeout(PATIENCE):
            return await _work(crew, server, count)
    except TimeoutError:
        raise BenchFailed(f"{what}: not done after {PATIENCE:.0f} s") from None
    except _EndedEarly as error:
        raise BenchFailed(f"{what}: {error}") from None
    finally:
        for process in crew:
            if process.returncode is None:
                process.kill()
            await process.wait()


class _EndedEarly(Exception):
    """A process ended before its work did."""


async def _work(crew: Sequence[Process], server: Server, count: int) -> CrewResult:
    for process in crew:
        await _line(process)
    counts = [0] * len(crew)
    all_executed = asyncio.Event()
    server_cpu = server.cpu_seconds()
    began = time.perf_counter()
    _send(crew, "go")

    async def follow(number: int) -> None:
        while (line := await _line(crew[number])) != "done":
            counts[number] = int(line)
            if sum(counts) >= count:
                all_executed.set()

    following = [asyncio.create_task(follow(number)) for number in range(len(crew))]
    stopping = asyncio.create_task(all_executed.wait())
    await asyncio.wait({stopping, *following}, return_when=asyncio.FIRST_COMPLETED)
    _send(crew, "stop")
    await asyncio.gather(*following)
    seconds = time.perf_counter() - began
    server_cpu = server.cpu_seconds() - server_cpu
    stopping.cancel()
    reports = [json.loads(await _line(process)) for process in crew]
    executed = [run_id for one in reports for run_id in one["run_ids"]]
    used = sum(one["cpu_seconds"] for one in reports)
    return CrewResult(count / seconds, executed, used / count * 1e6, server_cpu / count * 1e6)


def _send(crew: Sequence[Process], word: str) -> None:
    for process in crew:
        assert process.stdin is not None
        process.stdin.write(f"{word}\n".encode())


async def _line(process: Process) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    line = (await process.stdout.readline()).decode().strip()
    if not line:
        raise _EndedEarly(f"a process ended early: {(await process.stderr.read()).decode().strip()[-800:]}")
    return line
