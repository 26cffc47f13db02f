"""`Chance`: seeded random numbers. Each purpose has its own source, so a new draw of one does not change another."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from onthedot.ids import SeededIds

T = TypeVar("T")


class Chance:
    """A seeded source of numbers and choices."""

    def __init__(self, seed: str) -> None:
        self._ids = SeededIds(seed)
        self.fraction = self._ids.fraction

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.fraction()

    def whole(self, below: int) -> int:
        return int(self.fraction() * below)

    def choice(self, values: Sequence[T]) -> T:
        return values[self.whole(len(values))]

    def shuffle(self, values: list[T]) -> None:
        for place in range(len(values) - 1, 0, -1):
            other = self.whole(place + 1)
            values[place], values[other] = values[other], values[place]


def keyed(*parts: object) -> float:
    """A number in [0, 1) that depends only on these values, whatever was drawn before."""
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big") / (1 << 48)
