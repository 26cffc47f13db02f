"""Compares the speed of two revisions: `make bench-compare BASE=<revision>`, or `python -m bench.compare --help`.

For each kind of work it starts two child processes (`bench.workload`), one with the sources of each side, each with
its own database. They take turns of a fraction of a second: old new, new old, old new, … Both run the workload of this
tree.

It compares CPU time, of the client and the PostgreSQL server together, because a busy machine disturbs it less than
wall time. For lateness it compares the median delay. The ratio of a row is the median over its rounds, because the two
turns of a round run at nearly the same time. All processes share one processor, because two processors of a busy
machine can differ in speed by half. Disks do not count: files are in memory if possible, and PostgreSQL does not wait
for its disk.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from statistics import geometric_mean, median, quantiles
from types import TracebackType
from typing import Any
from zipfile import ZipFile

from bench.results import BenchFailed, short
from bench.rounds import positive, some_of, whole
from bench.server import Server
from bench.workload import WORKS, Task, Usage
from tests.servers.postgres import PostgresServer

ROOT = Path(__file__).parents[1]
STORES = ("sqlite", "postgres")  # the default
KNOWN = (*STORES, "memory")
GROUPS = tuple(dict.fromkeys(work.split()[0] for work in WORKS))
TOGETHER = "lateness"  # both sides take their turns at the same time, because a quiet node mostly waits
PATIENCE = 180.0  # seconds for one turn

MOST_OVERALL, MOST_OF_A_ROW = 1.05, 1.15
"""The highest allowed ratio new/old: as the geometric mean of all rows, and in each row."""

# ── rows and verdict ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Row:
    """One kind of work on one store, with the usage of old and new in each round."""

    name: str
    rounds: list[tuple[Usage, Usage]]

    @property
    def is_delay(self) -> bool:
        return self.rounds[0][0].late is not None

    @property
    def unit(self) -> str:
        return "ms late" if self.is_delay else "µs CPU"

    @property
    def costs(self) -> tuple[float, float]:
        """Return the cost of one item with old and with new."""
        old, new = zip(*self.rounds, strict=True)
        return median(map(cost, old)), median(map(cost, new))

    @property
    def per_second(self) -> tuple[float, float]:
        """Return how many items old and new do per second of wall time."""
        old, new = zip(*self.rounds, strict=True)
        return median(took.count / took.wall for took in old), median(took.count / took.wall for took in new)

    @property
    def ratios(self) -> list[float]:
        return [cost(new) / cost(old) for old, new in self.rounds]

    @property
    def ratio(self) -> float:
        """Return the median ratio new/old."""
        return median(self.ratios)

    @property
    def wall_ratio(self) -> float:
        """Return the median ratio new/old of wall time."""
        return median(new.wall / new.count / (old.wall / old.count) for old, new in self.rounds)

    def as_json(self) -> dict[str, object]:
        """Return the figures of the table and those of every turn."""
        return {
            "name": self.name, "unit": self.unit, "costs": self.costs, "ratio": self.ratio,
            "error": error(self.ratios), "quartiles": quartiles(self.ratios), "wall_ratio": self.wall_ratio,
            "per_second": self.per_second, "rounds": [(asdict(old), asdict(new)) for old, new in self.rounds],
        }  # fmt: skip


def cost(took: Usage) -> float:
    """Return the compared value: microseconds of CPU per item, or milliseconds of delay."""
    return (took.client + took.server) / took.count * 1e6 if took.late is None else took.late


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the first and the third quartile.

    >>> quartiles([1, 2, 3, 4, 5]), quartiles([7])
    ((2.0, 4.0), (7, 7))
    """
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = quantiles(values, method="inclusive")
    return low, high


