"""Starts, freezes, kills and stops real processes on one file, and waits for their output."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from onthedot import fault_points
from tests.crash import kit as crash

T = TypeVar("T")

PATIENCE = 30.0  # seconds that a test waits for something that must happen
SECOND = 1_000_000


class Said(NamedTuple):
    """One line of a node's output."""

    kind: str
    at: int
    about: str


@dataclass
class Fault:
    """What was done to a node, with begin and end in microseconds (end 0: not over)."""

    node: str
    kind: str
    begin: int
    end: int = 0


def now() -> int:
    return time.time_ns() // 1_000


def wait_until(found: Callable[[], T], what: str, *, patience: float = PATIENCE) -> T:
    """Call `found` repeatedly until it returns something true, and return that."""
    give_up_at = time.monotonic() + patience
    while not (seen := found()):
        assert time.monotonic() < give_up_at, f"waited {patience:g} s for {what}"
        time.sleep(0.005)
    return seen


class Process:
    """One node process, and all lines of its output."""

    def __init__(self, name: str, popen: subprocess.Popen[str], note: Callable[[Fault], None]) -> None:
        self.name = name
        self.popen = popen
        self.said: list[Said] = []
        self._note = note
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            kind, at, about = line.rstrip("\n").split(" ", 2)
            self.said.append(Said(kind, int(at), about))

    def of(self, kind: str, *, since: int = 0) -> list[Said]:
        return [said for said in list(self.said) if said.kind == kind and said.at >= since]

    def wait_for(self, kind: str, *, since: int = 0, patience: float = PATIENCE) -> Said:
        """Wait until it has printed a line of this kind, at `since` or later."""

        def found() -> list[Said]:
            heard = self.of(kind, since=since)
            assert heard or self._reader.is_alive(), (
                f"{self.name} ended ({self.popen.poll()}) before it printed {kind!r}"
            )
            return heard

        return wait_until(found, f"{self.name} to print {kind!r}", patience=patience)[0]

    # ── faults ───────────────────────────────────────────────────────────────────────────────────────────────

    def kill(self) -> int:
        """Kill the process (SIGKILL), and return the instant."""
        at = now()
        self.popen.kill()
        self.popen.wait(PATIENCE)
        self._note(Fault(self.name, "kill", at, now()))
        return at

    def wait_frozen(self) -> Fault:
        """Wait until the process is stopped, and return the fault."""

        def stopped() -> object:
            return os.waitid(os.P_PID, self.popen.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)

        wait_until(stopped, f"{self.name} to freeze")
        assert self.popen.poll() is None, f"{self.name} ended instead of freezing"
        fault = Fault(self.name, "freeze", now())
        self._note(fault)
        return fault

    def freeze(self) -> Fault:
        """Stop the process (SIGSTOP) at any point of its work."""
        self.popen.send_signal(signal.SIGSTOP)
        return self.wait_frozen()

    def thaw(self, fault: Fault) -> int:
        """Let the process continue (SIGCONT), and return the instant."""
        fault.end = now()
        self.popen.send_signal(signal.SIGCONT)
        return fault.end

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────────────

    def quiet(self) -> None:
        """Ask the node to submit no more errands."""
        self.popen.send_signal(signal.SIGUSR1)

    def terminate(self) -> int:
        """Ask the process to stop (SIGTERM), and return the instant."""
        at = now()
        self.popen.send_signal(signal.SIGTERM)
        return at

    def wait_stopped(self) -> None:
        """Wait until it has drained and left."""
        assert self.popen.wait(PATIENCE) == 0, f"{self.name} ended with {self.popen.returncode}"
        self._reader.join(PATIENCE)
        assert self.of("stopped"), f"{self.name} did not stop in order"


