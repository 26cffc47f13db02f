"""If a worker dies or freezes in a job of five steps, another one resumes at the right step.

All programs of the first worker are gone before that.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.started import Started, started
from tests.processes.test_freeze import is_locked

STEPS = ("one", "two", "three", "four", "five")
LEASE = 3.0

# The third step of the first attempt starts a program in another session and waits. The second attempt records which
# of these processes are still alive.
JOBS = """
jobs:
  - name: build
    steps:
      - {name: one, run: echo $OTD_ATTEMPT >> HERE/one}
      - {name: two, run: echo $OTD_ATTEMPT >> HERE/two}
      - name: three
        run: |
          echo $OTD_ATTEMPT >> HERE/three
          if [ $OTD_ATTEMPT = 1 ]; then
            setsid sleep 300 & echo $! > HERE/hidden
            echo $$ > HERE/pid
            wait
          else
            for pid in $(cat HERE/pid HERE/hidden); do
              if [ -d /proc/$pid ]; then echo $pid >> HERE/alive; fi
            done
          fi
      - {name: four, run: echo $OTD_ATTEMPT >> HERE/four}
      - {name: five, run: echo $OTD_ATTEMPT >> HERE/five}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jobs.yaml").write_text(JOBS.replace("HERE", str(tmp_path)))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def node(name: str) -> tuple[str, ...]:
    return ("up", "jobs.yaml", "--node-id", name, "--lease", f"{LEASE:g}s", "--no-api")


def ask(folder: Path, *arguments: str) -> Any:
    command = [sys.executable, "-m", "onthedot", *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def strike(first: Started, how: signal.Signals, folder: Path) -> None:
    """Kill or freeze the worker, but never inside a write.

    A process that freezes while it holds the lock of the file blocks all others. `test_freeze_upkeep.py` tests that.
    """
    for _ in range(20):
        first.signal(how)
        if how is signal.SIGKILL or not is_locked(folder / "onthedot.db"):
            return
        first.signal(signal.SIGCONT)
    raise AssertionError("the worker held the lock of the file in all 20 freezes")


def wait_for(path: Path) -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text().strip()):
            return int(text)
        time.sleep(0.02)
    raise AssertionError(f"waited 30 s for {path}")


def until_succeeded(folder: Path) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        shown = ask(folder, "show", "1")
        if shown["state"] == "succeeded":
            return shown
        time.sleep(0.2)
    raise AssertionError(f"expected success within 60 s, got {shown}")


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_another_worker_resumes_at_the_right_step_after_all_programs_are_gone(folder: Path, how: signal.Signals):
    with started(folder, *node("a")) as first:
        first.until("Ctrl-C")
        ask(folder, "trigger", "build")
        wait_for(folder / "pid")
        with started(folder, *node("b")) as second:
            second.until("Ctrl-C")
            strike(first, how, folder)
            shown = until_succeeded(folder)
            _wake_up(first, how)
    _, recovered = shown["attempt_list"]
    assert recovered["node"] == "b"
    assert not (folder / "alive").exists(), (
        "expected all programs of the first attempt to be gone before the second began"
    )
    done = {step: (folder / step).read_text().split() for step in STEPS}
    assert done == {"one": ["1"], "two": ["1"], "three": ["1", "2"], "four": ["2"], "five": ["2"]}
    said = "".join(record["text"] for record in shown["logs"] if record["attempt"] == 2)
    assert "resumed at step 3 of 5" in said


def _wake_up(first: Started, how: signal.Signals) -> None:
    """Wake a frozen worker, and wait until it reports the lost lease."""
    if how is signal.SIGSTOP:
        first.signal(signal.SIGCONT)
        first.until("a", "lease")
