"""The store in memory: the moves of `stores/sql/` on an in-memory SQLite database. It ends with its process.

For tests, for virtual time, and to try things out. Every call is done at once, on the thread that makes it: nothing
here waits. A new store is a copy of a template, which takes 0.3 ms. Creating the tables would take 12 ms.
"""

from __future__ import annotations

import atexit
import sqlite3
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

from onthedot.clock import Clock, Micros, SystemClock
from onthedot.model.errors import LeaseLost, StateError
from onthedot.model.run import Lease, NewRun, RunState
from onthedot.model.verdict import Finish
from onthedot.stores.hints import Hints
from onthedot.stores.sql.finish import LOCK_RUNS, lock_for, move_runs
from onthedot.stores.sql.port import Move, Tx
from onthedot.stores.sql.records import Records
from onthedot.stores.sql.store import SqlStore
from onthedot.stores.sqlite.connection import roll_back, translate
from onthedot.stores.sqlite.fast_finish import finish_plain
from onthedot.stores.sqlite.schema import make_in_memory
from onthedot.stores.sqlite.writer_thread import Transaction
from onthedot.stores.transactions import run_now
from onthedot.stores.values import About

T = TypeVar("T")
P = ParamSpec("P")

_NAME = "memory:"

# Room for every statement of the moves: preparing one again costs as much as executing it ten times.
_STATEMENTS = 512


# ── the database ─────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _template() -> sqlite3.Connection:
    """A database with all tables, and nothing in them."""
    db = make_in_memory()
    atexit.register(db.close)
    return db


class SqliteMemory:
    """See `sql.port.Database`. One connection, used on the thread of the caller."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.hints = Hints()
        self.records = Records()
        self.lock = threading.Lock()  # the program's loop and the engine's may call at the same time
        self.db = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS
        )
        weakref.finalize(self, self.db.close)  # nobody has to close a store in memory
        _template().backup(self.db)
        self.db.executescript("PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;")
        self.db.create_function("onthedot_now", 0, clock.now)

    async def write(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        tx = Transaction(self.db, self.records, self.clock)
        with self.lock:
            try:
                self.db.execute("BEGIN")
                answer: T = run_now(move(tx, *args, **named))
                self.db.execute("COMMIT")
            except BaseException as error:
                self.records.forget()  # definitions read in it may never be committed
                roll_back(self.db)
                if isinstance(error, sqlite3.Error):
                    raise translate(error, _NAME) from error
                raise
        for hint in tx.hints:
            self.hints.send(hint)
        return answer

    async def write_many(self, count: int, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        del count
        return await self.write(move, *args, **named)

    async def read(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Without BEGIN: nobody writes before it is done."""
        with self.lock:
            try:
                return run_now(move(Transaction(self.db, self.records, self.clock), *args, **named))
            except sqlite3.Error as error:
                raise translate(error, _NAME) from error

    write_long = write
    look = read_short = read

    async def finish_plain(self, finishes: Sequence[Finish]) -> frozenset[str]:
        return await self.write(_finish_plain, finishes)

    any_loop = False

    async def submit_new(self, runs: Sequence[NewRun], now: Micros | None) -> None:
        """None: there is no faster way than the move."""

    async def drop_room(self, until: Micros) -> None:
        """Nothing to do: history is one table."""

    def know_lease(self, ttl: Micros) -> None:
        """Nothing depends on it."""

    async def tell_time(self) -> Micros:
        return self.clock.now()

    async def about(self) -> About:
        return About("memory", "", "nothing: it ends with its process")

    async def close(self) -> None:
        """Nothing to do: a test may still look at what is stored. The connection is closed when
        nothing refers to the database any more."""


async def _finish_plain(tx: Transaction, finishes: Sequence[Finish]) -> frozenset[str]:
    return finish_plain(tx, finishes)


# ── transactions of handlers ─────────────────────────────────────────────────────────────────────────────────


class Statement(NamedTuple):
    """One statement of a committed transaction, with the run and the fence of its attempt."""

    run_id: int
    fence: int
    sql: str
    args: tuple[Any, ...]


class Statements:
    """A connection that only records its statements. It has the usual methods, and every query finds nothing."""

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


async def is_running(tx: Tx, lease: Lease) -> bool:
    """Whether the run is running under this lease."""
    rows = await tx.rows(LOCK_RUNS, [lease.run_id])
    return any((row.lease_id, row.state) == (lease.lease_id, "running") for row in rows)


async def complete(tx: Tx, finish: Finish, keep: Callable[[], None]) -> bool:
    """End the run and keep its effects, if it is running under this lease. What `keep` raises undoes both."""
    locked = await lock_for(tx, [finish])
    if not locked.is_running(finish.lease):
        return False
    await move_runs(tx, [finish], locked)
    try:
        keep()
    except sqlite3.Error as error:
        raise _EffectsFailed(error) from error
    return True


class _EffectsFailed(Exception):
    """An error of the handler's own database. It is raised unchanged; an error of our database is translated."""

    def __init__(self, error: sqlite3.Error) -> None:
        super().__init__()
        self.error = error


class MemoryTransaction:
    """See `Transaction`. The handler's connection records statements, or is a separate one: SQLite has one writer."""

    def __init__(self, store: MemoryStore, connection: Any) -> None:
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
            keep = partial(self.keep_effects, finish.lease)
            self._answer = await self._store.database.write(complete, finish, keep)
        except _EffectsFailed as failed:
            raise failed.error from None
        finally:
            if not self._answer:
                self._roll_back()
            self._over = True
        return self._answer

    def keep_effects(self, lease: Lease) -> None:
        """What the handler wrote counts from now on."""
        if isinstance(self.connection, Statements):
            noted = self.connection.noted
            self._store.statements += [Statement(lease.run_id, lease.fence, sql, args) for sql, args in noted]
        elif callable(commit := getattr(self.connection, "commit", None)):
            commit()

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

    def __init__(self, store: MemoryStore, connect: Connect) -> None:
        self._store = store
        self._connect = connect

    async def begin(self, lease: Lease, *, now: Micros | None = None) -> MemoryTransaction:
        del now
        if not await self._store.database.read(is_running, lease):
            raise LeaseLost(f"run {lease.run_id}: attempt {lease.attempt} has lost its lease; end it")
        return MemoryTransaction(self._store, self._connect())


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────────


class MemoryStore(SqlStore):
    """The store in memory. `connect` makes what handlers get from `ctx.transaction()`."""

    database: SqliteMemory

    def __init__(self, clock: Clock | None = None, *, connect: Connect = Statements) -> None:
        super().__init__(SqliteMemory(clock or SystemClock()))
        self.transactions = MemoryTransactions(self, connect)
        self.statements: list[Statement] = []
        """What was executed in transactions that are committed, in their order."""

    @property
    def clock(self) -> Clock:
        return self.database.clock


__all__ = ["MemoryStore", "MemoryTransaction", "MemoryTransactions", "Statement", "Statements", "is_running"]
