"""Statements that are prepared before their transaction begins.

To parse a statement, asyncpg sends Parse, Describe and Flush, and waits for the answer. A client that freezes there
keeps its locks until it wakes: servers below 17 have no time-out between Flush and Sync. So we prepare the statements
of each kind of transaction before BEGIN. A transaction that meets a new statement is undone (`Unprepared`), and starts
over with it: once per kind and process.

Behind a pooler no session keeps a statement. Each use then sends everything from Parse to Sync at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onthedot.stores.postgres.connections import Session

Row = tuple[Any, ...]

AT_ONCE = 65_536
"""Bytes. asyncpg sends what `executemany` is given in pieces of 128 KiB, and waits between them before it syncs."""


class Unprepared(Exception):
    """The statement is not prepared on this connection, and the transaction has begun already."""

    def __init__(self, statement: str) -> None:
        super().__init__(statement)
        self.statement = statement


async def prepare(db: Session, statements: Iterable[str], begin: str) -> None:
    """Prepare the missing statements, in a transaction without locks."""
    missing = [statement for statement in statements if statement not in db.statements]
    if not missing:
        return
    await db.execute(begin)
    for statement in missing:
        db.statements[statement] = await db.prepare(statement)
    await db.execute("ROLLBACK")


class Prepared:
    """A connection for `Transaction` that runs prepared statements only."""

    def __init__(self, db: Session) -> None:
        self._db = db

    def _find(self, statement: str) -> Any:
        found = self._db.statements.get(statement)
        if found is None:
            raise Unprepared(statement)
        return found

    async def fetch(self, statement: str, *values: object, timeout: float | None = None) -> list[Any]:
        found: list[Any] = await self._find(statement).fetch(*values, timeout=timeout)
        return found

    async def execute(self, statement: str, *values: object) -> str:
        """Without values it goes as one message, which has nothing to be prepared."""
        if not values:
            return await self._db.execute(statement)
        found = self._find(statement)
        await found.fetch(*values)
        status: str = found.get_statusmsg()
        return status

    async def executemany(self, statement: str, rows: Iterable[Row]) -> None:
        found = self._find(statement)
        for some in _in_pieces(rows):
            await found.executemany(some)


def _in_pieces(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """As many rows as are surely sent at once; a large one by itself."""
    piece: list[Row] = []
    size = 0
    for row in rows:
        more = 64 + sum(4 * len(value) if isinstance(value, str) else 16 for value in row)
        if piece and size + more > AT_ONCE:
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += more
    if piece:
        yield piece
