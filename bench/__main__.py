"""Runs `python -m bench`: it prints the table, and exits with 1 if a floor was missed."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench import (
    api,
    commands,
    commands_end_to_end,
    drain,
    drain_postgres,
    drain_redis,
    failover,
    floors,
    gated,
    herd,
    history,
    history_postgres,
    history_redis,
    imports,
    lateness,
    memory_redis,
    schedules,
    schedules_postgres,
    schedules_redis,
    sizing,
    submit,
    submitting_postgres,
    submitting_redis,
)
from bench.results import BenchFailed, Result, exit_code, missed, short, table
from bench.rounds import Plan, positive, some_of, whole

Bench = Callable[[Plan], list[Result]]


def _all(*benches: Bench) -> Bench:
    return lambda plan: [line for bench in benches for line in bench(plan)]


BENCHES: dict[str, Bench] = {
    "drain": _all(drain.run, drain_postgres.run, drain_redis.run),
    "gated": gated.run,
    "lateness": lateness.run,
    "submit": submit.run,
    "submitting": _all(submitting_postgres.run, submitting_redis.run),
    "history": _all(history.run, history_postgres.run, history_redis.run),
    "schedules": _all(schedules.run, schedules_postgres.run, schedules_redis.run),
    "memory": memory_redis.run,
    "imports": imports.run,
    "herd": herd.run,
    "sizing": sizing.run,
    "failover": failover.run,
    "commands": _all(commands.run, commands_end_to_end.run),
    "api": api.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen benches. Returns 1 if a bench failed or a floor was missed at full size, else 0."""
    asked = _parser().parse_args(arguments)
    names = asked.only or list(floors.WITH_RATIOS if asked.write_floors else BENCHES)
    found: dict[str, list[Result]] = {}
    known = floors.read(floors.FILE)
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="onthedot-bench-", dir=asked.dir) as folder:
        plan = Plan(folder=Path(folder), size=asked.size, rounds=asked.rounds, seed=asked.seed, large=asked.large)
        if asked.write_floors and (problem := floors.problem_of(plan)):
            print(problem, file=sys.stderr)
            return 2
        header = machine(plan)
        _print(header, to_stderr=asked.json)
        for name in names:
            found[name] = floors.apply(_measure(name, plan, failures), known)
    results = [line for lines in found.values() for line in lines]
    if asked.json:
        print(json.dumps({"header": header, "failures": failures, "results": [line.as_json() for line in results]}))
    else:
        print(table(results))
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    if asked.write_floors:
        return _write_floors(results, failures, measured_all=set(names) >= set(floors.WITH_RATIOS))
    if plan.size < 1:
        print(f"size {plan.size:g}: floors count at size 1 only", file=sys.stderr)
    for name, lines in found.items() if plan.size >= 1 else ():
        for floor in missed(lines):
            print(f'floor missed: {floor}; to see it again: make bench ARGS="--only {name}"', file=sys.stderr)
    if names == list(BENCHES) and not failures:
        for name in floors.unknown(results, known):
            print(f"{floors.FILE.name} has a floor for {name!r}, and no bench has that line", file=sys.stderr)
    return exit_code(results, failures, size=plan.size)


def _write_floors(results: list[Result], failures: list[str], *, measured_all: bool) -> int:
    """Write the floors of these lines. Keep the floors of other lines, unless all ratios were measured."""
    if failures:
        print(f"{floors.FILE.name} is not changed, because a bench failed", file=sys.stderr)
        return 1
    before = floors.read(floors.FILE)
    after = floors.write(results, floors.FILE, keep={} if measured_all else before)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            print(f"floor of {name}: {short(before.get(name))} before, {short(after.get(name))} now", file=sys.stderr)
    print(f"wrote {floors.FILE.name}; commit it", file=sys.stderr)
    return 0


def _measure(name: str, plan: Plan, failures: list[str]) -> list[Result]:
    folder = plan.folder / name
    folder.mkdir()
    own = replace(plan, folder=folder)
    began = time.perf_counter()
    try:
        results = BENCHES[name](own)
    except BenchFailed as failure:
        failures.append(str(failure))
        results = []
    print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return results


def _print(text: str, *, to_stderr: bool) -> None:
    print(text, file=sys.stderr if to_stderr else sys.stdout, flush=True)


def machine(plan: Plan) -> str:
    """Return the facts that figures depend on, in one line."""
    facts = (
        f"size {plan.size:g}", f"rounds {plan.rounds}", f"seed {plan.seed}", f"Python {platform.python_version()}",
        f"SQLite {sqlite3.sqlite_version}", f"{platform.system()} {platform.release()} {platform.machine()}",
        f"{os.cpu_count()} cores", f"load {os.getloadavg()[0]:.1f}", str(plan.folder.parent),
    )  # fmt: skip
    return "onthedot bench: " + ", ".join(facts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure onthedot against its budgets.")
    parser.add_argument("--only", type=some_of(list(BENCHES)), default=[], help=f"some of {','.join(BENCHES)}")
    parser.add_argument("--size", type=positive, default=1.0, help="scales counts and times; floors count only at 1")
    parser.add_argument("--rounds", type=whole, default=5, help="number of alternating rounds; results are medians")
    parser.add_argument("--seed", type=int, default=1, help="seed for all random choices")
    parser.add_argument("--dir", default=None, help="folder for databases, on a local disk (default: temporary files)")
    parser.add_argument("--large", action="store_true", help="ten times as much history: ten million finished runs")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument(
        "--write-floors", action="store_true",
        help=f"measure the ratios and write {floors.FILE.name}: {floors.SHARE} × the medians; "
        "without --only, all benches that have ratios",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
