"""The floors of ratios: `make bench` fails if a ratio to a bare limit of the same run is lower.

They are numbers in `floors.json`, and are in no other place. `python -m bench --write-floors` measures and writes them:
0.8 × the median of at least five alternating rounds. Differences and other values have fixed limits, in their benches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.results import Result
from bench.rounds import Plan

FILE = Path(__file__).with_name("floors.json")
SHARE, LEAST_ROUNDS = 0.8, 5

WITH_RATIOS = ("drain", "gated", "submitting", "history", "commands", "api")
"""The benches that have such lines."""


def is_ratio(line: Result) -> bool:
    """Whether the line has its floor here."""
    return line.measure == "ratio" and line.more_is_better


def read(file: Path) -> dict[str, float]:
    """Return the floors by the names of their lines."""
    floors: dict[str, float] = json.loads(file.read_text())
    return floors


def apply(results: Iterable[Result], floors: Mapping[str, float]) -> list[Result]:
    """Return the lines, and give each ratio its floor. A ratio that has none yet cannot fail."""
    return [replace(line, floor=floors.get(line.name, line.floor)) if is_ratio(line) else line for line in results]


def unknown(results: Iterable[Result], floors: Mapping[str, float]) -> list[str]:
    """Return the names of floors that no line has: their lines were renamed or removed."""
    return sorted(set(floors) - {line.name for line in results if is_ratio(line)})


def problem_of(plan: Plan) -> str:
    """Return why a run with this plan must not write floors; empty if it may."""
    if plan.size >= 1 and plan.rounds >= LEAST_ROUNDS and not plan.large:
        return ""
    return (
        f"--write-floors: expected at least {LEAST_ROUNDS} rounds of size 1, without --large; "
        f"got {plan.rounds} of size {plan.size:g}{', with --large' if plan.large else ''}"
    )


def write(results: Sequence[Result], file: Path, *, keep: Mapping[str, float]) -> dict[str, float]:
    """Write the floors of these lines, and return all floors. `keep` has those that were not measured."""
    measured = {line.name: float(f"{SHARE * line.measured:.3g}") for line in results if is_ratio(line)}
    floors = dict(sorted({**keep, **measured}.items()))
    file.write_text(json.dumps(floors, indent=1) + "\n")
    return floors
