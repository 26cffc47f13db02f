"""Measures drains by crews on a server: as `bench.drain`, with one or two worker processes on each side.

The queue is filled once, and every round drains a copy of that database. The note has the CPU time per run, for workers
and server separately, because a busy machine disturbs it less than rates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from statistics import median
from typing import Any, NamedTuple, Protocol

from bench import crew
from bench.crew import CrewResult
from bench.nodes import check_executions, check_history, check_never_fenced, open_store
from bench.results import Result, ratio
from bench.rounds import Plan, alternate

RUNS = 20_000  # for each process
AIM = 0.6

Fill = Callable[[str, int, int], Coroutine[Any, Any, list[int]]]
"""Fills the queue of the store at a URL with runs (count, seed), disconnects, and returns their ids."""


class Server(crew.Server, Protocol):
    """The methods of both servers of the benches."""

    def create(self, template: str | None = None) -> str:
        """Make a store, empty or as a copy of another one, and return its URL."""
        ...

    def drop(self, url: str) -> None:
        """Remove the store at this URL."""
        ...


class Kind(NamedTuple):
    """The differences between stores."""

    store: str
    filled: Fill
    bare_registers: bool  # the bare loop registers a node


def compare_drains(plan: Plan, server: Server, kind: Kind, processes: int) -> Result:
    """Measure ours and bare with this number of processes."""
    what = name_of(kind, processes)
    full = server.create()
    run_ids = asyncio.run(kind.filled(full, plan.count(RUNS) * processes, plan.seed))
    pairs = alternate(
        plan,
        lambda number: drain(f"{what}, bare", server, kind, full, run_ids, processes, plan.seed + number, bare=True),
        lambda number: drain(what, server, kind, full, run_ids, processes, plan.seed + number),
    )
    note = f"CPU µs a run, workers + server: {cpu([o for _, o in pairs])}, bare {cpu([b for b, _ in pairs])}"
    return ratio(what, [(b.rate, o.rate) for b, o in pairs], unit="runs/s", aim=AIM, note=note)


def name_of(kind: Kind, processes: int) -> str:
    return f"drain {kind.store}, {processes} process{'es' if processes > 1 else ''}"


def cpu(all_done: list[CrewResult]) -> str:
    """Return the CPU time per run as "workers + server", median over rounds."""
    return f"{median(done.worker_cpu for done in all_done):.0f} + {median(done.server_cpu for done in all_done):.0f}"


def drain(
    what: str, server: Server, kind: Kind, full: str, run_ids: list[int], processes: int, seed: int, *,
    bare: bool = False,
) -> CrewResult:  # fmt: skip
    """Let a crew drain a copy, and check that each run was executed once and is in history once."""
    url = server.create(full)
    done = crew.drain(what, server, crew.ours("bare" if bare else "ours", url, seed), processes, len(run_ids))
    check_executions(what, run_ids, done.executed)
    asyncio.run(_check(what, url, len(run_ids), 0 if bare and not kind.bare_registers else processes))
    server.drop(url)
    return done


async def _check(what: str, url: str, count: int, nodes: int) -> None:
    store = await open_store(url)
    await check_history(what, store, count)
    await check_never_fenced(what, store, nodes)
    await store.close()
