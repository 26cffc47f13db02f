"""Measures the cost of `import onthedot` above `import asyncio`, and of `onthedot --help` above an empty Python.

It measures CPU time (user and system) of child processes, which a busy machine disturbs little. Each figure of a round
is the median of several starts, with compiled files. asyncio is imported on both sides, because onthedot loads it only
when it is needed. For the same reason there are two more lines: names that define a job, and, without a floor,
`Scheduler`, which every embedding program uses.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from statistics import median

from bench.nodes import PATIENCE
from bench.results import BenchFailed, Result, above
from bench.rounds import Plan, alternate

STARTS = 5

IMPORT_ASYNCIO = ("-c", "import asyncio")
IMPORT_OURS = ("-c", "import asyncio, onthedot")
IMPORT_JOB = ("-c", "import asyncio, onthedot; onthedot.Job, onthedot.Retry, onthedot.every, onthedot.Settings")
IMPORT_SCHEDULER = ("-c", "import asyncio, onthedot; onthedot.Scheduler")
EMPTY = ("-c", "pass")
HELP = ("-m", "onthedot", "--help")


def run(plan: Plan) -> list[Result]:
    """Measure the library and the command line."""
    starts = plan.count(STARTS)
    for arguments in (IMPORT_ASYNCIO, IMPORT_OURS, IMPORT_JOB, IMPORT_SCHEDULER, EMPTY, HELP):
        _start(arguments)  # compiles all modules
    imports = alternate(plan, lambda _: _cpu(IMPORT_ASYNCIO, starts), lambda _: _cpu(IMPORT_OURS, starts))
    defining = alternate(plan, lambda _: _cpu(IMPORT_ASYNCIO, starts), lambda _: _cpu(IMPORT_JOB, starts))
    used = alternate(plan, lambda _: _cpu(IMPORT_ASYNCIO, starts), lambda _: _cpu(IMPORT_SCHEDULER, starts))
    helps = alternate(plan, lambda _: _cpu(EMPTY, starts), lambda _: _cpu(HELP, starts))
    return [
        above("import onthedot", imports, unit="ms", floor=20.0, aim=10.0, note="bare = import asyncio"),
        above("onthedot.Job, every", defining, unit="ms", floor=80.0, aim=40.0, note="bare = import asyncio"),
        above("onthedot.Scheduler", used, unit="ms", aim=80.0, note="bare = import asyncio"),
        above("onthedot --help", helps, unit="ms", floor=250.0, aim=150.0, note="bare = python -c pass"),
    ]


def _cpu(arguments: tuple[str, ...], starts: int) -> float:
    return median(_start(arguments) for _ in range(starts))


def _start(arguments: tuple[str, ...]) -> float:
    """Start a Python with these arguments, and return its CPU time in milliseconds."""
    before = _children()
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise BenchFailed(f"imports: {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return (_children() - before) * 1_000


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
