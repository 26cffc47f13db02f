"""Hostile jobs on a real node beside jobs that tick: the ticks are on time, the node stays small, nothing is left over.

Lateness is judged so that a busy machine does not fail the test. A bare timer runs beside the node and only sleeps
until the same instants. Its lateness is that of the machine. A tick's lateness beyond that is the node's own. The 99th
percentile of it beside a hostile job may exceed that of a quiet phase by 50 ms, plus the lateness of the bare timer,
because a tick needs the processor more than once. Of two quiet phases the quieter one counts. A phase that is too late
is measured again, at most twice: a hostile job does its harm every time, the rest of the machine does not.

`make test` measures the lateness beside the jobs of `HEAVY`, and runs each of the others once. `make soak` measures it
beside all of them.
"""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from onthedot.clock import MILLISECOND, SECOND, SystemClock
from onthedot.output.display import safe
from onthedot.runners.guard import process_tree
from tests.hostile.corpus import CORPUS, SECRET, SECRET_NAME, TIMED_OUT, TIMEOUT, Hostile
from tests.hostile.node import GRACE, HOLDER, PERIOD, TICKERS
from tests.lanes import SOAK
from tests.runners.guard.guarded_programs import is_alive, look_until, rss

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

STEP = PERIOD // TICKERS
QUIET = 3.0  # seconds
MIN_SECONDS = 4.0
"""A hostile job that ends sooner is run again, so that at least 160 ticks happen beside it."""
TRIES = 3
HEAVY = {"fork-bomb", "memory-hog", "yes", "a-gigabyte-without-a-newline", "many-files"}
NEEDS: dict[str, tuple[str, ...]] = {"none": (), "user": ("root",), "sandbox": ("sandbox",)}
"""The fixtures that each level needs."""
MAX_EXTRA_LATENESS = 50.0  # milliseconds
MAX_MEMORY_GROWTH = 20 << 20
GONE_WITHIN = 10.0


class Lateness(NamedTuple):
    """The 99th percentiles of one phase, in milliseconds: of the ticks, of the bare timer, and of each tick's lateness
    beyond that of the bare timer at the same instant (`own`)."""

    ticks: float
    bare: float
    own: float
    slots: int

    def __str__(self) -> str:
        return f"{self.own:.1f} ms (ticks {self.ticks:.1f}, bare {self.bare:.1f}, {self.slots} of them)"


