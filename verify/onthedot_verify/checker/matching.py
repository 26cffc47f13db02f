"""Chronos-style matching: distinct executions for targets, blind to what either claims to be.

A target is an interval of time in which something had to happen; an execution is a point. Each execution may serve one
target. Intervals and points make a convex bipartite graph, in which the greedy choice is exact: go through the points
in order, and give each to the open target that closes first. O(n log n), no solver.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Matching:
    """Which targets nobody served, and which points served none (by index)."""

    unserved: tuple[int, ...]
    extra: tuple[int, ...]


def match(targets: Sequence[tuple[int, int]], points: Sequence[int]) -> Matching:
    """Match points to targets (first, last), as many as can be.

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
