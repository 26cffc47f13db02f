"""The banner of `onthedot up`: store, node, what previous nodes left in the store, and when each job starts next."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onthedot
from onthedot.cli.terminal import in_words, reader_time, relative, table
from onthedot.clock import Micros
from onthedot.model.errors import StoreError
from onthedot.model.events import Event, JobPut, NodeJoined, TermWon
from onthedot.model.job import Job, JobRecord, Schedule, ability_of
from onthedot.model.run import RunState
from onthedot.observe.formats import count, iso, optional_iso, plain
from onthedot.operations.next_slots import look_ahead
from onthedot.rules.next_slots import next_of_each
from onthedot.scheduler import Scheduler
from onthedot.schedules import describe, due_of, next_after, schedule_id
from onthedot.stores.addresses import shown_url
from onthedot.stores.connect import open_store, sqlite_path
from onthedot.stores.protocol import Store
from onthedot.stores.queries import RunFilter, all_runs
from onthedot.stores.values import Node

_MOST_NAMED = 10  # of the jobs that the program cannot run


@dataclass(frozen=True)
class Banner:
    """What a node prints when it has started, as text or JSON."""

    url: str
    found: PreviousState | None
    jobs: list[Job]
    node_id: str
    term: int | None
    changes: dict[str, JobPut]
    unrunnable: list[Job]  # stored by another program; this one cannot run them
    now: Micros
    plans: bool = True
    works: bool = True
    more: tuple[tuple[str, str], ...] = ()  # further lines: a word and a text each

    @classmethod
    def of(
        cls, url: str, found: PreviousState | None, scheduler: Scheduler, events: Iterable[Event], now: Micros
    ) -> Banner:
        """Make the banner from the previous state and from the events of the start."""
        node_id, term, changes = "", None, {}
        for event in events:
            match event:
                case NodeJoined():
                    node_id = event.node_id
                case TermWon():
                    term = event.number
                case JobPut():
                    changes[event.job] = event
                case _:
                    pass
        stored = [record.job for record in found.jobs] if found else []
        plans, works = scheduler.settings.plans, scheduler.settings.works
        unrunnable = [job for job in stored if works and scheduler.registry.unknown([job])]
        jobs = list(scheduler.jobs.values())
        return cls(url, found, jobs, node_id, term, changes, unrunnable, now, plans, works)

    @staticmethod
    def is_told(event: Event) -> bool:
        """Return whether the banner already shows this event."""
        return isinstance(event, NodeJoined | TermWon | JobPut)

    # ── for people ───────────────────────────────────────────────────────────────────────────────────────────

    def in_words(self) -> list[str]:
        """Return the lines of the banner, one fact each."""
        facts = [
            ("onthedot", onthedot.__version__),
            ("store", self._store()),
            ("node", f"{plain(self.node_id)}, {self._role()}"),
            *self.more,
        ]
        if self.found is not None:
            first, *rest = self.found.in_words()
            facts += [("found", first), *(("", line) for line in rest)]
        facts += [("jobs" if not number else "", line) for number, line in enumerate(self._job_lines())]
        planned = {put.job: put.planned for put in self.changes.values() if put.planned}
        if planned:
            facts.append(("planned", f"{count(sum(planned.values()), 'run')} of {count(len(planned), 'job')}"))
        facts += [("replaced", line) for line in self._replaced()]
        facts += [("warning", line) for line in self._warnings()]
        return [*(f"{name:<9} {text}" for name, text in facts), "Ctrl-C drains and stops; a second one stops now", ""]

    def _store(self) -> str:
        path = sqlite_path(self.url)
        if path is None:
            gone = " (gone when this process ends)" if self.url.startswith("memory:") else ""
            return f"{plain(shown_url(self.url))}{gone}"
        return f"{plain(str(Path.cwd() / path))}{'' if self.found else ' (new)'}"

    def _role(self) -> str:
        if not self.plans:
            return "works, and does not plan"
        without = "" if self.works else "; it executes nothing"
        if self.term is not None:
            return f"leads (term {self.term}){without}"
        return f"follows: another node has the term; this one takes over when that ends{without}"

    def _job_lines(self) -> list[str]:
        rows = [
            [job.name if not number else "", in_words(schedule), self._next(job, schedule), self._change(job)]
            for job in self.jobs
            for number, schedule in enumerate(job.schedules)
        ]
        return table([""] * 4, rows).split("\n")[1:]

    def _is_paused(self, job: Job) -> bool:
        put = self.changes.get(job.name)
        return put is not None and put.paused

    def _next(self, job: Job, schedule: Schedule) -> str:
        if self._is_paused(job):
            return "paused"
        at = self._next_at(job, schedule)
        if at is None:
            return "never again"
        return f"next {reader_time(at, exact=False)}, {relative(at, self.now)}"

    def _next_at(self, job: Job, schedule: Schedule) -> Micros | None:
        """Return when a job starts next: from the store, which knows skipped and moved starts; else from the
        schedule."""
        key = (job.namespace, job.name, schedule_id(schedule))
        if self.found is not None and self.found.next.get(key, self.now) > self.now:
            return self.found.next[key]
        slot = next_after(schedule, self.now, origin=self.now)
        return None if slot is None else due_of(job, schedule)(slot)

    def _change(self, job: Job) -> str:
        put = self.changes.get(job.name)
        if put is None or put.change == "unchanged":
            return ""
        return "new" if put.change == "created" else f"changed: revision {put.revision}"

    def _replaced(self) -> Iterator[str]:
        """Return a line about stored jobs that this start changed: somebody may have edited them meanwhile."""
        names = [plain(put.job) for put in self.changes.values() if put.change == "changed"]
        if names:
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            yield f"the stored definition of {', '.join(names[:_MOST_NAMED])}{more}, by that of this program"

    def _warnings(self) -> Iterator[str]:
        """Return lines about jobs that this program cannot run: the first ten by name, then how many more."""
        yield from map(self._unrunnable, self.unrunnable[:_MOST_NAMED])
        if len(self.unrunnable) > _MOST_NAMED:
            others = count(len(self.unrunnable) - _MOST_NAMED, "other stored job")
            yield f"{others} cannot be done by this program either: 'onthedot jobs' lists them"
        if self.works and self.found is not None and self.found.more_jobs:
            yield f"only the first {len(self.found.jobs)} stored jobs were compared with what this program can do"

    def _unrunnable(self, job: Job) -> str:
        return (
            f"stored job {plain(job.name)!r} needs {plain(ability_of(job))!r}, which this program does not have: "
            "its runs wait for a program that has it"
        )

    # ── for machines ─────────────────────────────────────────────────────────────────────────────────────────

    def as_json(self) -> str:
        """Return the banner as one JSON object on one line."""
        return json.dumps(
            {
                "event": "Opening",
                "at": iso(self.now),
                "version": onthedot.__version__,
                "store": shown_url(self.url),
                "node_id": self.node_id,
                "leads": self.term is not None,
                "found": None if self.found is None else self.found.as_json(),
                "jobs": [self._job_as_json(job) for job in self.jobs],
                "unrunnable": [job.name for job in self.unrunnable],
                **dict(self.more),
            }
        )

    def _job_as_json(self, job: Job) -> dict[str, Any]:
        paused = self._is_paused(job)
        upcoming = [] if paused else [self._next_at(job, schedule) for schedule in job.schedules]
        put = self.changes.get(job.name)
        return {
            "job": job.name,
            "schedules": [describe(schedule) for schedule in job.schedules],
            "next_at": optional_iso(min((at for at in upcoming if at is not None), default=None)),
            "paused": paused,
            "change": None if put is None else put.change,
            "revision": None if put is None else put.revision,
        }


# ── what previous nodes left in the store ────────────────────────────────────────────────────────────────────────────


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
    more_jobs: bool = False  # the store has more jobs, which were not read
    waiting: int = 0
    overdue: int = 0
    running: int = 0
    nodes: list[Node] = field(default_factory=list)  # the last one, and others whose lease has not ended
    next: dict[tuple[str, str, str], Micros] = field(default_factory=dict)  # of namespace, job, schedule id

    def as_json(self) -> dict[str, Any]:
        """Return the state as plain data for JSON."""
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
        """Return lines for people: what is stored, then how each previous node ended."""
        least = "at least " if self.overdue >= _MOST_RUNS else ""
        overdue = f" ({least}{self.overdue} of them due already)" if self.overdue else ""
        running = f", {self.running} running" if self.running else ""
        more = "more than " if self.more_jobs else ""
        there = f"{more}{count(len(self.jobs), 'job')}, {count(self.waiting, 'run')} waiting{overdue}{running}"
        return [there, *(_node_in_words(node, self.now) for node in self.nodes)]


async def read_previous_state(url: str, now: Micros, jobs: Iterable[Job] = ()) -> PreviousState | None:
    """Read the store, and when these jobs start next. Return None if there is no store yet: the function creates
    none."""
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
    """Return whether the process of a node on this machine is gone. This is known before the node's lease ends."""
    if node.host != socket.gethostname() or node.pid <= 0:
        return False
    try:
        os.kill(node.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return node.pid == os.getpid()  # this process has the number that the dead one had
