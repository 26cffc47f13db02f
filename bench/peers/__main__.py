"""Runs `python -m bench.peers`: it measures onthedot and other systems in turns, and prints the ratios."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers import plots
from bench.peers.catalog import BARE, OURS, STORES, SYSTEMS, System
from bench.peers.driver import Driver, Measured
from bench.peers.environments import Environments
from bench.peers.figures import MEASUREMENTS
from bench.peers.interruption import Interrupted, Interruption
from bench.peers.report import Row, as_json, rows_of, tables
from bench.rounds import Plan, positive, whole

EXAMPLES = """examples:
  make bench-peers                                           everything, five rounds: about an hour
  make bench-peers ARGS="--rounds 1 --size 0.2"              a quick look
  make bench-peers ARGS="--only store=postgres,peer=pgqueuer,figure=submit"
  make bench-peers ARGS="--only figure=drain --json peers.json --plots docs/images"

--only takes store=, peer= and figure=, with commas between them; the same word again adds to it. onthedot is always
measured, and the bare limits (peer=bare) if no peer is named. figure=drain means drain1, drain2 and drain4.

A cell shows the median over all rounds, and in brackets the ratio of onthedot to that system. In each round all systems
take turns, so compare ratios, never figures of two runs. bench/peers/figures.py defines the figures; bench/peers/nodes
has the settings of each system. The exit code is 1 if onthedot failed, whatever the ratios are. Ctrl-C ends
all processes, and prints what was measured.
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to measure, in the order of the catalog."""

    stores: tuple[str, ...] = STORES
    systems: tuple[System, ...] = SYSTEMS
    measurements: tuple[str, ...] = tuple(MEASUREMENTS)

    @classmethod
    def read(cls, text: str) -> Choice:
        """Read `store=postgres,peer=pgqueuer,figure=submit`."""
        known = {"store": STORES, "peer": tuple(one.name for one in SYSTEMS), "figure": (*MEASUREMENTS, "drain")}
        asked: dict[str, set[str]] = {word: set() for word in known}
        for part in filter(None, map(str.strip, text.split(","))):
            word, _, name = part.partition("=")
            if word not in known:
                raise argparse.ArgumentTypeError(f"expected store=, peer= or figure=, got {part!r}")
            if name not in known[word]:
                raise argparse.ArgumentTypeError(f"expected {word}= one of {', '.join(known[word])}; got {name!r}")
            asked[word].add(name)
        systems = tuple(one for one in SYSTEMS if not asked["peer"] or one.name in asked["peer"] | {OURS})
        figures = asked["figure"] | ({"drain1", "drain2", "drain4"} if "drain" in asked["figure"] else set())
        return cls(
            stores=tuple(one for one in STORES if not asked["store"] or one in asked["store"]),
            systems=systems,
            measurements=tuple(one for one in MEASUREMENTS if not figures or one in figures),
        )

    def limited(self, working: Sequence[str]) -> Choice:
        """Without systems that do not work here, and without stores that no other system is on."""
        systems = tuple(one for one in self.systems if one.name in working)
        stores = tuple(
            store for store in self.stores if any(store in one.stores for one in systems if one.name != OURS)
        )
        return Choice(stores, systems, self.measurements)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for; 1 if onthedot failed."""
    asked = _parser().parse_args(arguments)
    began, interruption = time.monotonic(), Interruption()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interruption)
    environments = Environments(Path(asked.environments))
    with tempfile.TemporaryDirectory(prefix="onthedot-bench-", dir=asked.dir) as name:
        plan = Plan(folder=Path(name), size=asked.size, rounds=asked.rounds, seed=asked.seed)
        header = machine(plan)
        print(header, flush=True)
        try:
            versions, missing = interruption.run(environments.versions(asked.only.systems, plan.folder))
        except Interrupted:
            return 130
        for system, why in missing.items():
            print(f"skipped: {system}: {why}", file=sys.stderr, flush=True)
        choice = asked.only.limited(list(versions))
        driver = Driver(plan, environments, interruption, began + asked.minutes * 60)
        driver.run(choice.stores, choice.systems, choice.measurements)
    measured = driver.measured
    measured.skipped |= missing
    rows = rows_of(measured, choice.stores, choice.systems)
    report(measured, rows, versions)
    if asked.json:
        told = {
            "header": header, "size": plan.size, "rounds": plan.rounds, "versions": versions, "rows": as_json(rows),
            "skipped": measured.skipped, "failures": measured.failures, "stopped": measured.stopped,
        }  # fmt: skip
        Path(asked.json).write_text(json.dumps(told, indent=1) + "\n")
    if asked.plots:
        for file in plots.write(rows, Path(asked.plots)):
            print(f"wrote {file}", file=sys.stderr)
    if measured.is_interrupted:
        return 130
    return int(measured.has_failed or OURS not in versions)


def report(measured: Measured, rows: Sequence[Row], versions: dict[str, str]) -> None:
    """Print the tables, and what is not in them."""
    print(tables(rows, versions))
    print("ratios are onthedot : that system, in brackets; of rates more is better, of times less", flush=True)
    for store, why in measured.skipped.items():
        print(f"skipped: {store}: {why}", file=sys.stderr)
    for failure in measured.failures:
        print(f"failed: {failure}", file=sys.stderr)
    if measured.stopped:
        print(f"not everything was measured: {measured.stopped}", file=sys.stderr)


def machine(plan: Plan) -> str:
    """What a figure depends on, in one line."""
    facts = (
        f"size {plan.size:g}", f"rounds {plan.rounds}", f"seed {plan.seed}", f"Python {platform.python_version()}",
        f"SQLite {sqlite3.sqlite_version}", f"{platform.system()} {platform.machine()}", f"{os.cpu_count()} cores",
        f"load {os.getloadavg()[0]:.1f}",
    )  # fmt: skip
    return "onthedot bench-peers: " + ", ".join(facts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description="Compare onthedot with other systems, which take turns in one run.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    peers = ", ".join(one.name for one in SYSTEMS if one.name not in (OURS, BARE))
    names = f"store={'|'.join(STORES)}, peer=… ({peers}; bare), figure={'|'.join(MEASUREMENTS)}"
    parser.add_argument("--only", type=Choice.read, default=Choice(), metavar="WHAT", help=f"some of {names}")
    parser.add_argument("--rounds", type=whole, default=5, help="of which the median is taken (default: 5)")
    parser.add_argument("--size", type=positive, default=1.0, help="scales counts and times (default: 1)")
    parser.add_argument("--minutes", type=positive, default=120.0, help="begin nothing after so long (default: 120)")
    parser.add_argument("--json", metavar="FILE", help="write all figures, of every round")
    parser.add_argument("--plots", metavar="DIR", help="write bar charts, one SVG file per store")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn by chance")
    parser.add_argument(
        "--dir", default=None, help="where SQLite files are made: a local disk (default: temporary files)"
    )
    parser.add_argument("--environments", default=".venv-peers", help="where the peers are (default: .venv-peers)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
