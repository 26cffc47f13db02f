"""The evidence of a chaos test: the journal of the handlers, the content of the store, and the faults."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from onthedot.clock import SECOND
from onthedot.model.job import JobRecord
from onthedot.model.run import AttemptRecord, RunRecord, SkipRecord
from onthedot.settings import Settings
from onthedot.stores.connect import open_store
from onthedot_verify.checker import Violation, check
from tests.processes.history import RULES, events_of
from tests.processes.kit import Fault

EVERYTHING = 1_000_000
LAG = SECOND  # how far a node may be behind the store's clock, on a busy machine and a slow connection


class Start(NamedTuple):
    """The start of one execution, as its handler noted it."""

    node: str
    job: str
    run: int
    attempt: int
    fence: int
    slot: int
    at: int

    @property
    def late(self) -> int:
        return self.at - self.slot


class Notes:
    """The journal, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.starts: list[Start] = []
        self.ends: dict[tuple[int, int], int] = {}  # (run, fence): when the handler completed
        self.stops: dict[tuple[int, int], int] = {}  # (run, fence): when it was cancelled
        self.acknowledged: dict[int, int] = {}  # run: when its submit had returned
        self.done: set[tuple[str, int]] = set()  # (job, slot) whose handler completed

    def read(self) -> Notes:
        """Read new lines. An incomplete last line is left for the next call."""
        if not self._path.exists():
            return self
        with self._path.open("rb") as journal:
            journal.seek(self._read)
            text = journal.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._note(json.loads(line))
        return self

    def _note(self, entry: dict[str, int | str]) -> None:
        event, at = entry.pop("event"), int(entry["at"])
        key = (int(entry["run"]), int(entry.get("fence", 0)))
        if event == "start":
            self.starts.append(Start(**entry))  # type: ignore[arg-type]
        elif event == "end":
            self.ends[key] = at
            self.done.add((str(entry["job"]), int(entry["slot"])))
        elif event == "stopped":
            self.stops[key] = at
        elif event == "acknowledged":
            self.acknowledged[key[0]] = at


@dataclass
class Evidence:
    """Everything that the verdicts and the timeline need."""

    notes: Notes
    faults: list[Fault]
    nodes: list[str]
    began: int  # when the last node was ready
    until: int  # the test waited for all slots up to this instant
    terms: list[tuple[str, int, int]] = field(default_factory=list)  # (node, instant, number of the term)
    jobs: list[JobRecord] = field(default_factory=list)
    runs: dict[int, RunRecord] = field(default_factory=dict)
    attempts: dict[int, list[AttemptRecord]] = field(default_factory=dict)
    skips: list[SkipRecord] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    async def gather(self, url: str, journal: Path, settings: Settings) -> Evidence:
        """Read the store, and let the checker check the whole history."""
        store = await open_store(url)
        try:
            self.jobs = await store.queries.list_jobs()
            self.runs = {run.id: run for run in await store.queries.list_runs(limit=EVERYTHING)}
            self.attempts = {run: await store.queries.list_attempts(run) for run in self.runs}
            self.skips = await store.queries.list_skips(limit=EVERYTHING)
        finally:
            await store.close()
        self.notes.read()
        events = events_of(settings, self.jobs, self.runs.values(), self.attempts, journal, lag=LAG)
        self.violations = check(events, only=RULES)
        return self
