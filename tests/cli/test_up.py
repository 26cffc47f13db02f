"""`onthedot up` as a process and on a real terminal: it is watched, stopped by signals, killed and started again."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual
from tests.cli.conftest import Call
from tests.cli.screen import Screen
from tests.cli.started import napping, started, wake

pytestmark = pytest.mark.slow


def test_it_says_what_it_does_and_ends_by_itself(tmp_path: Path, call: Call):
    with started(tmp_path, "up", "--node-id", "one", "--for", "9s") as node:
        assert node.until("store").endswith(f"{tmp_path}/onthedot.db (new)")
        node.until("node", "one, leads (term 1)")
        node.until("jobs", "heartbeat", "every 5s", "next")
        node.until("planned", "jobs")
        node.until("started", "heartbeat", "run", " late")
        reading = call("runs", "--job", "heartbeat", "--db", tmp_path / "onthedot.db", "--json")
        assert reading.exit_code == 0, "reading works while it runs"
        assert json.loads(reading.output)
        node.until("finished", "heartbeat", "succeeded in")
        node.until("draining")
        assert node.end() == 0
        assert node.has("left", "node one")
        assert not any("\x1b" in line for line in node.seen), "no colours without a terminal"


def test_json_lines(tmp_path: Path):
    with started(tmp_path, "up", "--json", "--for", "9s") as node:
        assert node.end() == 0
    events: list[dict[str, Any]] = [json.loads(line) for line in node.seen]
    assert events[0]["event"] == "Opening"
    assert events[-1]["event"] == "NodeLeft"
    [began, *_] = [e for e in events if e["event"] == "AttemptStarted" and e["job"] == "heartbeat"]
    [ended, *_] = [e for e in events if e["event"] == "AttemptEnded" and e["job"] == "heartbeat"]
    assert began["late_ms"] >= 0
    assert (ended["run_id"], ended["state"]) == (began["run_id"], "succeeded")


def test_killed_started_again_cut_short_and_drained(tmp_path: Path):
    """One nap: its first node is killed, its second is told twice to stop, and its third drains."""
    program = napping(tmp_path)
    with started(tmp_path, "up", program, "--node-id", "one", "--lease", "6s") as first:
        run = first.until("started", "nap").partition("run ")[2].split()[0]
        first.kill()
    with started(tmp_path, "up", program, "--node-id", "two") as second:
        second.until("found", "2 jobs", "running")
        second.until("node one vanished (process")
        second.until("recovered", "nap", f"run {run} ", "its node is gone; runs again now (recovery 1 of 3)")
        second.until("started", "nap", f"run {run} ", "recovery 1 of 3")
        second.signal(signal.SIGTERM)
        second.until("draining", "waiting for", "another Ctrl-C stops now")
        second.signal(signal.SIGTERM)
        second.until("cut short", "nap", f"run {run} ")
        assert second.end() == 130
        assert second.has("left", "node two")
    with started(tmp_path, "up", program, "--node-id", "three") as third:
        third.until("node two stopped in order")
        third.until("started", "nap", f"run {run} ")
        third.signal(signal.SIGINT)
        third.until("draining", "waiting for")
        wake(tmp_path)
        third.until("finished", "nap", f"run {run} ", "succeeded in")
        assert third.end() == 0


def test_an_attempt_that_outlasts_the_grace_is_exit_code_1(tmp_path: Path):
    with started(tmp_path, "up", napping(tmp_path), "--grace", "100ms") as node:
        node.until("started", "nap")
        node.signal(signal.SIGINT)
        node.until("cut short", "nap")
        assert node.end() == 1
        assert node.has("Error: expected every attempt to end within", "gave up on 1 attempt (nap); raise --grace")


def test_after_an_outage_it_says_what_is_caught_up_and_what_is_not(tmp_path: Path):
    path = tmp_path / "onthedot.db"
    died = datetime.fromtimestamp(time.time(), UTC) - timedelta(minutes=10)
    run_virtual(_live_and_die(path, died))
    with started(tmp_path, "up") as node:
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


PATIENCE = 40.0


class Terminal:
    """A pseudo-terminal with `onthedot up` in it."""

    def __init__(self, folder: Path, *arguments: str, rows: int, columns: int, term: str) -> None:
        self.screen = Screen()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "onthedot", "up", "--node-id", "one", *arguments],
            cwd=folder, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**os.environ, "TERM": term, "TZ": "UTC"},
        )  # fmt: skip
        os.close(slave)

    def until_shown(self, *words: str) -> None:
        """Read on until all of these are on the screen: a read may end in the middle of a picture."""
        self.until(lambda shown: all(word in shown for word in words))

    def until(self, found: Callable[[str], bool]) -> str:
        """Read on until the screen is so; what it shows then."""
        give_up_at = time.monotonic() + PATIENCE
        while not found(self.screen.text()):
            left = give_up_at - time.monotonic()
            assert left > 0, f"it did not come; the screen shows:\n{self.screen.text()}"
            if not self._read(left):
                assert found(self.screen.text()), f"it ended before; the screen shows:\n{self.screen.text()}"
        return self.screen.text()

    def _read(self, patience: float) -> bool:
        if not select.select([self._master], [], [], patience)[0]:
            return True
        try:
            some = os.read(self._master, 65_536)
        except OSError:  # Linux says so when the last writer has gone
            some = b""
        self.screen.feed(some.decode(errors="replace"))
        return bool(some)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read(PATIENCE):
            pass
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@contextmanager
def terminal(
    folder: Path, *arguments: str, rows: int = 30, columns: int = 100, term: str = "xterm-256color"
) -> Iterator[Terminal]:
    made = Terminal(folder, *arguments, rows=rows, columns=columns, term=term)
    try:
        yield made
    finally:
        made.close()


def test_it_shows_what_comes_runs_and_ended_and_drains_on_ctrl_c(tmp_path: Path):
    with terminal(tmp_path, napping(tmp_path)) as up:
        up.until_shown("onthedot  node one · leads (term 1) · onthedot.db")
        up.until_shown("running   nap", "next      ", "Ctrl-C drains and stops; a second one stops now")
        assert up.screen.cursor_hidden
        up.signal(signal.SIGINT)
        up.until_shown("draining: waits for nap run", "another Ctrl-C stops now")
        wake(tmp_path)
        assert up.end() == 0
    last = up.screen.text()
    assert "left       node one" in last
    assert "node one · " not in last, "the view is gone"
    assert "dead, 0 skipped; late p50" in " ".join(last.split()[-24:]), "and the counts stay, however wide they are"
    assert not up.screen.cursor_hidden


def test_it_shows_how_far_an_attempt_is(tmp_path: Path):
    with terminal(tmp_path) as up:
        picture = up.until(lambda shown: bool(with_progress(shown)))
        [row] = with_progress(picture)
        assert row.startswith(("running   flaky_import", "          flaky_import"))
        up.signal(signal.SIGINT)
        assert up.end() == 0


def with_progress(shown: str) -> list[str]:
    return [line for line in shown.split("\n") if " of 120" in line and "attempt 3" in line]


def test_a_second_ctrl_c_cuts_attempts_short_and_leaves_the_terminal_in_order(tmp_path: Path):
    with terminal(tmp_path, napping(tmp_path), rows=8, columns=60) as up:
        up.until_shown("started    nap")
        up.signal(signal.SIGINT)
        up.until_shown("draining")
        up.signal(signal.SIGINT)
        assert up.end() == 130
    assert "cut short  nap" in up.screen.text()
    assert not up.screen.cursor_hidden


@pytest.mark.parametrize(
    ("arguments", "term"), [(("--plain",), "xterm-256color"), ((), "dumb"), (("--json",), "xterm-256color")]
)
def test_plain_lines_where_they_are_asked_for_or_nothing_can_be_drawn(
    tmp_path: Path, arguments: tuple[str, ...], term: str
):
    with terminal(tmp_path, *arguments, "--for", "1s", term=term) as up:
        assert up.end() == 0
    assert "so far" not in up.screen.text()
    assert "one" in up.screen.text()
