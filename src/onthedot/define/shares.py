"""How a queue may be shared: what is wrong with weights is found before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping

from onthedot.model.errors import DefinitionError

MOST_WEIGHT = 1_000
MOST_SHARES = 1_000


def check_weights(weights: Mapping[str, int]) -> None:
    """`DefinitionError` unless every weight is a whole number from 1 to 1,000."""
    problems = [
        f"share {name!r}: expected a weight from 1 to {MOST_WEIGHT}, got {weight!r}"
        for name, weight in weights.items()
        if not 1 <= weight <= MOST_WEIGHT
    ]
    if len(weights) > MOST_SHARES:
        problems.append(f"shares: expected at most {MOST_SHARES}, got {len(weights)}; who is not named has 1")
    if problems:
        raise DefinitionError(problems)
