"""`onthedot up` as a process: it is watched through its output, stopped by signals, killed, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import onthedot as otd
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual

Call = Callable[..., Result]

pytestmark = pytest.mark.slow


class Up:
    """A running `onthedot up`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.seen: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "onthedot", "up", *arguments],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "TZ": "UTC"},
        )  # fmt: skip

    def until(self, *words: str) -> str:
        """Read on to the first line that has all these words."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.seen.append(line.rstrip("\n"))
            if all(word in line for word in words):
                return self.seen[-1]
        raise AssertionError(f"it ended without a line with {words}; it said:\n" + "\n".join(self.seen))

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Read to the end; the exit code."""
        assert self._process.stdout is not None
        self.seen += [line.rstrip("\n") for line in self._process.stdout]
        return self._process.wait()

    def has(self, *words: str) -> bool:
        return any(all(word in line for word in words) for line in self.seen)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextmanager
def up(folder: Path, *arguments: str) -> Iterator[Up]:
    process = Up(folder, *arguments)
    try:
        yield process
    finally:
        process.kill()


def test_it_says_what_it_does_and_ends_by_itself(tmp_path: Path, call: Call):
    with up(tmp_path, "--node-id", "one", "--for", "6s") as node:
        assert node.until("store").endswith(f"{tmp_path}/onthedot.db (new)")
        node.until("node", "one, leads (term 1)")
        node.until("jobs", "heartbeat", "every 5s", "next")
        node.until("planned", "jobs")
        node.until("started", "heartbeat", "run", "ms late")
        reading = call("runs", "--job", "heartbeat", "--db", tmp_path / "onthedot.db", "--json")
        assert reading.exit_code == 0, "reading works while it runs"
        assert json.loads(reading.output)
        node.until("finished", "heartbeat", "succeeded in")
        node.until("draining")
        assert node.end() == 0
        assert node.has("left", "node one")
        assert not any("\x1b" in line for line in node.seen), "no colours without a terminal"


def test_json_lines(tmp_path: Path):
    with up(tmp_path, "--json", "--for", "6s") as node:
        assert node.end() == 0
    events: list[dict[str, Any]] = [json.loads(line) for line in node.seen]
    assert events[0]["event"] == "Opening"
    assert events[-1]["event"] == "NodeLeft"
    [started, *_] = [e for e in events if e["event"] == "AttemptStarted" and e["job"] == "heartbeat"]
    [ended, *_] = [e for e in events if e["event"] == "AttemptEnded" and e["job"] == "heartbeat"]
    assert started["late_ms"] >= 0
    assert (ended["run_id"], ended["state"]) == (started["run_id"], "succeeded")


def test_killed_started_again_cut_short_and_drained(tmp_path: Path):
    """One nap: its first node is killed, its second is told twice to stop, and its third drains."""
    with up(tmp_path, "--node-id", "one", "--lease", "2s") as first:
        run = first.until("started", "nap").partition("run ")[2].split()[0]
        first.kill()
    with up(tmp_path, "--node-id", "two", "--lease", "2s") as second:
        second.until("found", "4 jobs", "running")
        second.until("node one vanished (process")
        second.until("recovered", "nap", f"run {run} ", "its node is gone; runs again now (recovery 1 of 3)")
        second.until("started", "nap", f"run {run} ", "recovery 1 of 3")
        second.signal(signal.SIGTERM)
        second.until("draining", "waiting for", "another Ctrl-C stops now")
        second.signal(signal.SIGTERM)
        second.until("cut short", "nap", f"run {run} ")
        assert second.end() == 130
        assert second.has("left", "node two")
    with up(tmp_path, "--node-id", "three", "--lease", "2s") as third:
        third.until("node two stopped in order")
        third.until("started", "nap", f"run {run} ")
        third.signal(signal.SIGINT)
        third.until("draining", "waiting for")
        third.until("finished", "nap", f"run {run} ", "succeeded in 2.0 s")
        assert third.end() == 0


def test_an_attempt_that_outlasts_the_grace_is_exit_code_1(tmp_path: Path):
    with up(tmp_path, "--grace", "100ms") as node:
        node.until("started", "nap")
        node.signal(signal.SIGINT)
        node.until("cut short", "nap")
        assert node.end() == 1
        assert node.has("Error: expected every attempt to end within", "gave up on 1 attempt (nap); raise --grace")


def test_after_an_outage_it_says_what_is_caught_up_and_what_is_not(tmp_path: Path):
    path = tmp_path / "onthedot.db"
    died = datetime.fromtimestamp(time.time(), UTC) - timedelta(minutes=10)
    run_virtual(_live_and_die(path, died))
    with up(tmp_path) as node:
        node.until("found", "2 jobs")
        node.until("vanished: its lease ended at")
        node.until("warning", "stored job 'gone' needs 'call:gone'")
        node.until("missed", "rare", "too late to run: skipped")
        node.until("caught up", "rare", "due", "3 m", "late")
        node.signal(signal.SIGINT)
        assert node.end() == 0


async def _live_and_die(path: Path, start: datetime) -> None:
    """Ten minutes ago a node planned a slot, and died before it came; the next one came three minutes ago."""
    sched = otd.Scheduler("memory:")
    rarely = otd.every("400s", anchor=start + timedelta(seconds=5))
    sched.add(otd.Job(name="rare", task=otd.Sleep(duration=timedelta(milliseconds=1)), schedules=(rarely,)))

    @sched.job
    async def gone() -> None: ...

    harness = Harness(start, store=lambda clock: SqliteStore.open(path, clock=clock, inline=True))
    await harness.start(sched)
    await harness.advance("1s")
    await harness.crash()
    await harness.store.close()


def test_a_reader_that_goes_away_ends_it_in_order(tmp_path: Path):
    node = subprocess.Popen(
        [sys.executable, "-m", "onthedot", "up"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert node.stdout is not None
    assert node.stderr is not None
    try:
        node.stdout.readline()
        node.stdout.close()
        assert node.wait(30) == 1
        assert "Traceback" not in node.stderr.read()
    finally:
        node.kill()
        node.wait()
        node.stderr.close()
