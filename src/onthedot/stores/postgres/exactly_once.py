"""Runs handlers' transactions on PostgreSQL for exactly_once: effects, lease check and completion are one commit.

The handler gets an asyncpg connection inside a transaction, with its user's settings on this server. Our part comes
last, after a savepoint, so that after a conflict only this part is retried. Handlers have their own connection pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import asyncpg

from onthedot import fault_points
from onthedot.clock import Micros
from onthedot.model.errors import LeaseLost, OnTheDotError, StateError, StoreUnavailable
from onthedot.model.run import Lease, RunState
from onthedot.model.verdict import Finish
from onthedot.stores.postgres.connections import Connection, is_limited, limited_to, set_local, settings_of
from onthedot.stores.postgres.database import PostgresDatabase, PostgresHome
from onthedot.stores.postgres.errors import LOST, TROUBLE, translate
from onthedot.stores.postgres.retries import with_retries
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.sql.finish import lock_for, move_runs
from onthedot.stores.sql.port import Contended

IS_RUNNING = "SELECT 1 FROM {schema}.runs WHERE id = $1 AND lease_id = $2 AND state = 'running'"

# A setting that ends with the transaction. It proves that the transaction is still the one that we began.
MARK = "SET LOCAL onthedot.attempt = '{mark}'"  # takes no snapshot, so the handler can set the isolation
READ_MARK = "SELECT current_setting('onthedot.attempt', true)"

AGAIN = (Contended, asyncpg.LockNotAvailableError, asyncpg.CheckViolationError)
"""Conflicts after which our part is retried."""

T = TypeVar("T")


class PostgresTransaction:
    """See `Transaction`. It is used on the loop that began it."""

    def __init__(self, store: PostgresDatabase, home: PostgresHome, db: Connection, outer: Any, lease: Lease) -> None:
        self.connection = db
        self._store = store
        self._home = home
        self._outer = outer
        self._mark = _mark_of(lease)
        self._over = False
        self._answer: bool | None = None
        self._unknown: StoreUnavailable | None = None

    async def commit(self, finish: Finish, *, now: Micros | None = None) -> bool:
        del now
        if self._answer is not None:
            return self._answer
        if self._unknown is not None:
            raise self._unknown
        if self._over:
            raise StateError("commit: expected a transaction that is open, got one that was rolled back")
        try:
            self._answer = await self._complete(finish)
        except (OnTheDotError, asyncpg.PostgresError) as error:
            await self.rollback()
            if isinstance(error, asyncpg.PostgresConnectionError | asyncpg.OperatorInterventionError):
                raise self._is_unknown(error) from error
            raise  # an error of the effects, unchanged
        except LOST as error:
            await self._end(error)
            raise self._is_unknown(error) from error
        if not self._answer:
            await self.rollback()
        return self._answer

    def _is_unknown(self, error: Exception) -> StoreUnavailable:
        self._unknown = StoreUnavailable(str(translate(error, self._store.address.shown)))
        return self._unknown

    async def _complete(self, finish: Finish) -> bool:
        """Check the effects, write our part, and commit."""
        db = self.connection
        if finish.verdict.state is not RunState.SUCCEEDED:
            raise StateError(f"commit: expected the verdict succeeded, got {finish.verdict.state}")
        if not db.is_in_transaction() or await self._in_time(db.fetchval(READ_MARK)) != self._mark:
            raise StateError("commit: expected the transaction that was begun, but the handler has ended it by itself")
        await db.execute("SET CONSTRAINTS ALL IMMEDIATE")  # check the effects' deferred constraints now
        fault_points.point("commit.before_write")
        tx = await self._our_part(finish)
        if tx is None:
            return False
        fault_points.point("commit.in_transaction")
        await self._in_time(self._outer.commit())
        fault_points.point("commit.after_write")
        self._store.committed(self._home, tx)
        await self._end()
        return True

    async def _our_part(self, finish: Finish) -> Transaction | None:
        """Move the run to history if it is running under this lease. Return None if it is not."""
        await self._in_time(self.connection.execute(self._settings()))
        try:
            return await with_retries(lambda: self._in_time(self._move(finish)), lambda error: isinstance(error, AGAIN))
        except AGAIN as error:
            raise StoreUnavailable(str(translate(error, self._store.address.shown))) from error

    def _settings(self) -> str:
        """Return the settings for our part, where gates are locked. The handler's time before this does not count."""
        limits, limited = self._store.limits, is_limited(self.connection)
        told = list(settings_of(self._store.address, limited=limited, idle=limits.lease).items())
        return "; ".join(set_local([*told, *(limited_to(limits.long) if limited else ())]))

    async def _move(self, finish: Finish) -> Transaction | None:
        tx = Transaction(self.connection, self._store.records, self._store.months)
        await tx.db.execute("SAVEPOINT onthedot_finish")
        try:
            locked = await lock_for(tx, [finish])
            if not locked.is_running(finish.lease):
                return None
            await move_runs(tx, [finish], locked)
        except AGAIN:
            self._store.months = frozenset()  # then a missing partition is created
            await tx.db.execute("ROLLBACK TO onthedot_finish")
            raise
        return tx

    async def _in_time(self, work: Awaitable[T]) -> T:
        """Limit our own statements, because a silent server must not block a seat for ever. Effects have no limit."""
        async with asyncio.timeout(2 * self._store.address.timeout):
            return await work

    async def rollback(self) -> None:
        if self._over:
            return
        error: Exception | None = None
        if not self.connection.is_in_transaction():
            self.connection.terminate()  # the handler ended it, and may have written more
        else:
            try:
                await self._in_time(self._outer.rollback())
            except TROUBLE as second:
                error = second
        await self._end(error)

    async def _end(self, error: Exception | None = None) -> None:
        """Give the connection back in its first state, or end it."""
        if self._over:
            return
        self._over = True
        if error is None and not self.connection.is_closed():
            try:
                await self.connection.reset(timeout=self._store.address.timeout)
            except TROUBLE as second:
                error = second
        if error is not None:
            self.connection.terminate()
        await self._home.effects.give_back(self.connection, error)


class PostgresTransactions:
    """See `Transactions`."""

    loop_bound = True

    def __init__(self, store: PostgresDatabase) -> None:
        self._store = store

    async def begin(self, lease: Lease, *, now: Micros | None = None) -> PostgresTransaction:
        del now
        home = await self._store.home()
        try:
            db = await home.effects.take()
            try:
                async with asyncio.timeout(2 * self._store.address.timeout):
                    outer = await self._begin(db, lease)
            except BaseException as error:  # a cancel, too, leaves the connection in an unknown state
                await home.effects.give_back(db, error)
                raise
        except TROUBLE as error:
            raise translate(error, self._store.address.shown) from error
        return PostgresTransaction(self._store, home, db, outer, lease)

    async def _begin(self, db: Connection, lease: Lease) -> Any:
        statement = IS_RUNNING.format(schema=self._store.address.schema)
        if await db.fetchval(statement, lease.run_id, lease.lease_id) is None:
            raise LeaseLost(f"run {lease.run_id}: attempt {lease.attempt} has lost its lease; end it")
        outer = db.transaction()
        await outer.start()
        await db.execute(MARK.format(mark=_mark_of(lease)))
        return outer


def _mark_of(lease: Lease) -> str:
    """Return the lease id, with a dot for each character that a statement cannot contain."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "." for letter in lease.lease_id)
