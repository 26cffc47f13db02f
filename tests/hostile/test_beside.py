"""Hostile jobs on a real node whose other jobs tick all the while: these are on time, the node stays small, and nothing
of a hostile job lives on.

**On time** is told in a way that is fair on a busy machine and forgives nothing else. Beside the node a process runs
that only sleeps until the same instants: by what that is late, the machine is late for everybody. What a tick is later
than that is the node's own lateness. Its 99th percentile beside a hostile job may be 50 ms above that of a quiet phase:
of the quieter one of two; and by what the bare timer itself was late, because a tick has to be given the processor more
than once. A phase that was too late is measured again, twice at most: what a hostile job does to others it does every
time, what the rest of the machine does comes and goes.

`make test` measures the lateness beside the jobs of `HEAVY`, and lets each of the others run once. `make soak` measures
it beside all of them.
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
from tests.runners.guard.yard import is_alive, look_until, rss

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

STEP = PERIOD // TICKERS
QUIET = 3.0  # seconds
AT_LEAST = 4.0
"""A hostile job that ends sooner is run again: 160 ticks at least are beside it."""
TRIES = 3
HEAVY = {"fork-bomb", "memory-hog", "yes", "a-gigabyte-without-a-newline", "many-files"}
NEEDS: dict[str, tuple[str, ...]] = {"none": (), "user": ("root",), "sandbox": ("sandbox",)}
"""Fixtures, by level."""
MOST_LATER = 50.0  # milliseconds
MOST_MEMORY = 20 << 20
GONE_WITHIN = 10.0


class Lateness(NamedTuple):
    """The 99th percentiles of one phase, in milliseconds: of the ticks, of the bare timer, and of what a tick is later
    than the bare timer at its own instant."""

    ticks: float
    bare: float
    own: float
    slots: int

    def __str__(self) -> str:
        return f"{self.own:.1f} ms (ticks {self.ticks:.1f}, bare {self.bare:.1f}, {self.slots} of them)"


class Place:
    """A node with its bare timer, and the two journals."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="onthedot-hostile-"))
        self.folder.chmod(0o711)  # programs with users of their own have their workspaces below
        self._server = socket.create_server(("127.0.0.1", 0))
        environment = {**os.environ, f"OTD_SECRET_{SECRET_NAME}": SECRET}
        port = str(self._server.getsockname()[1])
        self.bare = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.bare_timer", f"{self.folder}/bare", str(STEP)]
        )
        self.node = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.node", str(self.folder), port],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert self.node.stdout is not None
        assert self.node.stdout.readline() == "ready\n"

    def ask(self, question: Any) -> Any:
        assert self.node.stdin is not None
        assert self.node.stdout is not None
        self.node.stdin.write(json.dumps(question) + "\n")
        self.node.stdin.flush()
        answer = self.node.stdout.readline()
        assert answer, f"the node has ended with {self.node.wait(5)}"
        return json.loads(answer)

    def hold(self) -> Path:
        """Have a neighbour with something private in its workspace; where that is."""
        self._holder = self.ask({"submit": HOLDER})

        def there() -> list[Path]:
            return [path for path in self.folder.glob("spool/*/work/note") if path.read_text()]

        look_until(lambda: bool(there()))
        return there()[0]

    def let_go(self) -> None:
        """The neighbour ends."""
        self.ask({"cancel": self._holder})

    def lateness(self, began: int, ended: int) -> Lateness:
        """Of all slots of a phase: each has ticked."""
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
        """The guard's process; none, if a program has killed it and no other has run since."""
        children = [
            one.pid for one in process_tree.all_processes() if one.parent == self.node.pid and not one.is_zombie
        ]
        return [pid for pid in children if "onthedot.runners.guard" in _command_of(pid)]

    def left(self) -> list[int]:
        """Processes of programs: whoever is below the node and is not its guard, or is in a workspace."""
        below = process_tree.with_descendants([self.node.pid], process_tree.all_processes())
        found = {one.pid for one in below if not one.is_zombie} - {self.node.pid, *self.guards()}
        return sorted(found | {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_here(pid)})

    def _is_here(self, pid: int) -> bool:
        try:
            return os.readlink(f"/proc/{pid}/cwd").startswith(str(self.folder))
        except OSError:  # it has ended
            return False

    def close(self) -> None:
        assert self.node.stdin is not None
        assert self.node.stdout is not None
        try:
            if self.node.poll() is None:
                self.node.stdin.write('"stop"\n')
            self.node.stdin.close()
            self.node.wait(20)
        finally:
            for process in (self.node, self.bare):
                process.kill()
                process.wait()
            self.node.stdout.close()
            self._server.close()
            shutil.rmtree(self.folder)


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # it has ended since
        return ""


