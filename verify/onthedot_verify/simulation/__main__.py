"""`python -m onthedot_verify.simulation`: runs seeds, replays one exactly, and shrinks a failing one.

--seed 7                       one seed; prints its digest and each violation
--seed 7 --faults file.json    the same, with these faults instead of the drawn ones
--seed 7 --shrink              also writes the shortest list of faults that still breaks the rule to a file
--hours 20 --first 1           seeds from the first on, for 20 cluster-hours in all; stops at a failure
--hours 20 --store sqlite      the same on the SQL store: SQLite, in the simulation's own thread
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from onthedot.clock import Clock
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot_verify.checker import write
from onthedot_verify.simulation.cluster import OpenStore, Outcome, Scenario, simulate
from onthedot_verify.simulation.faults import CALM, from_json, to_json
from onthedot_verify.simulation.shrink import shrink

_REPORT_EVERY = 25
"""A long run prints its progress after this many seeds."""


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m onthedot_verify.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", help="run this seed only")
    parser.add_argument("--hours", type=float, default=1.0, help="cluster-hours in all, without --seed")
    parser.add_argument("--first", type=int, default=1, help="the first seed, without --seed")
    parser.add_argument("--store", choices=["memory", "sqlite"], default="memory", help="the store under test")
    parser.add_argument("--minutes", type=float, default=60.0, help="virtual minutes per seed")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--every", type=float, default=40.0, help="mean seconds between faults")
    parser.add_argument("--extra", default="", help="more kinds of faults: step, skew, late")
    parser.add_argument("--layouts", type=float, default=0.0, help="mean seconds between changes of the shard count")
    parser.add_argument(
        "--outages",
        type=float,
        default=500.0,
        help="mean seconds between outages of all nodes, or delayed edits; 0: none",
    )
    parser.add_argument("--calm", action="store_true", help="no weather: only the faults go wrong")
    parser.add_argument("--faults", type=Path, help="a file of faults to use")
    parser.add_argument("--history", type=Path, help="write the history to this file")
    parser.add_argument("--shrink", action="store_true", help="look for fewer faults that still break the rule")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    return parser.parse_args(argv)


def scenario_of(given: argparse.Namespace, seed: str) -> Scenario:
    scenario = Scenario(
        seed=seed, minutes=given.minutes, nodes=given.nodes, jobs=given.jobs, fault_every=given.every,
        extra_faults=tuple(kind for kind in given.extra.split(",") if kind), layout_every=given.layouts,
        outage_every=given.outages, exact=given.store == "memory",
    )  # fmt: skip
    if given.calm:
        scenario = replace(scenario, weather=CALM)
    if given.faults is not None:
        scenario = replace(scenario, faults=tuple(from_json(given.faults.read_text())))
    return scenario


def opener_of(name: str, folder: Path) -> OpenStore:
    """Return a function that opens a new store of this kind. SQLite gets a file in the folder."""
    if name == "memory":
        return MemoryStore

    from onthedot.stores.sqlite import SqliteStore

    def open_sqlite(clock: Clock) -> Awaitable[Store]:
        for old in folder.iterdir():
            old.unlink()
        return SqliteStore.open(folder / "otd.db", clock=clock, inline=True)

    return open_sqlite


def replay_command(scenario: Scenario, faults: Path | None = None, store: str = "memory") -> str:
    """The command that replays this run exactly."""
    usual = Scenario()
    words = [f"python -m onthedot_verify.simulation --seed {scenario.seed}"]
    words += [f"--store {store}"] if store != "memory" else []
    for option, value, default in (
        ("minutes", scenario.minutes, usual.minutes),
        ("nodes", scenario.nodes, usual.nodes),
        ("jobs", scenario.jobs, usual.jobs),
        ("every", scenario.fault_every, usual.fault_every),
        ("extra", ",".join(scenario.extra_faults), ""),
        ("layouts", scenario.layout_every, usual.layout_every),
        ("outages", scenario.outage_every, usual.outage_every),
    ):
        words += [f"--{option} {value}"] if value != default else []
    words += ["--calm"] if scenario.weather == CALM else []
    words += [f"--faults {faults}"] if faults is not None else []
    return " ".join(words)


def report(outcome: Outcome, most: int = 20) -> None:
    """Print the first violations, and how many more there are."""
    for violation in outcome.violations[:most]:
        print(f"  {violation}")
    if len(outcome.violations) > most:
        print(f"  … and {len(outcome.violations) - most} more")


def shrunk(outcome: Outcome, store: OpenStore, name: str) -> None:
    small = shrink(outcome, lambda scenario: simulate(scenario, store=store), tell=print)
    path = Path(f"faults-{outcome.scenario.seed}.json")
    path.write_text(to_json(list(small.scenario.faults or ())))
    report(small)
    print(
        f"{len(small.scenario.faults or ())} faults in {path}; replay:\n  {replay_command(small.scenario, path, name)}"
    )


def main(argv: list[str]) -> int:
    given = arguments(argv)
    shared_memory = Path("/dev/shm")  # noqa: S108 - our own folder in it, where a sync to disk costs nothing
    with TemporaryDirectory(
        prefix="onthedot-simulation-", dir=shared_memory if shared_memory.is_dir() else None
    ) as folder:
        return run(given, opener_of(given.store, Path(folder)))


def run(given: argparse.Namespace, store: OpenStore) -> int:
    """Run the seeds that were asked for. Returns 1 if one failed."""
    counts: Counter[str] = Counter()
    hours = failed = 0.0
    began = time.process_time()
    number = given.first
    while hours < given.hours:
        seed = given.seed or str(number)
        outcome = simulate(scenario_of(given, seed), store=store)
        hours, number, counts = hours + outcome.hours, number + 1, counts + outcome.counts
        if given.seed:
            print(f"seed {seed}: {outcome.digest}")
        if given.history is not None:
            write(given.history, outcome.events)
        if outcome.violations:
            failed += 1
            print(f"seed {seed}: {len(outcome.violations)} violations; replay:")
            print(f"  {replay_command(outcome.scenario, given.faults, given.store)}")
            report(outcome)
            if given.shrink:
                shrunk(outcome, store, given.store)
        if given.seed or (outcome.violations and not given.keep_going):
            break
        if number % _REPORT_EVERY == 0:
            print(f"{hours:.0f} of {given.hours:.0f} cluster-hours, {failed:.0f} seeds failed", file=sys.stderr)
    spent = time.process_time() - began
    print(
        f"{hours:.1f} cluster-hours in {spent:.1f} CPU s ({hours / spent:.2f} per CPU s): "
        f"{counts['start']} starts, {counts['nemesis']} faults, {counts['boot']} boots, {counts['reap']} reaps, "
        f"{counts['edit']} edits; {failed:.0f} seeds failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