def error(values: Sequence[float]) -> float:
    """Return the standard error of the median for a normal distribution, from the quartiles, which ignore outliers.

    >>> round(error([0.9, 0.95, 1.0, 1.05, 1.1] * 20), 3)
    0.009
    """
    low, high = quartiles(values)
    return 0.93 * (high - low) / sqrt(len(values))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether new is fast enough, and the reasons if not."""

    overall: float | None  # geometric mean of the ratios; None: nothing was measured
    reasons: list[str]  # why it fails

    @property
    def passed(self) -> bool:
        return not self.reasons

    def __str__(self) -> str:
        mean = "" if self.overall is None else f"geometric mean {self.overall:.3f} (limit {MOST_OVERALL:g})"
        if self.passed:
            return f"ok: {mean}, no row above {MOST_OF_A_ROW:g}"
        return "FAILS: " + "; ".join(([mean] if mean else []) + self.reasons)


def judge(ratios: Mapping[str, float], failures: Sequence[str] = ()) -> Verdict:
    """Compare the ratios of all rows with the limits. A failed turn fails the comparison."""
    if not ratios:
        return Verdict(None, ["nothing was measured", *failures])
    overall = geometric_mean(ratios.values())
    reasons = ["all rows together are too slow"] if overall > MOST_OVERALL else []
    reasons += [f"{name} {ratio:.2f} (limit {MOST_OF_A_ROW:g})" for name, ratio in ratios.items() if _is_slow(ratio)]
    return Verdict(overall, [*reasons, *failures])


def _is_slow(ratio: float) -> bool:
    return ratio > MOST_OF_A_ROW


def table(rows: Sequence[Row]) -> str:
    """Return all rows as an aligned table."""
    head = ("row", "old", "new", "unit", "ratio", "±", "quartiles", "wall", "old/s", "new/s", "")
    lines = [head, *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if title in ("row", "unit", "") else cell.rjust(width)
            for title, cell, width in zip(head, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    low, high = quartiles(row.ratios)
    wall = ("-", "-", "-") if row.is_delay else (f"{row.wall_ratio:.2f}", *map(short, row.per_second))
    return (
        row.name, *map(short, row.costs), row.unit, f"{row.ratio:.3f}", f"{error(row.ratios):.3f}",
        f"{low:.2f} … {high:.2f}", *wall, "SLOW" if _is_slow(row.ratio) else "",
    )  # fmt: skip


# ── measurement ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Side:
    """A copy of the sources of one side, so that an edit during the comparison changes nothing."""

    name: str
    sources: Path
    label: str


def take_side(name: str, given: str, folder: Path) -> Side:
    """Copy the sources of a folder that contains `src`, or of a git revision."""
    target = folder / name
    if (Path(given) / "src" / "onthedot").is_dir():
        shutil.copytree(Path(given) / "src", target, ignore=shutil.ignore_patterns("__pycache__"))
        label = str(Path(given).resolve())
    else:
        label = _git("rev-parse", "--short", "--verify", f"{given}^{{commit}}").decode().strip()
        with ZipFile(io.BytesIO(_git("archive", "--format=zip", f"{label}:src"))) as archive:
            archive.extractall(target)
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(target)], check=True)
    return Side(name, target, label)


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise BenchFailed(f"git {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout


class Child:
    """A process of `bench.workload` with the sources of one side. Use it in a `with` statement, which ends it."""

    def __init__(self, side: Side, task: Task, folder: Path) -> None:
        self._side, self._what = side, f"{task.work} {task.store}, {side.name}"
        self._errors = folder / f"{side.name}.err"
        with self._errors.open("w") as errors:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "bench.workload", json.dumps(asdict(task))], cwd=folder, text=True,
                env={**os.environ, "PYTHONPATH": str(side.sources), "PYTHONHASHSEED": "0"},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._popen:  # closes its pipes and waits for its end
            if error is not None:
                self._popen.kill()
                return
            assert self._popen.stdin is not None
            self._popen.stdin.close()
            with self._limited():
                code = self._popen.wait()
        if code:
            raise self._failure()

    def wait_ready(self) -> None:
        """Wait until it has opened its store, and check that it uses the right sources."""
        source = self._read()["source"]
        if not Path(source).is_relative_to(self._side.sources):
            raise BenchFailed(f"{self._what}: expected sources from {self._side.sources}, got {source}")

    def start_turn(self) -> None:
        """Let it do one turn."""
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; `end_turn` raises the reason
            self._popen.stdin.write("go\n")
            self._popen.stdin.flush()

    def end_turn(self) -> dict[str, Usage]:
        """Wait until its turn is done, and return the usage of each row."""
        return {name: Usage(**took) for name, took in self._read().items()}

    def _read(self) -> dict[str, Any]:
        assert self._popen.stdout is not None
        with self._limited():
            line = self._popen.stdout.readline()
        if not line:
            raise self._failure()
        figures: dict[str, Any] = json.loads(line)
        return figures

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Kill the process if the body takes too long."""
        timer = threading.Timer(PATIENCE, self._popen.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _failure(self) -> BenchFailed:
        self._popen.wait()
        lines = self._errors.read_text().strip().splitlines()
        return BenchFailed(f"{self._what}: {lines[-1] if lines else f'not done after {PATIENCE:.0f} s'}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides, and the place of their databases."""

    sides: tuple[Side, Side]
    folder: Path
    server: Server | None
    size: float

    def measure(self, work: str, store: str, rounds: int) -> list[Row]:
        """Measure all rounds of one kind of work on one store, after one more round as a warm-up."""
        with ExitStack() as stack:
            children = {side.name: stack.enter_context(self._child(side, work, store)) for side in self.sides}
            for child in children.values():
                child.wait_ready()
            turns = [_round(children, number, together=work == TOGETHER) for number in range(rounds + 1)]
        return [
            Row(f"{name} {store}", [(both["old"][name], both["new"][name]) for both in turns[1:]])
            for name in turns[0]["old"]
        ]

    def measure_twice_if_slow(self, work: str, store: str, rounds: int) -> list[Row]:
        """Measure all rounds. If a row is too slow, measure again, and count the rounds of both."""
        rows = self.measure(work, store, rounds)
        if any(_is_slow(row.ratio) for row in rows):
            for row, again in zip(rows, self.measure(work, store, rounds), strict=True):
                row.rounds += again.rounds
        return rows

    @contextmanager
    def _child(self, side: Side, work: str, store: str) -> Iterator[Child]:
        """Start a child with a new database, which is removed afterwards."""
        is_new = side is self.sides[1]
        if store == "postgres":
            assert self.server is not None
            url = self.server.create()
            with Child(side, Task(work, url, self.size, is_new, self.server.pid), self.folder) as child:
                yield child
            self.server.drop(url)
        else:
            with ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory(dir=self.folder))
                url = "memory:" if store == "memory" else f"sqlite:///{folder}/one.db"
                task = Task(work, url, self.size, is_new)
                yield stack.enter_context(Child(side, task, self.folder))


def _round(children: Mapping[str, Child], number: int, *, together: bool) -> dict[str, dict[str, Usage]]:
    """Let each child take a turn, in alternating order, or both at the same time. Return the usage by side."""
    order = ("old", "new") if number % 2 else ("new", "old")
    took = {}
    for name in order:
        children[name].start_turn()
        if not together:
            took[name] = children[name].end_turn()
    return took or {name: children[name].end_turn() for name in order}


@contextmanager
def prepare(asked: argparse.Namespace) -> Iterator[Comparison]:
    """Copy both sides, and start a server if needed. Everything is removed afterwards."""
    with ExitStack() as stack:
        if not asked.all_processors:
            stack.enter_context(one_processor())
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="onthedot-compare-", dir=asked.dir or _memory()))
        folder = Path(name)
        shutil.copytree(ROOT / "bench", folder / "bench", ignore=shutil.ignore_patterns("__pycache__"))
        sides = (take_side("old", asked.base, folder), take_side("new", asked.new, folder))
        server = None
        if "postgres" in asked.store:
            server = Server(stack.enter_context(PostgresServer()))
            server.set("autovacuum", "off")  # it runs at random times; the workload does its work instead
        yield Comparison(sides, folder, server, asked.size)


