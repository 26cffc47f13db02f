"""Real processes on one store, named by its URL: boot them, break them, wait for what the jobs have noted."""

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
    """Where the program of a node is, and the onthedot that it runs on (None: the one of this environment)."""

    root: Path = ROOT
    installed: Path | None = None

    def environment(self) -> dict[str, str]:
        """What a process of this tree is started with."""
        own = {} if self.installed is None else {"PYTHONPATH": str(self.installed)}
        return {**os.environ, fault_points.STOP_VARIABLE: "", fault_points.VARIABLE: "", **own}


PRESENT = Tree()


class Cluster:
    """The nodes, and what happens to them. `orders` hold for every node that is not told otherwise."""

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
        """Start a node, on its own way to the store if it has one; wait until it is ready."""
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
        """Who won the newest term."""

        def found() -> list[tuple[int, int]]:
            others = [(i, node) for i, node in enumerate(self.nodes) if node is not but]
            return [(int(said.about), i) for i, node in others for said in node.of("TermWon", since=since)]

        return self.nodes[max(wait_until(found, "somebody to lead"))[1]]

    def living(self) -> list[Process]:
        return [node for node in self.nodes if node.popen.returncode is None]

    def note(self, node: str, kind: str, begin: int, end: int = 0) -> Fault:
        """Note what was done to the cluster, beside what processes note by themselves."""
        fault = Fault(node, kind, begin, end)
        self.faults.append(fault)
        return fault

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────

    def go_on(self, seconds: float, *, on: Process | None = None) -> Start:
        """Let the cluster work until a slot that lies this far ahead was executed (by that node)."""
        since, seen = now() + round(seconds * SECOND), len(self.notes.starts)

        def found() -> list[Start]:
            news = self.notes.read().starts[seen:]
            return [s for s in news if s.slot >= since and s.job != ERRAND and (on is None or s.node == on.name)]

        what = f"{on.name if on else 'the cluster'} to work in {seconds:g} s"
        return wait_until(found, what, patience=seconds + PATIENCE)[0]

    def wait_executing(self, node: Process) -> None:
        """Wait until a node is in the middle of an execution that takes a while."""

        def found() -> bool:
            notes = self.notes.read()
            mine = [s for s in notes.starts[-1000:] if s.node == node.name and s.job.startswith(DEEP)]
            return any((s.run, s.fence) not in notes.ends for s in mine)

        wait_until(found, f"{node.name} to be busy")

    def settle(self, *, patience: float = PATIENCE) -> int:
        """Wait until every slot up to now is done, and every errand; stop all nodes in order. Until when that is."""
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
        """Slots that were not brought to their end: of jobs that must be."""
        done = self.notes.read().done
        first: dict[str, int] = {}  # of each job: one that was stored later has no slots before
        for start in self.notes.starts:
            if not start.job.startswith((CAREFUL, ERRAND)):
                first[start.job] = min(start.slot, first.get(start.job, start.slot))
        owed = {(job, slot) for job, begin in first.items() for slot in range(begin, until + 1, STEP)} - done
        executed = {run for run, _ in self.notes.ends}
        return owed | {(ERRAND, run) for run in self.notes.acknowledged if run not in executed}

    async def evidence(self, until: int) -> Evidence:
        """What they have left behind, judged by the checker; and drawn."""
        found = await self._seen(until).gather(self.url, self.journal, self.orders.settings())
        timeline.write(found, self.folder / TIMELINE, self.folder.name)
        return found

    def _seen(self, until: int) -> Evidence:
        terms = [(node.name, said.at, int(said.about)) for node in self.nodes for said in node.of("TermWon")]
        names = list(dict.fromkeys(node.name for node in self.nodes))
        return Evidence(self.notes.read(), self.faults, names, self.began, until, terms)

    def draw(self) -> None:
        """What is known so far, if it was not drawn yet: for a test that has failed before the end."""
        if not (self.folder / TIMELINE).exists():
            timeline.write(self._seen(now()), self.folder / TIMELINE, self.folder.name)

    def end(self) -> None:
        """Whatever happened: no process is left behind."""
        for node in self.nodes:
            if node.popen.poll() is None:
                node.popen.kill()
            node.popen.wait(PATIENCE)
            node._reader.join(PATIENCE)
            if node.popen.stdout is not None:
                node.popen.stdout.close()

    def tell(self) -> str:
        """For whoever has to find out what went wrong."""
        lines = []
        for node in self.nodes:
            lines.append(f"--- {node.name} ({node.popen.poll()})")
            lines += [f"    {said}" for said in node.said[-40:]]
            lines.append((self.folder / f"{node.name}.err").read_text()[-3000:])
        return "\n".join([*lines, "--- faults", *(f"    {fault}" for fault in self.faults)])


@contextmanager
def cluster(url: str, folder: Path, orders: Orders) -> Iterator[Cluster]:
    """A cluster that is gone afterwards; if a test fails, what its nodes said is printed."""
    nodes = Cluster(url, folder, orders)
    try:
        yield nodes
    except BaseException:  # pytest's own failures are no Exceptions
        print(nodes.tell())
        nodes.draw()
        raise
    finally:
        nodes.end()


def unnamed(**orders: object) -> Orders:
    """Orders for a cluster; its store, journal and names come with it."""
    return replace(Orders(url="", journal="", name=""), **orders)  # type: ignore[arg-type]
