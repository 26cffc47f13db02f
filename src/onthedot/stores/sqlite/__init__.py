"""The SQLite store, the embedded default: one file, several processes on one machine, everything kept.

    schema, migrations/    the tables                    connection     waiting for the lock; errors in our words
    database               the two threads on the file   writer_thread  one of them, with group commit
    fast_finish            ends plain runs quickly       wakeup         hints between processes

What the store does is in `stores/sql/`.

WAL and synchronous=FULL: what was acknowledged survives `kill -9` and a power cut. A process that is frozen inside
a write stops the others until it wakes or dies: they are late, never wrong. The file must lie on a local disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from onthedot.clock import Clock, SystemClock
from onthedot.model.errors import StoreError
from onthedot.stores.sql.store import SqlStore
from onthedot.stores.sqlite.database import SqliteDatabase


class SqliteStore(SqlStore):
    """The store in one SQLite file."""

    database: SqliteDatabase
    transactions: None = None  # a handler's own writes cannot share the one writer: exactly_once is refused

    @property
    def clock(self) -> Clock:
        return self.database.clock

    @classmethod
    async def open(
        cls, path: str | Path, *, clock: Clock | None = None, inline: bool = False, read_only: bool = False
    ) -> Self:
        """Open the file, creating it (for this user only) and bringing its tables up to date.

        With `inline` every call runs at once on the calling thread, by the same code: for event loops whose time
        is virtual, where an answer from another thread would come at no time at all. With `read_only` the file must
        be there with the newest schema, is left as it is, and only what people ask for is answered. `StoreUnusable`
        for what is not a database of ours, `StoreUnavailable` for one that is locked for 5 s; either says what to do.
        """
        store = cls(SqliteDatabase(str(path), clock or SystemClock(), inline=inline, read_only=read_only))
        try:
            await store.database.connect()
        except StoreError:
            await store.close()
            raise
        return store


__all__ = ["SqliteStore"]
