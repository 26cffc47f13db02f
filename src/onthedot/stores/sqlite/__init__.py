"""The embedded default: one file, several processes on one machine, everything kept.

    schema, migrations/    the tables                    connection   waiting for the lock
    lane                   a thread, group commit        failures     SQLite's errors in our words
    tables                 what all slices stand on      wakeup       hints from process to process
    jobs plan shards control excepting reserve runs finish checkpoints nodes upkeep retention history finding
    standing documents

WAL and synchronous=FULL: what was acknowledged survives `kill -9` and a power cut. A process that is frozen inside
a write stops the others until it wakes or dies: they are late, never wrong. The file must lie on a local disk.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Self

from onthedot.clock import Clock, SystemClock
from onthedot.errors import StoreError
from onthedot.stores.about import About
from onthedot.stores.sqlite.checkpoints import Checkpoints
from onthedot.stores.sqlite.documents import Documents
from onthedot.stores.sqlite.excepting import Excepting
from onthedot.stores.sqlite.finding import Finding
from onthedot.stores.sqlite.letters import Letters
from onthedot.stores.sqlite.nodes import Nodes
from onthedot.stores.sqlite.queues import Queues
from onthedot.stores.sqlite.retention import Retention
from onthedot.stores.sqlite.shards import Shards
from onthedot.stores.sqlite.standing import Standings
from onthedot.stores.sqlite.upkeep import Upkeep


class SqliteStore(
    Excepting, Queues, Checkpoints, Nodes, Shards, Upkeep, Retention, Finding, Letters, Standings, Documents
):
    """All of it in one SQLite file."""

    transactions: None = None  # a handler's own writes cannot share the one writer: exactly_once is refused

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
        store = cls(str(path), clock or SystemClock(), inline=inline, read_only=read_only)
        try:
            await store.connect()
        except StoreError:
            await store.close()
            raise
        return store

    async def about(self) -> About:
        return About("SQLite", sqlite3.sqlite_version, "all of it, as far as its disk keeps what it has synced")


__all__ = ["SqliteStore"]
