"""Real processes on one file: starting, freezing, killing and stopping them, and waiting for what they say."""

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

PATIENCE = 30.0  # seconds until something that must happen has happened
SECOND = 1_000_000


class Said(NamedTuple):
    """One line of a node."""

    kind: str
    at: int
    about: str


@dataclass
class Fault:
    """What was done to a node, and from when to when (microseconds; 0: not over)."""

    node: str
    kind: str
    begin: int
    end: int = 0


def now() -> int:
    return time.time_ns() // 1_000


def wait_until(found: Callable[[], T], what: str, *, patience: float = PATIENCE) -> T:
    """Look again and again until there is something to see."""
    give_up_at = time.monotonic() + patience
    while not (seen := found()):
        assert time.monotonic() < give_up_at, f"waited {patience:g} s in vain for {what}"
        time.sleep(0.005)
    return seen


class Process:
    """One node, and everything it has said."""

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
        """Wait until it has said this, at `since` or later."""

        def found() -> list[Said]:
            heard = self.of(kind, since=since)
            assert heard or self._reader.is_alive(), f"{self.name} ended ({self.popen.poll()}) before it said {kind!r}"
            return heard

        return wait_until(found, f"{self.name} to say {kind!r}", patience=patience)[0]

    # ── faults ───────────────────────────────────────────────────────────────────────────────────────────────

    def kill(self) -> int:
        """kill -9; when."""
        at = now()
        self.popen.kill()
        self.popen.wait(PATIENCE)
        self._note(Fault(self.name, "kill", at, now()))
        return at

    def wait_frozen(self) -> Fault:
        """Wait until it has stopped itself at its stop point."""

        def stopped() -> object:
            return os.waitid(os.P_PID, self.popen.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)

        wait_until(stopped, f"{self.name} to freeze")
        assert self.popen.poll() is None, f"{self.name} ended instead of freezing"
        fault = Fault(self.name, "freeze", now())
        self._note(fault)
        return fault

    def freeze(self) -> Fault:
        """SIGSTOP, wherever it is."""
        self.popen.send_signal(signal.SIGSTOP)
        return self.wait_frozen()

    def thaw(self, fault: Fault) -> int:
        """SIGCONT; when."""
        fault.end = now()
        self.popen.send_signal(signal.SIGCONT)
        return fault.end

    # ── order ────────────────────────────────────────────────────────────────────────────────────────────────

    def quiet(self) -> None:
        """Submit nothing more."""
        self.popen.send_signal(signal.SIGUSR1)

    def terminate(self) -> int:
        """SIGTERM; when."""
        at = now()
        self.popen.send_signal(signal.SIGTERM)
        return at

    def wait_stopped(self) -> None:
        """Wait until it has drained and left."""
        assert self.popen.wait(PATIENCE) == 0, f"{self.name} ended with {self.popen.returncode}"
        self._reader.join(PATIENCE)
        assert self.of("stopped"), f"{self.name} did not stop in order"


class Cluster(crash.Victims):
    """One database, one journal, and the nodes that share them. What the crash tests' evidence is gathered from."""

    def __init__(self, folder: Path, *, database: Path | None = None) -> None:
        super().__init__(folder)
        self.database = database or self.database
        self.nodes: list[Process] = []
        self.faults: list[Fault] = []

    def boot(
        self, name: str, *, program: str = "busy", lease: float = 2.0, stop_point: str = "", **options: Any
    ) -> Process:
        """Start a node; it is ready when it says so."""
        command = [sys.executable, "-m", "tests.processes.node"]
        command += [str(self.database), str(self.journal), name, program, str(lease)]
        environment = {**os.environ, fault_points.STOP_VARIABLE: stop_point, fault_points.VARIABLE: ""}
        popen = subprocess.Popen(command, cwd=crash.ROOT, env=environment, stdout=subprocess.PIPE, text=True, **options)
        process = Process(name, popen, self.faults.append)
        self.nodes.append(process)
        return process

    def boot_all(self, *names: str, lease: float = 2.0) -> list[Process]:
        """Start nodes side by side, and wait until all are ready."""
        nodes = [self.boot(name, lease=lease) for name in names]
        for node in nodes:
            node.wait_for("ready")
        return nodes

    def leader(self, *, since: int = 0) -> Process:
        """Who won the newest term, once one was won."""

        def found() -> list[tuple[int, int]]:
            return [
                (int(said.about), i) for i, node in enumerate(self.nodes) for said in node.of("TermWon", since=since)
            ]

        return self.nodes[max(wait_until(found, "somebody to lead"))[1]]

    def look(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask the file, beside everybody else."""
        db = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=PATIENCE)
        try:
            return db.execute(statement, values).fetchall()
        finally:
            db.close()

    def held_by(self, node: Process) -> list[tuple[Any, ...]]:
        """The runs that are reserved or running under a node's name: (id, state)."""
        return self.look(
            "SELECT r.id, r.state FROM runs r JOIN nodes n ON n.incarnation = r.incarnation WHERE n.id = ?", node.name
        )

    def entries(self, event: str) -> list[dict[str, Any]]:
        """The journal's lines of one kind, in order."""
        text = self.journal.read_text() if self.journal.exists() else ""
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [entry for entry in found if entry["event"] == event]

    def wait_for_entry(self, event: str, found: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Wait until a handler has written such a line."""
        return wait_until(lambda: [entry for entry in self.entries(event) if found(entry)], what)[0]

    def wait_for_start(self, job: str, *, since: int) -> dict[str, Any]:
        """Wait for a run of a slot at or after an instant."""
        return self.wait_for_entry("start", lambda e: e["job"] == job and e["slot"] >= since, f"{job} to go on")

    def settle(self, *, rounds: int = 0) -> None:
        """Let what is owed be done, then stop everybody in order."""
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
        """How many runs wait for longer than they should, or run on nodes that are gone."""
        at = now()
        [[count]] = self.look(
            "SELECT count(*) FROM runs r LEFT JOIN nodes n ON n.incarnation = r.incarnation "
            "WHERE (r.state <> 'running' AND r.due_at < ?) OR (r.state = 'running' AND n.lease_until < ?)",
            at - SECOND // 4,
            at,
        )
        return int(count)

    def end(self) -> None:
        """Whatever happened: no process is left behind."""
        for node in self.nodes:
            if node.popen.poll() is None:
                node.popen.kill()
            node.popen.wait(PATIENCE)
            node._reader.join(PATIENCE)
            if node.popen.stdout is not None:
                node.popen.stdout.close()


@contextmanager
def cluster(folder: Path, *, database: Path | None = None) -> Iterator[Cluster]:
    """A cluster that is gone afterwards; if a test fails, what its nodes said is printed."""
    nodes = Cluster(folder, database=database)
    try:
        yield nodes
    except BaseException:  # pytest's own failures are no Exceptions
        for node in nodes.nodes:
            print(f"--- {node.name} ({node.popen.poll()})", *node.said[-40:], sep="\n    ")
        print("--- faults", *nodes.faults, sep="\n    ")
        raise
    finally:
        nodes.end()
