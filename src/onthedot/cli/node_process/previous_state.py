"""Reads what a store held before this node started, for the banner: jobs, waiting runs, previous nodes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from onthedot.cli.words import reader_time, relative
from onthedot.clock import Micros
from onthedot.model.errors import StoreError
from onthedot.model.job import Job, JobRecord
from onthedot.model.run import RunState
from onthedot.observe.formats import count, iso, optional_iso, plain
from onthedot.operations.next_slots import look_ahead
from onthedot.rules.next_slots import next_of_each
from onthedot.stores.connect import open_store, sqlite_path
from onthedot.stores.protocol import Store
from onthedot.stores.queries import RunFilter, all_runs
from onthedot.stores.values import Node

_MOST_RUNS = 1_000
_MOST_AHEAD = 200
"""For how many jobs it looks up skipped and moved starts."""
_MOST_JOBS = 5_000
"""How many jobs it reads: 0.2 s on SQLite. If there are more, the banner says so."""


@dataclass(frozen=True)
class PreviousState:
    """A store as the previous nodes left it."""

    now: Micros
    jobs: list[JobRecord] = field(default_factory=list)
    more_jobs: bool = False  # there are more that were not read
    waiting: int = 0
    overdue: int = 0
    running: int = 0
    nodes: list[Node] = field(default_factory=list)  # the last one, and others whose lease has not ended
    next: dict[tuple[str, str, str], Micros] = field(default_factory=dict)  # of namespace, job, schedule id

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "jobs": len(self.jobs),
            "more_jobs": self.more_jobs,
            "runs_waiting": self.waiting,
            "runs_overdue": self.overdue,
            "runs_running": self.running,
            "nodes": [
                {
                    "node_id": node.id,
                    "incarnation": node.incarnation,
                    "registered_at": iso(node.registered_at),
                    "lease_until": iso(node.lease_until),
                    "left_at": optional_iso(node.left_at),
                }
                for node in self.nodes
            ],
        }

    def in_words(self) -> list[str]:
        """Lines for people: what is stored, then how each previous node ended."""
        least = "at least " if self.overdue >= _MOST_RUNS else ""
        overdue = f" ({least}{self.overdue} of them due already)" if self.overdue else ""
        running = f", {self.running} running" if self.running else ""
        more = "more than " if self.more_jobs else ""
        there = f"{more}{count(len(self.jobs), 'job')}, {count(self.waiting, 'run')} waiting{overdue}{running}"
        return [there, *(_node_in_words(node, self.now) for node in self.nodes)]


async def read_previous_state(url: str, now: Micros, jobs: Iterable[Job] = ()) -> PreviousState | None:
    """Read the store, and when these jobs start next. None if there is no store yet; it creates none."""
    path = sqlite_path(url)
    if path is None or not path.exists():
        return None
    try:
        store = await open_store(url)
        try:
            return await _read(store, now, {(job.namespace, job.name) for job in jobs})
        finally:
            await store.close()
    except StoreError:
        return None  # the engine opens it next, and reports what is wrong


async def _read(store: Store, now: Micros, wanted: set[tuple[str, str]]) -> PreviousState:
    counts = await store.queries.count_runs()
    overdue = RunFilter(states=frozenset({RunState.SCHEDULED, RunState.RESERVED}), until=now)
    nodes, jobs = await store.queries.list_nodes(), await store.queries.list_jobs(limit=_MOST_JOBS + 1)
    mine = [one for one in jobs if (one.job.namespace, one.job.name) in wanted][:_MOST_AHEAD]
    return PreviousState(
        now,
        next={
            (one.job.namespace, one.job.name, name): start.due_at
            for one in mine
            for name, start in next_of_each(await look_ahead(store, one.id, now), now).items()
        },
        jobs=jobs[:_MOST_JOBS],
        more_jobs=len(jobs) > _MOST_JOBS,
        waiting=counts.get(RunState.SCHEDULED, 0) + counts.get(RunState.RESERVED, 0),
        overdue=len(await all_runs(store.queries, overdue, _MOST_RUNS)),
        running=counts.get(RunState.RUNNING, 0),
        nodes=nodes[:1] + [node for node in nodes[1:] if _may_live(node, now)],
    )


def _may_live(node: Node, now: Micros) -> bool:
    return node.left_at is None and node.lease_until > now


def _node_in_words(node: Node, now: Micros) -> str:
    name = f"node {plain(node.id)}"
    if node.left_at is not None:
        return f"{name} stopped in order at {reader_time(node.left_at, exact=False)}, {relative(node.left_at, now)}"
    ends = f"{reader_time(node.lease_until, exact=False)}, {relative(node.lease_until, now)}"
    if not _may_live(node, now):
        return f"{name} vanished: its lease ended at {ends}"
    if _process_is_gone(node):
        return f"{name} vanished (process {node.pid} is gone): what it ran is recovered when its lease ends, at {ends}"
    return f"{name} is running too (process {node.pid} on {plain(node.host)})"


def _process_is_gone(node: Node) -> bool:
    """Whether the process of a node on this machine is gone: known before its lease ends."""
    if node.host != socket.gethostname() or node.pid <= 0:
        return False
    try:
        os.kill(node.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return node.pid == os.getpid()  # this process has got the number of the dead one