@contextmanager
def one_processor() -> Iterator[None]:
    """Keep this process and its children on one processor, if the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _memory() -> str | None:
    """Return a folder in memory with at least a gigabyte free, or None for the temporary files."""
    folder = Path("/dev/shm")  # noqa: S108 - we make a folder with a random name in it
    if folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 1 << 30:
        return str(folder)
    return None


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and print the table and the verdict. Returns 1 if new is too slow or a turn failed, else 0."""
    asked = _parser().parse_args(arguments)
    if asked.quick:
        asked.rounds, asked.size = min(asked.rounds, 6), min(asked.size, 0.5)
    works = [work for work in WORKS if work in asked.only or work.split()[0] in asked.only]
    rows: list[Row] = []
    failures: list[str] = []
    try:
        with prepare(asked) as comparison:
            labels = [side.label for side in comparison.sides]
            _log(f"old {labels[0]}, new {labels[1]}; {machine(asked)}")
            began, pieces = time.monotonic(), [(work, store) for store in asked.store for work in works]
            for number, (work, store) in enumerate(pieces, start=1):
                try:
                    found = comparison.measure_twice_if_slow(work, store, asked.rounds)
                except BenchFailed as failure:
                    failures.append(str(failure))
                    _log(f"FAILS: {failure}")
                    continue
                rows += found
                ratios = ", ".join(f"{row.name.removesuffix(f' {store}')} {row.ratio:.2f}" for row in found)
                _log(f"{_clock(began)}  {number} of {len(pieces)}, {store}: {ratios}")
    except BenchFailed as failure:
        _log(f"FAILS: {failure}")
        return 1
    verdict = judge({row.name: row.ratio for row in rows}, failures)
    _report(rows, verdict)
    if asked.json:
        figures = {
            "old": labels[0], "new": labels[1], "machine": machine(asked), "rounds": asked.rounds, "size": asked.size,
            "geometric_mean": verdict.overall, "passed": verdict.passed, "verdict": str(verdict),
            "failures": failures, "rows": [row.as_json() for row in rows],
        }  # fmt: skip
        Path(asked.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if verdict.passed else 1


def _report(rows: Sequence[Row], verdict: Verdict) -> None:
    print(table(rows))
    for row in rows:
        if row.name == "gated rate postgres":
            old, new = row.per_second
            print(
                f"starts per second under a rate on PostgreSQL: old {old:,.0f}, new {new:,.0f}: {new / old:.2f} times"
            )
    print(verdict)


def machine(asked: argparse.Namespace) -> str:
    """Return the facts that figures depend on, in one line."""
    return (
        f"rounds {asked.rounds}, size {asked.size:g}, Python {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )


def _clock(began: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    return f"{minutes}:{seconds:02}"


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


EXAMPLES = """examples:
  make bench-compare BASE=HEAD~1                          compares this tree with the parent of the last commit
  make bench-compare BASE=v0.1.0 ARGS="--quick"           takes two minutes; shows only large differences
  python -m bench.compare main --only gated,drain --store postgres --rounds 40
  python -m bench.compare main --only "gated rate"        one kind of gate
  python -m bench.compare HEAD --new HEAD --json noise.json       measures the noise of this machine

old and new are medians: CPU time per run, submit or query, or the delay of a start. The ratio is new/old, with its
standard error and the quartiles of all rounds. `wall` is the ratio of wall time, and `/s` the number of items per
second; neither affects the verdict. A row that is too slow is measured once more before it counts.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare", description="Compare the speed of two revisions in alternating turns.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("base", help="the old side: a git revision, or a folder that contains `src`")
    parser.add_argument("--new", default=str(ROOT), help="the new side (default: this tree as it is on disk)")
    known = tuple(dict.fromkeys((*GROUPS, *WORKS)))
    parser.add_argument("--only", type=some_of(known), default=list(GROUPS), help=f"some of {','.join(known)}")
    parser.add_argument("--store", type=some_of(KNOWN), default=list(STORES), help=f"some of {','.join(KNOWN)}")
    parser.add_argument("--rounds", type=whole, default=16, help="turns of each side (default: 16)")
    parser.add_argument("--size", type=positive, default=1.0, help="scales the work of each turn (default: 1)")
    parser.add_argument("--quick", action="store_true", help="at most 6 rounds of size 0.5: about two minutes")
    parser.add_argument("--all-processors", action="store_true", help="realistic wall time, but more noise")
    parser.add_argument("--json", metavar="FILE", help="write the figures of every turn to this file")
    parser.add_argument("--dir", help="folder for files (default: in memory, if the system has /dev/shm)")
    return parser


if __name__ == "__main__":
    signal.signal(
        signal.SIGTERM, lambda number, _: sys.exit(128 + number)
    )  # so that folders and servers are cleaned up
    sys.exit(main())
