"""Boots real nodes on a store given by its URL, breaks them, and waits for what their handlers note."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from onthedot import fault_points
from onthedot.clock import SECOND
from tests.chaos import timeline
from tests.chaos.evidence import Evidence, Notes, Start
from tests.chaos.node import CAREFUL, DEEP, ERRAND, STEP, Orders, as_json
from tests.processes.kit import PATIENCE, Fault, Process, now, wait_until

ROOT = Path(__file__).parents[2]
TIMELINE = "timeline.html"


@dataclass(frozen=True)
class Tree:
    """The folder of a node's program, and the onthedot that it uses (None: that of this environment)."""

    root: Path = ROOT
    installed: Path | None = None

    def environment(self) -> dict[str, str]:
        """Return the environment variables for a process of this tree."""
        own = {} if self.installed is None else {"PYTHONPATH": str(self.installed)}
        return {**os.environ, fault_points.STOP_VARIABLE: "", fault_points.VARIABLE: "", **own}


PRESENT = Tree()


class Cluster:
    """The nodes and their faults. `orders` are the defaults for every node."""

    def __init__(self, url: str, folder: Path, orders: Orders) -> None:
        self.url = url
        self.folder = folder
        self.journal = folder / "journal.jsonl"
        self.orders = replace(orders, url=url, journal=str(self.journal))
        self.notes = Notes(self.journal)
        self.nodes: list[Process] = []
        self.faults: list[Fault] = []
        self.began = 0

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────

    def boot(self, name: str, *, url: str = "", tree: Tree = PRESENT, **orders: object) -> Process:
        """Start a node and wait until it is ready. `url` is its own way to the store, if it has one."""
        given = replace(self.orders, name=name, url=url or self.url, **orders)  # type: ignore[arg-type]
        command = [sys.executable, "-m", "tests.chaos.node", as_json(given)]
        with (self.folder / f"{name}.err").open("w") as errors:
            popen = subprocess.Popen(
                command, cwd=tree.root, env=tree.environment(), stdout=subprocess.PIPE, stderr=errors, text=True
            )
        process = Process(name, popen, self.faults.append)
        self.nodes.append(process)
        process.wait_for("ready")
        self.began = now()
        return process

    def leader(self, *, since: int = 0, but: Process | None = None) -> Process:
        """Wait until a term was won, and return the node that won the newest one."""

        def found() -> list[tuple[int, int]]:
            others = [(i, node) for i, node in enumerate(self.nodes) if node is not but]
            return [(int(said.about), i) for i, node in others for said in node.of("TermWon", since=since)]

        return self.nodes[max(wait_until(found, "a node to lead"))[1]]

    def living(self) -> list[Process]:
        return [node for node in self.nodes if node.popen.returncode is None]

    def note(self, node: str, kind: str, begin: int, end: int = 0) -> Fault:
        """Record a fault that no process records by itself."""
        fault = Fault(node, kind, begin, end)
        self.faults.append(fault)
        return fault

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────

    def go_on(self, seconds: float, *, on: Process | None = None) -> Start:
        """Let the cluster work until a slot at least `seconds` ahead was executed (on that node, if given)."""
        since, seen = now() + round(seconds * SECOND), len(self.notes.starts)

        def found() -> list[Start]:
            news = self.notes.read().starts[seen:]
            return [s for s in news if s.slot >= since and s.job != ERRAND and (on is None or s.node == on.name)]

        what = f"{on.name if on else 'the cluster'} to work in {seconds:g} s"
        return wait_until(found, what, patience=seconds + PATIENCE)[0]

    def wait_executing(self, node: Process) -> None:
        """Wait until a node is in the middle of a long execution."""

        def found() -> bool:
            notes = self.notes.read()
            mine = [s for s in notes.starts[-1000:] if s.node == node.name and s.job.startswith(DEEP)]
            return any((s.run, s.fence) not in notes.ends for s in mine)

        wait_until(found, f"{node.name} to be busy")

    def settle(self, *, patience: float = PATIENCE) -> int:
        """Wait until every slot up to now and every errand is done, and stop all nodes. Return that instant."""
        for node in self.living():
            node.quiet()
        until = now() // STEP * STEP
        try:
            wait_until(lambda: not self._owed(until), "everything that is due to be done", patience=patience)
        except AssertionError as error:
            raise AssertionError(f"{error}: {sorted(self._owed(until))[:9]}") from None
        for node in self.living():
            node.terminate()
        for node in self.living():
            node.wait_stopped()
        return until

    def _owed(self, until: int) -> set[tuple[str, int]]:
        """Return the slots and errands that must still be executed."""
        done = self.notes.read().done
        first: dict[str, int] = {}  # each job's first slot: a job that was stored later has none before
        for start in self.notes.starts:
            if not start.job.startswith((CAREFUL, ERRAND)):
                first[start.job] = min(start.slot, first.get(start.job, start.slot))
        owed = {(job, slot) for job, begin in first.items() for slot in range(begin, until + 1, STEP)} - done
        executed = {run for run, _ in self.notes.ends}
        return owed | {(ERRAND, run) for run in self.notes.acknowledged if run not in executed}

    async def evidence(self, until: int) -> Evidence:
        """Gather the evidence, let the checker judge it, and draw the timeline."""
        found = await self._seen(until).gather(self.url, self.journal, self.orders.settings())
        timeline.write(found, self.folder / TIMELINE, self.folder.name)
        return found

    def _seen(self, until: int) -> Evidence:
        terms = [(node.name, said.at, int(said.about)) for node in self.nodes for said in node.of("TermWon")]
        names = list(dict.fromkeys(node.name for node in self.nodes))
        return Evidence(self.notes.read(), self.faults, names, self.began, until, terms)

    def draw(self) -> None:
        """Draw what is known so far, for a test that failed before its evidence was drawn."""
        if not (self.folder / TIMELINE).exists():
            timeline.write(self._seen(now()), self.folder / TIMELINE, self.folder.name)

    def end(self) -> None:
        """Kill all processes that still run."""
        for node in self.nodes:
            if node.popen.poll() is None:
                node.popen.kill()
            node.popen.wait(PATIENCE)
            node._reader.join(PATIENCE)
            if node.popen.stdout is not None:
                node.popen.stdout.close()

    def report(self) -> str:
        """Return the last output of all nodes and the faults, for the report of a failed test."""
        lines = []
        for node in self.nodes:
            lines.append(f"--- {node.name} ({node.popen.poll()})")
            lines += [f"    {said}" for said in node.said[-40:]]
            lines.append((self.folder / f"{node.name}.err").read_text()[-3000:])
        return "\n".join([*lines, "--- faults", *(f"    {fault}" for fault in self.faults)])


@contextmanager
def cluster(url: str, folder: Path, orders: Orders) -> Iterator[Cluster]:
    """Make a cluster and end it afterwards. If the test fails, the output of its nodes is printed."""
    nodes = Cluster(url, folder, orders)
    try:
        yield nodes
    except BaseException:  # pytest's failures are not of type Exception
        print(nodes.report())
        nodes.draw()
        raise
    finally:
        nodes.end()


def unnamed(**orders: object) -> Orders:
    """Return orders without store, journal and name, which the cluster adds."""
    return replace(Orders(url="", journal="", name=""), **orders)  # type: ignore[arg-type]
