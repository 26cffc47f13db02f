"""The SQLite store, the embedded default: one durable file, for several processes on one machine.

    schema, migrations/    the tables                    connection     waits for the lock; translates errors
    database               the two threads on the file   writer_thread  one of them, with group commit
    fast_finish            ends plain runs quickly       wakeup         hints between processes

The store's operations are in `stores/sql/`.

WAL and synchronous=FULL: what was acknowledged survives `kill -9` and a power cut. A process that freezes inside a
write blocks the others until it wakes or ends. The others are late, but never wrong. The file must be on a local disk.
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
    transactions: None = None  # exactly_once is refused: a handler cannot share the only writer

    @property
    def clock(self) -> Clock:
        return self.database.clock

    @classmethod
    async def open(
        cls, path: str | Path, *, clock: Clock | None = None, inline: bool = False, read_only: bool = False
    ) -> Self:
        """Open the file and bring its tables up to date. A new file is for this user only.

        With `inline` every call runs at once on the calling thread, with the same code. Event loops with virtual time
        need this, because an answer from another thread has no instant there. With `read_only` the file must exist with
        the newest schema. It is not changed, and the store only answers reads for people. Raise `StoreUnusable` if the
        file is not a database of ours. Raise `StoreUnavailable` if it stays locked for 5 s. Either error says what to
        do.
        """
        store = cls(SqliteDatabase(str(path), clock or SystemClock(), inline=inline, read_only=read_only))
        try:
            await store.database.connect()
        except StoreError:
            await store.close()
            raise
        return store


__all__ = ["SqliteStore"]