def p99(values: Any) -> float:
    """By rank, in milliseconds."""
    ordered = sorted(values)
    return float(ordered[math.ceil(0.99 * len(ordered)) - 1]) / MILLISECOND


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    there = Place()
    yield there
    there.close()


@pytest.fixture(scope="module")
def quiet(place: Place) -> Lateness:
    """How late ticks are while nothing else runs: the guard is there, and everything is loaded."""
    place.ask({"run": "closes-its-output", "seconds": 1.0})
    found = []
    for _ in range(2):
        began = SystemClock().now()
        time.sleep(QUIET)
        found.append(place.lateness(began, began + round(QUIET * SECOND)))
    return min(found, key=lambda each: each.own)


@pytest.mark.parametrize("hostile", CORPUS, ids=[each.name for each in CORPUS])
def test_others_are_on_time_and_nothing_is_left(place: Place, quiet: Lateness, hostile: Hostile, request, capsys):
    for needed in NEEDS[hostile.level]:
        request.getfixturevalue(needed)
    if not SOAK and hostile.name not in HEAVY:
        endured(place, hostile, 0)
        return
    found: list[Lateness] = []
    while len(found) < TRIES and (not found or found[-1].own > allowed(quiet, found[-1])):
        answer = endured(place, hostile, AT_LEAST)
        found.append(place.lateness(answer["began"], answer["ended"]))
        with capsys.disabled():
            print(f"\n{hostile.name}: quiet {quiet}; beside it {found[-1]}")
    assert found[-1].own <= allowed(quiet, found[-1]), f"quiet: {quiet}; beside it: {', '.join(map(str, found))}"


def allowed(quiet: Lateness, beside: Lateness) -> float:
    """Milliseconds."""
    return quiet.own + MOST_LATER + beside.bare


def endured(place: Place, hostile: Hostile, seconds: float) -> dict[str, Any]:
    """Have it run for a while; nothing of it is left, the node has stayed small, and it ended as it should. Returns
    the node's answer."""
    question: dict[str, Any] = {"run": hostile.name, "seconds": seconds}
    holds = place.hold() if "params" in hostile.options else None
    if holds is not None:
        question["args"] = {"note": str(holds)}
    grown, answer = measured(place, question)
    if holds is not None:
        assert holds.read_text() == "private\n"
        place.let_go()
    look_until(lambda: place.left() == [], GRACE / SECOND + GONE_WITHIN if holds else GONE_WITHIN)
    assert grown <= MOST_MEMORY
    for run in answer["runs"]:
        assert run["error"].startswith(hostile.ends) if hostile.ends else run["error"] == "", run
        if hostile.ends == TIMED_OUT:
            assert run["took"] <= TIMEOUT + GRACE / SECOND + GONE_WITHIN
    check_words(hostile, answer["said"])
    return answer


def measured(place: Place, question: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Have it run; by how much the node or its guard has grown at most, and the answer."""
    if not place.guards():
        place.ask({"run": "closes-its-output", "seconds": 0})
    before = {pid: rss(pid) for pid in (place.node.pid, *place.guards())}
    assert len(before) == 2
    for pid in before:
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the most that it ever had is what it has now
    answer = place.ask(question)
    return max(rss(pid, "VmHWM") - had for pid, had in before.items() if is_alive(pid)), answer


def check_words(hostile: Hostile, said: str) -> None:
    """What is told of it holds nothing that is not its own."""
    forms = (SECRET, base64.b64encode(SECRET.encode()).decode(), urllib.parse.quote(SECRET, safe=""))
    assert not [form for form in forms if form in said]
    assert SECRET_NAME not in said  # as it is called in the environment of the node
    assert "private" not in said
    assert "SQLite format" not in said
    if hostile.name == "escape-sequences":
        assert "still here" in said
        assert "\x1b" not in safe(said)
