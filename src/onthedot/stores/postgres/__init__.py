"""The PostgreSQL store, for more than one machine: everything in one schema of a database.

    connections            from a URL to a connection     transaction  one transaction; history by month
    schema, migrations/    the tables                     retries      transactions again after a conflict
    database               reads and writes               errors       the server's errors in our words
    fast_finish            ends plain runs in one         wakeup       hints between processes
    fast_submit            stores new runs in one statement
    exactly_once           effects and completion in one commit
    caller_transaction     runs that are submitted in a transaction of the caller's own

What the store does is in `stores/sql/`.

READ COMMITTED, with explicit locks in one order (`transaction.py`). What was acknowledged survives `kill -9` and a
power cut as long as the server has `synchronous_commit` on, which is its default. The store uses no state of a session,
so it works through a pooler that gives each transaction another session (`?pooler=transaction`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from onthedot.clock import Micros
from onthedot.model.errors import OnTheDotError
from onthedot.model.job import JobRecord
from onthedot.model.run import NewRun
from onthedot.stores.postgres.caller_transaction import caller_of, submit_within
from onthedot.stores.postgres.connections import read_url
from onthedot.stores.postgres.database import PostgresDatabase
from onthedot.stores.postgres.exactly_once import PostgresTransactions
from onthedot.stores.postgres.wakeup import Listener
from onthedot.stores.sql.store import SqlStore
from onthedot.stores.transactions import Joined


class PostgresStore(SqlStore):
    """The store in one schema of a PostgreSQL database."""

    database: PostgresDatabase

    @property
    def listener(self) -> Listener | None:
        """The listener for hints of other processes, or None."""
        return self.database.listener

    @property
    def transactions(self) -> PostgresTransactions:
        """The transactions in which effects and completion are one commit."""
        return PostgresTransactions(self.database)

    def blocks(self, connection: Any) -> bool:
        return caller_of(connection).blocks

    async def submit_within(
        self, connection: Any, runs: Sequence[NewRun], jobs: Sequence[JobRecord], *, now: Micros | None = None
    ) -> list[Joined]:
        return await submit_within(self.database, connection, runs, jobs, now)

    @classmethod
    async def open(cls, url: str, *, read_only: bool = False) -> Self:
        """Connect to the server, and bring the tables in the schema that the URL names up to date.

        With `read_only` the tables must exist in their newest version. They are not changed, and the store only answers
        reads for people. Raise `StoreUnusable` if the tables are not ours, or the user has no access. Raise
        `StoreUnavailable` if the server cannot be reached. Either error says what to do."""
        store = cls(PostgresDatabase(read_url(url), read_only=read_only))
        try:
            await store.database.connect()
        except OnTheDotError:
            await store.close()
            raise
        return store


__all__ = ["PostgresStore"]
