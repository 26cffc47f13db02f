"""`onthedot up` as a process and on a real terminal: its output, signals, kills, restarts and live view."""

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


def test_up_prints_what_happens_and_ends_after_its_duration(tmp_path: Path, call: Call):
    with started(tmp_path, "up", "--node-id", "one", "--for", "9s") as node:
        assert node.until("store").endswith(f"{tmp_path}/onthedot.db (new)")
        node.until("node", "one, leads (term 1)")
        node.until("jobs", "heartbeat", "every 5s", "next")
        node.until("planned", "jobs")
        node.until("started", "heartbeat", "run", " late")
        reading = call("runs", "--job", "heartbeat", "--db", tmp_path / "onthedot.db", "--json")
        assert reading.exit_code == 0, "other commands must work while the node runs"
        assert json.loads(reading.output)
        node.until("finished", "heartbeat", "succeeded in")
        node.until("draining")
        assert node.end() == 0
        assert node.has("left", "node one")
        assert not any("\x1b" in line for line in node.seen), "no colours without a terminal"


def test_up_can_print_json_lines(tmp_path: Path):
    with started(tmp_path, "up", "--json", "--for", "9s") as node:
        assert node.end() == 0
    events: list[dict[str, Any]] = [json.loads(line) for line in node.seen]
    assert events[0]["event"] == "Opening"
    assert events[-1]["event"] == "NodeLeft"
    [began, *_] = [e for e in events if e["event"] == "AttemptStarted" and e["job"] == "heartbeat"]
    [ended, *_] = [e for e in events if e["event"] == "AttemptEnded" and e["job"] == "heartbeat"]
    assert began["late_ms"] >= 0
    assert (ended["run_id"], ended["state"]) == (began["run_id"], "succeeded")


def test_a_run_survives_a_kill_and_a_forced_stop_and_ends_in_a_drain(tmp_path: Path):
    """The first node of the run is killed, the second gets two signals to stop, and the third drains."""
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


def test_an_attempt_longer_than_the_grace_gives_exit_code_1(tmp_path: Path):
    with started(tmp_path, "up", napping(tmp_path), "--grace", "100ms") as node:
        node.until("started", "nap")
        node.signal(signal.SIGINT)
        node.until("cut short", "nap")
        assert node.end() == 1
        assert node.has("Error: expected every attempt to end within", "gave up on 1 attempt (nap); raise --grace")


def test_a_start_after_an_outage_names_missed_and_caught_up_slots(tmp_path: Path):
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
    """A node started ten minutes ago, planned a slot, and died before it. The next slot was three minutes ago."""
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


def test_a_closed_output_ends_the_node_cleanly(tmp_path: Path):
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


TIMEOUT = 40.0


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
        """Read until all of these are on the screen. One read may end in the middle of a frame."""
        self.until(lambda shown: all(word in shown for word in words))

    def until(self, found: Callable[[str], bool]) -> str:
        """Read until `found` accepts the screen, and return its text."""
        give_up_at = time.monotonic() + TIMEOUT
        while not found(self.screen.text()):
            left = give_up_at - time.monotonic()
            assert left > 0, f"timed out; the screen shows:\n{self.screen.text()}"
            if not self._read(left):
                assert found(self.screen.text()), (
                    f"the process ended too early; the screen shows:\n{self.screen.text()}"
                )
        return self.screen.text()

    def _read(self, timeout: float) -> bool:
        if not select.select([self._master], [], [], timeout)[0]:
            return True
        try:
            some = os.read(self._master, 65_536)
        except OSError:  # on Linux, the last writer has closed its end
            some = b""
        self.screen.feed(some.decode(errors="replace"))
        return bool(some)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Read to the end of the output, and return the exit code."""
        while self._read(TIMEOUT):
            pass
        return self._process.wait(TIMEOUT)

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


def test_the_live_view_shows_next_and_running_jobs_and_a_drain(tmp_path: Path):
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
    assert "node one · " not in last, "the live view must be gone"
    assert "dead, 0 skipped; late p50" in " ".join(last.split()[-24:]), "the counts must stay"
    assert not up.screen.cursor_hidden


def test_the_live_view_shows_the_progress_of_an_attempt(tmp_path: Path):
    with terminal(tmp_path) as up:
        picture = up.until(lambda shown: bool(with_progress(shown)))
        [row] = with_progress(picture)
        assert row.startswith(("running   flaky_import", "          flaky_import"))
        up.signal(signal.SIGINT)
        assert up.end() == 0


def with_progress(shown: str) -> list[str]:
    return [line for line in shown.split("\n") if " of 120" in line and "attempt 3" in line]


def test_a_second_ctrl_c_stops_attempts_and_restores_the_terminal(tmp_path: Path):
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
def test_plain_lines_replace_the_live_view_on_request_or_on_a_dumb_terminal(
    tmp_path: Path, arguments: tuple[str, ...], term: str
):
    with terminal(tmp_path, *arguments, "--for", "1s", term=term) as up:
        assert up.end() == 0
    assert "so far" not in up.screen.text()
    assert "one" in up.screen.text()


def test_without_a_program_it_adds_no_samples_to_a_store_with_other_jobs(tmp_path: Path, call: Call):
    (tmp_path / "jobs.yaml").write_text("jobs:\n  - {name: backup, run: echo done, schedule: every 1s}\n")
    database = tmp_path / "onthedot.db"
    assert call("apply", tmp_path / "jobs.yaml", "--db", database).exit_code == 0
    with started(tmp_path, "up", "--no-api") as node:
        node.until("samples", "none added: this store has jobs of its own", "'onthedot up app.py'")
        node.until("finished", "backup", "succeeded in")
        node.signal(signal.SIGINT)
        assert node.end() == 0
    assert [job["job"] for job in json.loads(call("jobs", "--db", database, "--json").output)] == ["backup"]
