"""Transactions in memory: effects that are kept on commit only, so that jobs under exactly_once can be tested.

What the handler is given comes from `connect`: by default `Statements`, which notes what it is told to execute. Any
other object will do. Its `commit` and `rollback`, if it has them, are called at the end; they must not be coroutines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from onthedot.clock import Micros
from onthedot.errors import LeaseLost, StateError
from onthedot.run import Lease, RunState
from onthedot.stores.memory.tables import Run, Tables
from onthedot.verdict import Finish


class Statement(NamedTuple):
    """One statement of a committed transaction, and whose it was."""

    run_id: int
    fence: int
    sql: str
    args: tuple[Any, ...]


class Statements:
    """A connection that only takes notes. It has the usual verbs, and every query finds nothing."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, tuple[Any, ...]]] = []

    async def execute(self, sql: str, *args: Any) -> str:
        """Note a statement."""
        self.noted.append((sql, args))
        return ""

    async def executemany(self, sql: str, args: Any) -> None:
        """Note a statement for each of these arguments."""
        self.noted.extend((sql, tuple(one)) for one in args)

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        """Note a query: no rows."""
        self.noted.append((sql, args))
        return []

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        """Note a query: no row."""
        self.noted.append((sql, args))

    async def fetchval(self, sql: str, *args: Any) -> Any:
        """Note a query: no value."""
        self.noted.append((sql, args))


Connect = Callable[[], Any]


class Transacting(Tables):
    """What the memory store does for its transactions. Nothing here awaits: it is one step."""

    statements: list[Statement]
    """What was executed in transactions that are committed, in their order."""

    def run_under(self, lease: Lease) -> Run | None:
        """The run, if it is running under this lease."""
        run = self.runs.get(lease.run_id)
        if run is None or run.state is not RunState.RUNNING or run.lease is None:
            return None
        return run if run.lease.lease_id == lease.lease_id else None

    def commit_effects(self, connection: Any, finish: Finish) -> bool:
        """Fence check, effects and completion."""
        run = self.run_under(finish.lease)
        if run is None:
            return False
        self.keep_effects(connection, run)
        self.end_attempt(run, finish)
        return True

    def keep_effects(self, connection: Any, run: Run) -> None:
        """What the handler wrote counts from now on."""
        if isinstance(connection, Statements):
            fence = run.lease.fence if run.lease else 0
            self.statements += [Statement(run.id, fence, sql, args) for sql, args in connection.noted]
        elif callable(commit := getattr(connection, "commit", None)):
            commit()


class MemoryTransaction:
    """See `Transaction`."""

    def __init__(self, store: Transacting, connection: Any) -> None:
        self._store = store
        self._over = False
        self._answer: bool | None = None  # of the commit
        self.connection = connection

    async def commit(self, finish: Finish, *, now: Micros | None = None) -> bool:
        del now
        if self._answer is not None:
            return self._answer
        if self._over:
            raise StateError("commit: expected a transaction that is open, got one that was rolled back")
        if finish.verdict.state is not RunState.SUCCEEDED:
            self._roll_back()
            raise StateError(f"commit: expected the verdict succeeded, got {finish.verdict.state}")
        try:
            self._answer = self._store.commit_effects(self.connection, finish)
        finally:
            if not self._answer:
                self._roll_back()
            self._over = True
        return self._answer

    async def rollback(self) -> None:
        if not self._over:
            self._roll_back()

    def _roll_back(self) -> None:
        self._over = True
        if callable(undo := getattr(self.connection, "rollback", None)):
            undo()


class MemoryTransactions:
    """See `Transactions`."""

    loop_bound = False

    def __init__(self, store: Transacting, connect: Connect) -> None:
        self._store = store
        self._connect = connect

    async def begin(self, lease: Lease, *, now: Micros | None = None) -> MemoryTransaction:
        del now
        if self._store.run_under(lease) is None:
            raise LeaseLost(f"run {lease.run_id}: attempt {lease.attempt} has lost its lease; end it")
        return MemoryTransaction(self._store, self._connect())
