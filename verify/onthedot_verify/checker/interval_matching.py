"""Matches executions to the intervals in which they had to happen, without using what an execution claims to be.

A target is an interval of time, and an execution is a point. Each execution serves at most one target. For intervals
and points a greedy choice finds the largest matching: take the points in order, and give each to the open target that
closes first. This takes O(n log n). Jepsen's test of Chronos matches in the same way, with a solver.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Matching:
    """The targets without a point, and the points without a target, by index."""

    unserved: tuple[int, ...]
    extra: tuple[int, ...]


def match(targets: Sequence[tuple[int, int]], points: Sequence[int]) -> Matching:
    """Find a largest matching of points to targets (first, last).

    >>> match([(0, 10), (5, 6)], [5, 7, 20])
    Matching(unserved=(), extra=(2,))
    """
    opening = sorted(range(len(targets)), key=lambda n: targets[n])
    open_targets: list[tuple[int, int]] = []  # (closes, index)
    unserved: list[int] = []
    extra: list[int] = []
    coming = 0
    for number in sorted(range(len(points)), key=lambda n: points[n]):
        point = points[number]
        while coming < len(opening) and targets[opening[coming]][0] <= point:
            heapq.heappush(open_targets, (targets[opening[coming]][1], opening[coming]))
            coming += 1
        while open_targets and open_targets[0][0] < point:
            unserved.append(heapq.heappop(open_targets)[1])
        if open_targets:
            heapq.heappop(open_targets)
        else:
            extra.append(number)
    unserved += [number for _, number in open_targets] + opening[coming:]
    return Matching(tuple(sorted(unserved)), tuple(sorted(extra)))
