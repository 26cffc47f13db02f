"""Time limits of transactions, so that a frozen client does not hold its locks for ever.

PostgreSQL 17 and later end a transaction that takes too long (`transaction_timeout`). Older servers end an idle
transaction, but not one whose client stopped inside a statement. `prepared.py` avoids that.
"""

from __future__ import annotations

from typing import NamedTuple

from onthedot.clock import MILLISECOND, SECOND, Micros

SHORT: Micros = 2 * SECOND
"""For all that others wait for: beats, reserving, arming, finishing, planning."""

PER_RUN: Micros = 4 * MILLISECOND
"""What each run adds that is submitted: nobody asks again for the caller."""

MIGRATION: Micros = 3600 * SECOND

DAY: Micros = 24 * 3600 * SECOND

SHOWING: Micros = 120 * SECOND
"""For listings, which hold nothing that others wait for."""


class Kind(NamedTuple):
    """What is to be known of a transaction before it begins. `name` tells it from others of the same limits."""

    name: str
    limit: Micros
    reading: bool = False
    timeout: float | None = None  # of each statement, in seconds, if it is not the connection's own


class Limits:
    """The limits of one store's transactions.

    A kind of transaction that took too long gets twice the time, up to `long`, until it is fast again. The engine
    retries, so a large batch on a slow machine passes in the end.

    >>> limits = Limits(timeout=8.0)
    >>> limits.overran("plan")
    >>> limits.of("plan") // SECOND, limits.of("beat") // SECOND
    (4, 2)
    >>> limits.took("plan", 3 * SECOND)  # by itself it would have been too slow again
    >>> limits.of("plan") // SECOND
    4
    >>> limits.took("plan", SECOND // 2)
    >>> limits.of("plan") // SECOND
    2
    """

    def __init__(self, *, timeout: float) -> None:
        self.long: Micros = max(SHORT, round(2 * timeout * SECOND))  # edits, retention, reads: of several statements
        self.lease: Micros | None = None  # of the node that uses the store, once it has registered
        self._longer: dict[str, Micros] = {}

    def know_lease(self, ttl: Micros) -> None:
        """The store is used by a node with such a lease."""
        self.lease = min(max(ttl, SECOND), DAY)

    def of(self, kind: str) -> Micros:
        """How long a transaction of this kind may take now."""
        return self._longer.get(kind, SHORT)

    def overran(self, kind: str) -> None:
        """It was ended: the next one gets longer."""
        self._longer[kind] = min(2 * self.of(kind), self.long)

    def took(self, kind: str, time: Micros) -> None:
        """It has passed in this time."""
        if self._longer and time < SHORT // 2:
            self._longer.pop(kind, None)
