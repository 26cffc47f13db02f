"""What a call works on: a connection inside its transaction, and what is to follow once that is committed.

Locks are taken in one order, and waited for: node, term, job, the sets of those who run after it, gates by key, queue,
runs. What turns out to be needed out of order is not waited for: if somebody has it, the transaction is undone and
made again (`Contended`). So no two transactions wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

from onthedot.clock import Micros
from onthedot.stores.base import Hint
from onthedot.stores.postgres.connections import Connection
from onthedot.stores.postgres.failures import Contended

NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
"""The store's clock: the server's, in microseconds."""

READ_CLOCK = f"SELECT {NOW}"

LOCK_KEYS = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || key, 0)) FROM unnest($1::text[]) key"

TRY_KEYS = (
    "SELECT bool_and(pg_try_advisory_xact_lock(hashtextextended(current_schema() || key, 0)))"
    " FROM unnest($1::text[]) key"
)

Row = Sequence[Any]


STRIPES = 1024
"""Into how many locks the keys of one kind are divided: a server has room for some thousands at a time."""


def striped(kind: str, key: str) -> str:
    """The name of the lock that stands for a key, and for others that happen to share it.

    >>> striped("gate", "limit:job:7:")
    'gate:0250'
    """
    return f"{kind}:{crc32(key.encode()) % STRIPES:04}"


def plain(text: str | None) -> str | None:
    """What a handler or a person has written, as PostgreSQL can keep it: no zero character, and no half of a pair.

    >>> plain("fine"), plain("a\\0b\\ud800")
    ('fine', 'a?b?')
    """
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "?").encode("utf-8", "replace").decode()


class Transaction:
    """One transaction. `months`: partitions that were made in it, and are there once it is committed. `timeout`: of
    each statement in seconds, if it is not the connection's own."""

    __slots__ = ("_keys", "db", "hints", "known_months", "months", "timeout")

    def __init__(
        self, db: Connection, known_months: frozenset[int] = frozenset(), timeout: float | None = None
    ) -> None:
        self.db = db
        self.timeout = timeout
        self.hints: list[Hint] = []
        self.known_months = known_months
        self.months: set[int] = set()
        self._keys: list[str] = []  # that are locked, in order

    async def rows(self, statement: str, *values: object) -> list[Any]:
        """All rows."""
        return await self.db.fetch(statement, *values, timeout=self.timeout)

    async def row(self, statement: str, *values: object) -> Any:
        """The first row, or None."""
        return await self.db.fetchrow(statement, *values, timeout=self.timeout)

    async def value(self, statement: str, *values: object) -> Any:
        """The first value of the first row, or None."""
        return await self.db.fetchval(statement, *values, timeout=self.timeout)

    async def do(self, statement: str, *values: object) -> int:
        """Change rows; how many there were."""
        status = await self.db.execute(statement, *values)
        return int(status.rpartition(" ")[2])

    async def each(self, statement: str, rows: Iterable[Row]) -> None:
        """Do the same with each of these values."""
        await self.db.executemany(statement, rows)

    async def clock(self, now: Micros | None) -> Micros:
        """The store's clock; a value is a test turning the crank."""
        return await self.value(READ_CLOCK) if now is None else now

    async def lock_keys(self, keys: Iterable[str], *, late: bool = False) -> None:
        """Hold these keys until the end of the transaction, in their order. What comes out of order is not waited for;
        nor is what comes `late`, when runs are locked already.

        Keys are names that begin with what they are for; nobody else is between their holder and what they stand for.
        """
        wanted = sorted(set(keys) - set(self._keys))
        if not wanted:
            return
        if not late and (not self._keys or wanted[0] > self._keys[-1]):
            await self.rows(LOCK_KEYS, wanted)
        elif not await self.value(TRY_KEYS, wanted):
            raise Contended(f"a lock for one of {wanted}")
        self._keys = sorted({*self._keys, *wanted})
