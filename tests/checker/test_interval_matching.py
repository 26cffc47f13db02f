"""Greedy matching of executions to targets finds as large a matching as brute force."""

import random
from itertools import combinations, permutations

from onthedot_verify.checker.interval_matching import match


def best(targets, points) -> int:
    """The size of the largest matching, by brute force."""
    for size in range(min(len(targets), len(points)), 0, -1):
        for chosen in combinations(range(len(targets)), size):
            for given in permutations(points, size):
                fits = zip((targets[n] for n in chosen), given, strict=True)
                if all(first <= point <= last for (first, last), point in fits):
                    return size
    return 0


def test_greedy_matching_equals_brute_force():
    chance = random.Random(1)
    for _ in range(1_000):
        targets = [(start := chance.randrange(12), start + chance.randrange(6)) for _ in range(chance.randrange(5))]
        points = [chance.randrange(16) for _ in range(chance.randrange(5))]
        found = match(targets, points)
        assert len(targets) - len(found.unserved) == len(points) - len(found.extra) == best(targets, points)