class Cluster(crash.Victims):
    """One database, one journal, and the nodes that share them. Evidence is gathered as in the crash tests."""

    def __init__(self, folder: Path, *, database: Path | None = None) -> None:
        super().__init__(folder)
        self.database = database or self.database
        self.nodes: list[Process] = []
        self.faults: list[Fault] = []

    def boot(
        self, name: str, *, program: str = "busy", lease: float = 2.0, stop_point: str = "", **options: Any
    ) -> Process:
        """Start a node. It prints "ready" when it is."""
        command = [sys.executable, "-m", "tests.processes.node"]
        command += [str(self.database), str(self.journal), name, program, str(lease)]
        environment = {**os.environ, fault_points.STOP_VARIABLE: stop_point, fault_points.VARIABLE: ""}
        popen = subprocess.Popen(command, cwd=crash.ROOT, env=environment, stdout=subprocess.PIPE, text=True, **options)
        process = Process(name, popen, self.faults.append)
        self.nodes.append(process)
        return process

    def boot_all(self, *names: str, lease: float = 2.0) -> list[Process]:
        """Start nodes at the same time, and wait until all are ready."""
        nodes = [self.boot(name, lease=lease) for name in names]
        for node in nodes:
            node.wait_for("ready")
        return nodes

    def leader(self, *, since: int = 0) -> Process:
        """Wait until a term was won, and return the node that won the newest one."""

        def found() -> list[tuple[int, int]]:
            return [
                (int(said.about), i) for i, node in enumerate(self.nodes) for said in node.of("TermWon", since=since)
            ]

        return self.nodes[max(wait_until(found, "a node to lead"))[1]]

    def look(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Query the file with a read-only connection."""
        db = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=PATIENCE)
        try:
            return db.execute(statement, values).fetchall()
        finally:
            db.close()

    def held_by(self, node: Process) -> list[tuple[Any, ...]]:
        """Return (id, state) of the runs that a node has reserved or runs."""
        return self.look(
            "SELECT r.id, r.state FROM runs r JOIN nodes n ON n.incarnation = r.incarnation WHERE n.id = ?", node.name
        )

    def entries(self, event: str) -> list[dict[str, Any]]:
        """Return the journal's entries of one kind, in order."""
        text = self.journal.read_text() if self.journal.exists() else ""
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [entry for entry in found if entry["event"] == event]

    def wait_for_entry(self, event: str, found: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Wait until a handler has written an entry that fits."""
        return wait_until(lambda: [entry for entry in self.entries(event) if found(entry)], what)[0]

    def wait_for_start(self, job: str, *, since: int) -> dict[str, Any]:
        """Wait for the start of a slot at or after `since`."""
        return self.wait_for_entry("start", lambda e: e["job"] == job and e["slot"] >= since, f"{job} to continue")

    def settle(self, *, rounds: int = 0) -> None:
        """Wait until all due work is done, then stop all nodes gracefully."""
        del rounds
        for node in self.living():
            node.quiet()
        wait_until(lambda: not self._owed(), "everything that is due to be done")
        for node in self.living():
            node.terminate()
        for node in self.living():
            node.wait_stopped()

    def living(self) -> list[Process]:
        return [node for node in self.nodes if node.popen.returncode is None]

    def _owed(self) -> int:
        """Return how many runs are overdue, or run on nodes whose lease has ended."""
        at = now()
        [[count]] = self.look(
            "SELECT count(*) FROM runs r LEFT JOIN nodes n ON n.incarnation = r.incarnation "
            "WHERE (r.state <> 'running' AND r.due_at < ?) OR (r.state = 'running' AND n.lease_until < ?)",
            at - SECOND // 4,
            at,
        )
        return int(count)

    def end(self) -> None:
        """Kill all processes that still run."""
        for node in self.nodes:
            if node.popen.poll() is None:
                node.popen.kill()
            node.popen.wait(PATIENCE)
            node._reader.join(PATIENCE)
            if node.popen.stdout is not None:
                node.popen.stdout.close()


@contextmanager
def cluster(folder: Path, *, database: Path | None = None) -> Iterator[Cluster]:
    """Make a cluster and end it afterwards. If the test fails, the output of its nodes is printed."""
    nodes = Cluster(folder, database=database)
    try:
        yield nodes
    except BaseException:  # pytest's failures are not of type Exception
        for node in nodes.nodes:
            print(f"--- {node.name} ({node.popen.poll()})", *node.said[-40:], sep="\n    ")
        print("--- faults", *nodes.faults, sep="\n    ")
        raise
    finally:
        nodes.end()
