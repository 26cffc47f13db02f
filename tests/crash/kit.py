"""Starts victim processes, kills them, and reads the evidence that they leave."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onthedot.fault_points import VARIABLE
from onthedot.model.run import AttemptRecord, RunRecord, SkipRecord
from onthedot.model.window import ScheduleState
from onthedot.stores.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0  # seconds that a victim may take for what it was started for


class Victims:
    """One database, one journal, and a series of processes that are killed while they use them."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "victim.db"
        self.journal = folder / "journal.jsonl"
        self._boot = 0

    def start(self, *, crash_point: str = "") -> subprocess.Popen[str]:
        self._boot += 1
        command = [sys.executable, "-m", "tests.crash.victim", str(self.database), str(self.journal), str(self._boot)]
        environment = {**os.environ, VARIABLE: crash_point}
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)

    def crash_at(self, point: str) -> int:
        """Run a victim until it kills itself at a named point. Returns its exit code."""
        with self.start(crash_point=point) as victim:
            if point.startswith("stop."):
                wait_for_line(victim, "ready")
                victim.send_signal(signal.SIGTERM)
            try:
                return wait_for_end(victim)
            except AssertionError as error:
                raise AssertionError(f"{point} was not reached: {error}") from None

    def kill_after(self, seconds: float) -> int:
        """Run a victim, and kill it this many seconds after it is ready."""
        with self.start() as victim:
            wait_for_line(victim, "ready")
            time.sleep(seconds)  # the test itself: the seed decides when the kill comes
            victim.send_signal(signal.SIGKILL)
            return wait_for_end(victim)

    def settle(self, *, rounds: int = 400) -> None:
        """Run a last victim until it has caught up, then stop it with SIGTERM."""
        with self.start() as victim:
            wait_for_line(victim, "ready")
            target = time.time()
            for _ in range(rounds):
                if self._behind() < 0.05 and time.time() - target > 2.5:
                    break
                time.sleep(0.05)
            # First stop the submits: nobody would execute an errand submitted after SIGTERM.
            victim.send_signal(signal.SIGUSR1)
            wait_for_line(victim, "quiet")
            give_up_at = time.monotonic() + PATIENCE
            while self._errands():
                assert time.monotonic() < give_up_at, "the last errands did not finish in time"
                time.sleep(0.05)
            victim.send_signal(signal.SIGTERM)
            wait_for_line(victim, "stopped")
            assert wait_for_end(victim) == 0

    def _behind(self) -> float:
        """Returns by how many seconds the oldest live run is overdue."""
        oldest = self._ask("SELECT min(due_at) FROM runs")
        return 0.0 if oldest is None else time.time() - oldest / 1_000_000

    def _errands(self) -> int:
        """Returns how many submitted runs have not ended."""
        count = self._ask("SELECT count(*) FROM runs r JOIN jobs j ON j.id = r.job_id WHERE j.name = 'errand'")
        return count or 0

    def _ask(self, statement: str) -> int | None:
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=PATIENCE)
        try:
            [found] = connection.execute(statement).fetchone()
        finally:
            connection.close()
        answer: int | None = found
        return answer


def wait_for_line(victim: subprocess.Popen[str], wanted: str) -> None:
    assert victim.stdout is not None
    for line in victim.stdout:
        if line.strip() == wanted:
            return
    raise AssertionError(f"the victim ended with {victim.wait()} before it printed {wanted!r}")


def wait_for_end(victim: subprocess.Popen[str]) -> int:
    try:
        return victim.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        victim.kill()
        raise AssertionError(f"the victim was still alive after {PATIENCE:g} s: {victim.args!r}") from None


@dataclass
class Evidence:
    """What the journal and the store recorded."""

    starts: dict[int, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[int, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    acknowledged: list[int] = field(default_factory=list)
    runs: dict[int, RunRecord] = field(default_factory=dict)
    attempts: dict[int, list[AttemptRecord]] = field(default_factory=dict)
    skips: list[SkipRecord] = field(default_factory=list)
    schedules: dict[str, ScheduleState] = field(default_factory=dict)


async def gather_evidence(victims: Victims) -> Evidence:
    evidence = Evidence()
    for line in victims.journal.read_text().splitlines():
        entry = json.loads(line)
        match entry["event"]:
            case "start":
                evidence.starts[entry["run"]].append(entry)
            case "end":
                evidence.ends[entry["run"]].append(entry)
            case "acknowledged":
                evidence.acknowledged.append(entry["run"])
    store = await SqliteStore.open(victims.database)
    try:
        evidence.runs = {run.id: run for run in await store.queries.list_runs(limit=1_000_000)}
        evidence.attempts = {run_id: await store.queries.list_attempts(run_id) for run_id in evidence.runs}
        evidence.skips = await store.queries.list_skips(limit=1_000_000)
        for record in await store.queries.list_jobs():
            for state in await store.queries.schedules_of(record.id):
                evidence.schedules[record.job.name] = state
    finally:
        await store.close()
    return evidence
