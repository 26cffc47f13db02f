"""The banner of `onthedot up`: store, node, what a previous node left, and when each job starts next."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onthedot
from onthedot.cli.node_process.previous_state import PreviousState
from onthedot.cli.terminal import table
from onthedot.cli.words import in_words, reader_time, relative
from onthedot.clock import Micros
from onthedot.model.events import Event, JobPut, NodeJoined, TermWon
from onthedot.model.job import Job, Schedule, ability_of
from onthedot.observe.formats import count, iso, optional_iso, plain
from onthedot.scheduler import Scheduler
from onthedot.schedules import describe, due_of, next_after, schedule_id
from onthedot.stores.addresses import shown_url
from onthedot.stores.connect import sqlite_path

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
        """Make it from the previous state and from the events of the start."""
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
        """Whether the banner already shows this event."""
        return isinstance(event, NodeJoined | TermWon | JobPut)

    # ── for people ───────────────────────────────────────────────────────────────────────────────────────────

    def in_words(self) -> list[str]:
        """The lines, one fact each."""
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
        """When it starts next: from the store, which knows skipped and moved starts; else from the schedule."""
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

    def _warnings(self) -> Iterator[str]:
        """Jobs that this program cannot run: the first ten by name, then how many more."""
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
        """The same as one JSON object on one line."""
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
