"""Makes ids and random numbers. Only this module (with `clock`) may use randomness."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, overload


@dataclass(frozen=True, slots=True)
class LeaseIds(Sequence[str]):
    """Lease ids of one call: one random part, and a number for each. Made when they are read: most are never used.

    >>> ids = LeaseIds("7f3a", 3)
    >>> list(ids), ids[:1]
    (['7f3a-0', '7f3a-1', '7f3a-2'], LeaseIds(call='7f3a', size=1))
    """

    call: str
    size: int

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> LeaseIds: ...
    def __getitem__(self, at: int | slice) -> str | LeaseIds:
        if isinstance(at, slice):
            first, end, step = at.indices(self.size)
            if first or step != 1:
                raise ValueError(f"expected the first ids, as in ids[:3], got {at}")
            return LeaseIds(self.call, end)
        if not 0 <= at < self.size:
            raise IndexError(at)
        return f"{self.call}-{at}"


class Ids(Protocol):
    """The source of names and random numbers. The simulator passes a seeded one."""

    def token(self) -> str:
        """A name that no other call anywhere has drawn (128 random bits)."""
        ...

    def leases(self, count: int) -> LeaseIds:
        """`count` lease ids, each unique for ever: one random part per call, one number per lease."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1), for jitter."""
        ...


_drawn: list[bytes] = []
"""Random bytes for the next names. Asking the system for each costs a thread that others wait for some 20 µs."""
os.register_at_fork(after_in_child=_drawn.clear)  # else both processes would draw the same


def _draw() -> bytes:
    try:
        return _drawn.pop()
    except IndexError:
        many = os.urandom(16 * 256)
        _drawn.extend(many[first : first + 16] for first in range(16, len(many), 16))
        return many[:16]


class RandomIds:
    """Names from the operating system's randomness."""

    def token(self) -> str:
        return _draw().hex()

    def leases(self, count: int) -> LeaseIds:
        return LeaseIds(_draw()[:10].hex(), count)

    def fraction(self) -> float:
        return random.random()  # noqa: S311 - spreads retries; guessing it gains nothing


class SeededIds:
    """The same names in the same order for the same seed."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable by design, for tests

    def token(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def leases(self, count: int) -> LeaseIds:
        return LeaseIds(f"{self._random.getrandbits(80):020x}", count)

    def fraction(self) -> float:
        return self._random.random()
