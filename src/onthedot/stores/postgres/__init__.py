"""For more than one machine: everything in one schema of a PostgreSQL database.

    url                    what the store's URL says      connections  opened, lent, ended when in doubt
    schema, migrations/    the tables                     transaction  what a call works on; the order of locks
    tables                 what all slices stand on       failures     the server's errors in our words
    partitions             history by month               wakeup       hints from process to process
    jobs plan shards control excepting submitting inserting reserve runs finish gates passing rates turns dependencies
    checkpoints nodes queues upkeep retention history finding standing documents transactions
    joining, callers       submitted in a transaction of the caller's own

READ COMMITTED, with explicit locks in one order (`transaction.py`). What was acknowledged survives `kill -9` and a
power cut as long as the server has `synchronous_commit` on, which is its default. No state of a session is used, so a
pooler that gives each transaction another session may be between (`?pooler=transaction`).
"""

from __future__ import annotations

from typing import Self

from onthedot.errors import OnTheDotError
from onthedot.stores.about import About
from onthedot.stores.postgres.checkpoints import Checkpoints
from onthedot.stores.postgres.documents import Documents
from onthedot.stores.postgres.excepting import Excepting
from onthedot.stores.postgres.finding import Finding
from onthedot.stores.postgres.joining import Joining
from onthedot.stores.postgres.letters import Letters
from onthedot.stores.postgres.nodes import Nodes
from onthedot.stores.postgres.queues import Queues
from onthedot.stores.postgres.retention import Retention
from onthedot.stores.postgres.shards import Shards
from onthedot.stores.postgres.standing import Standings
from onthedot.stores.postgres.transactions import PostgresTransactions
from onthedot.stores.postgres.upkeep import Upkeep
from onthedot.stores.postgres.url import read_url

TELL_PROMISE = """
SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')
"""


class PostgresStore(
    Excepting, Queues, Checkpoints, Nodes, Shards, Upkeep, Retention, Finding, Letters, Standings, Documents, Joining
):
    """All of it in one schema of a database."""

    @property
    def transactions(self) -> PostgresTransactions:
        """Transactions in which effects and completion are one commit."""
        return PostgresTransactions(self)

    @classmethod
    async def open(cls, url: str, *, read_only: bool = False) -> Self:
        """Connect to the server, and bring the tables in the schema that the URL names up to date.

        With `read_only` they must be there in their newest version, are left as they are, and only what people ask for
        is answered. `StoreUnusable` for what is not ours, or a user that may not in; `StoreUnavailable` for a server
        that cannot be reached; either says what to do.
        """
        store = cls(read_url(url), read_only=read_only)
        try:
            await store.connect()
        except OnTheDotError:
            await store.close()
            raise
        return store

    async def about(self) -> About:
        version, fsync, commit = await self.show(lambda tx: tx.row(TELL_PROMISE))
        lost = "nothing" if fsync == "on" and commit != "off" else "the last moments"
        promise = f"fsync {fsync}, synchronous_commit {commit}; a crash of the server's machine may lose {lost}"
        return About("PostgreSQL", version, promise, self.address.connections)


__all__ = ["PostgresStore"]