class BusyNode:
    """A node with its bare timer, and the journals of both."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="onthedot-hostile-"))
        self.folder.chmod(0o711)  # programs with their own users have their workspaces below
        self._server = socket.create_server(("127.0.0.1", 0))
        environment = {**os.environ, f"OTD_SECRET_{SECRET_NAME}": SECRET}
        port = str(self._server.getsockname()[1])
        self.bare = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.bare_timer", f"{self.folder}/bare", str(STEP)]
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.node", str(self.folder), port],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, question: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the node ended with {self.process.wait(5)}"
        return json.loads(answer)

    def start_neighbour(self) -> Path:
        """Start a neighbour job with a private file in its workspace. Returns the path of that file."""
        self._holder = self.ask({"submit": HOLDER})

        def notes() -> list[Path]:
            return [path for path in self.folder.glob("spool/*/work/note") if path.read_text()]

        look_until(lambda: bool(notes()))
        return notes()[0]

    def stop_neighbour(self) -> None:
        self.ask({"cancel": self._holder})

    def lateness(self, began: int, ended: int) -> Lateness:
        """Returns the lateness of all slots of a phase. Each slot must have ticked."""
        slots = range(-(-began // STEP) * STEP, ended, STEP)
        look_until(lambda: self._read("ticks").keys() >= set(slots) <= self._read("bare").keys())
        ticks, bare = self._read("ticks"), self._read("bare")
        own = [ticks[slot] - bare[slot] for slot in slots]
        return Lateness(p99(ticks[slot] for slot in slots), p99(bare[slot] for slot in slots), p99(own), len(slots))

    def _read(self, name: str) -> dict[int, int]:
        lines = (self.folder / name).read_text().splitlines(keepends=True)
        pairs = (line.split() for line in lines if line.endswith("\n"))
        return {int(slot): int(at) - int(slot) for slot, at in pairs}

    def guards(self) -> list[int]:
        """Returns the process id of the guard. Empty if a program killed it and no program has run since."""
        children = [
            one.pid for one in process_tree.all_processes() if one.parent == self.process.pid and not one.is_zombie
        ]
        return [pid for pid in children if "onthedot.runners.guard" in _command_of(pid)]

    def leftovers(self) -> list[int]:
        """Returns the processes of programs: those below the node other than its guard, and those that work in its
        folder."""
        below = process_tree.with_descendants([self.process.pid], process_tree.all_processes())
        found = {one.pid for one in below if not one.is_zombie} - {self.process.pid, *self.guards()}
        return sorted(
            found | {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._works_in_folder(pid)}
        )

    def _works_in_folder(self, pid: int) -> bool:
        try:
            return os.readlink(f"/proc/{pid}/cwd").startswith(str(self.folder))
        except OSError:  # it ended meanwhile
            return False

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            if self.process.poll() is None:
                self.process.stdin.write('"stop"\n')
            self.process.stdin.close()
            self.process.wait(20)
        finally:
            for process in (self.process, self.bare):
                process.kill()
                process.wait()
            self.process.stdout.close()
            self._server.close()
            shutil.rmtree(self.folder)


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return ""


def p99(values: Any) -> float:
    """Returns the 99th percentile by rank, in milliseconds."""
    ordered = sorted(values)
    return float(ordered[math.ceil(0.99 * len(ordered)) - 1]) / MILLISECOND


@pytest.fixture(scope="module")
def node() -> Iterator[BusyNode]:
    started = BusyNode()
    yield started
    started.close()


@pytest.fixture(scope="module")
def quiet(node: BusyNode) -> Lateness:
    """How late ticks are while nothing else runs. The guard has started before, so that it is not part of the
    measurement."""
    node.ask({"run": "closes-its-output", "seconds": 1.0})
    found = []
    for _ in range(2):
        began = SystemClock().now()
        time.sleep(QUIET)
        found.append(node.lateness(began, began + round(QUIET * SECOND)))
    return min(found, key=lambda each: each.own)


@pytest.mark.parametrize("hostile", CORPUS, ids=[each.name for each in CORPUS])
def test_other_jobs_are_on_time_beside_a_hostile_job_and_nothing_is_left_over(
    node: BusyNode, quiet: Lateness, hostile: Hostile, request, capsys
):
    for needed in NEEDS[hostile.level]:
        request.getfixturevalue(needed)
    if not SOAK and hostile.name not in HEAVY:
        run_and_check(node, hostile, 0)
        return
    found: list[Lateness] = []
    while len(found) < TRIES and (not found or found[-1].own > allowed_lateness(quiet, found[-1])):
        answer = run_and_check(node, hostile, MIN_SECONDS)
        found.append(node.lateness(answer["began"], answer["ended"]))
        with capsys.disabled():
            print(f"\n{hostile.name}: quiet {quiet}; beside it {found[-1]}")
    assert found[-1].own <= allowed_lateness(quiet, found[-1]), (
        f"quiet: {quiet}; beside it: {', '.join(map(str, found))}"
    )


def allowed_lateness(quiet: Lateness, beside: Lateness) -> float:
    """Returns milliseconds."""
    return quiet.own + MAX_EXTRA_LATENESS + beside.bare


def run_and_check(node: BusyNode, hostile: Hostile, seconds: float) -> dict[str, Any]:
    """Run a hostile job for a while. Checks how it ended, that the node stayed small and that nothing is left over.
    Returns the node's answer."""
    question: dict[str, Any] = {"run": hostile.name, "seconds": seconds}
    holds = node.start_neighbour() if "params" in hostile.options else None
    if holds is not None:
        question["args"] = {"note": str(holds)}
    grown, answer = run_and_measure(node, question)
    if holds is not None:
        assert holds.read_text() == "private\n"
        node.stop_neighbour()
    look_until(lambda: node.leftovers() == [], GRACE / SECOND + GONE_WITHIN if holds else GONE_WITHIN)
    assert grown <= MAX_MEMORY_GROWTH
    for run in answer["runs"]:
        assert run["error"].startswith(hostile.ends) if hostile.ends else run["error"] == "", run
        if hostile.ends == TIMED_OUT:
            assert run["took"] <= TIMEOUT + GRACE / SECOND + GONE_WITHIN
    check_log(hostile, answer["log"])
    return answer


def run_and_measure(node: BusyNode, question: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Run a job. Returns the largest growth in memory of the node or its guard, and the node's answer."""
    if not node.guards():
        node.ask({"run": "closes-its-output", "seconds": 0})
    before = {pid: rss(pid) for pid in (node.process.pid, *node.guards())}
    assert len(before) == 2
    for pid in before:
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # resets the high-water mark of its memory
    answer = node.ask(question)
    return max(rss(pid, "VmHWM") - had for pid, had in before.items() if is_alive(pid)), answer


def check_log(hostile: Hostile, log: str) -> None:
    """The log of a hostile job shows no secret, and nothing that belongs to others."""
    forms = (SECRET, base64.b64encode(SECRET.encode()).decode(), urllib.parse.quote(SECRET, safe=""))
    assert not [form for form in forms if form in log]
    assert SECRET_NAME not in log  # its name in the environment of the node
    assert "private" not in log
    assert "SQLite format" not in log
    if hostile.name == "escape-sequences":
        assert "still here" in log
        assert "\x1b" not in safe(log)
