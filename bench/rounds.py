"""Plans the measurements: their size, and alternating rounds, so that a noisy minute hits both sides."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

B = TypeVar("B")
O = TypeVar("O")  # noqa: E741 - (bare, ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The options of the command line."""

    folder: Path  # for databases: on a local disk
    size: float = 1.0
    rounds: int = 5
    seed: int = 1
    large: bool = False  # ten times as much history

    def count(self, full: int, least: int = 1) -> int:
        """Return a count scaled by `--size`, at least `least`."""
        return max(least, round(full * self.size))

    def seconds(self, full: float, least: float) -> float:
        """Return a duration scaled by `--size`, at least `least`."""
        return max(least, full * self.size)


def alternate(plan: Plan, bare: Callable[[int], B], ours: Callable[[int], O]) -> list[tuple[B, O]]:
    """Measure bare, ours, bare, ours, …, and return the pairs. Each call gets the number of its round.

    Garbage is collected before each call, so that no call pays for another.
    """
    pairs = []
    for number in range(plan.rounds):
        gc.collect()
        first = bare(number)
        gc.collect()
        pairs.append((first, ours(number)))
    return pairs


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all values do not exceed.

    >>> percentile([4, 1, 3, 2], 0.5), percentile(list(range(1, 101)), 0.99)
    (2, 99)
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a type for argparse that reads names separated by commas."""

    def names(text: str) -> list[str]:
        found = [name.strip() for name in text.split(",")]
        unknown = [name for name in found if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}, got {', '.join(unknown)}")
        return found

    return names


def positive(text: str) -> float:
    """Read a number above zero, for argparse."""
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a number above zero, got {text}")
    return value


def whole(text: str) -> int:
    """Read a whole number from 1, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text}")
    return value
