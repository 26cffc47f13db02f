"""Transactions of handlers, in PostgreSQL: effects, fence check and completion are one commit of one connection.

The handler has an asyncpg connection inside a transaction, with the settings that its user has on this server: its own
search path, no time-outs of ours. Our part comes at the end, behind a savepoint: if others keep it from passing, that
part alone is made again. Connections are lent by a pool of their own, so that no handler takes one from the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import asyncpg

from onthedot import faults
from onthedot.clock import MILLISECOND, SECOND, Micros
from onthedot.errors import LeaseLost, OnTheDotError, StateError, StoreUnavailable
from onthedot.ids import RandomIds
from onthedot.run import Lease, RunState
from onthedot.stores.postgres.connections import Connection, Connections, is_limited, limited_to, settings_of
from onthedot.stores.postgres.failures import LOST, TROUBLE, Contended, translate
from onthedot.stores.postgres.finish import hold, move_runs
from onthedot.stores.postgres.tables import TRIES, PostgresHome, Tables
from onthedot.stores.postgres.transaction import Transaction
from onthedot.verdict import Finish

IS_RUNNING = "SELECT 1 FROM {schema}.runs WHERE id = $1 AND lease_id = $2 AND state = 'running'"

# Said to the transaction, and gone with it: how we know that it is still the one that we have begun.
MARK = "SET LOCAL onthedot.attempt = '{mark}'"  # takes no snapshot: the handler may still choose the isolation
READ_MARK = "SELECT current_setting('onthedot.attempt', true)"

T = TypeVar("T")


class PostgresTransaction:
    """See `Transaction`. Used on the loop that has begun it."""

    def __init__(self, store: Tables, home: PostgresHome, db: Connection, outer: Any, lease: Lease) -> None:
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
        except OnTheDotError:
            await self.rollback()
            raise
        except asyncpg.PostgresError as error:  # of the effects: as it is
            await self.rollback()
            if isinstance(error, asyncpg.PostgresConnectionError | asyncpg.OperatorInterventionError):
                raise self._is_unknown(error) from error
            raise
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
        """The effects stand; then our part, and the commit."""
        db = self.connection
        if finish.verdict.state is not RunState.SUCCEEDED:
            raise StateError(f"commit: expected the verdict succeeded, got {finish.verdict.state}")
        if not db.is_in_transaction() or await self._in_time(db.fetchval(READ_MARK)) != self._mark:
            raise StateError("commit: expected the transaction that was begun, but the handler has ended it by itself")
        await db.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what the effects owe is due now
        faults.point("commit.before_write")
        tx = await self._our_part(finish)
        if tx is None:
            return False
        faults.point("commit.in_transaction")
        await self._in_time(self._outer.commit())
        faults.point("commit.after_write")
        self._store.committed(self._home, tx)
        await self._end(None)
        return True

    async def _our_part(self, finish: Finish) -> Transaction | None:
        """Move the run to history, if it is running under this lease; None if it is not."""
        db = self.connection
        await self._in_time(db.execute(self._settings()))
        ids = RandomIds()
        for number in range(TRIES):
            tx = Transaction(db, self._store.months)
            try:
                if not await self._in_time(self._move(tx, finish)):
                    return None
            except (Contended, asyncpg.LockNotAvailableError, asyncpg.CheckViolationError) as error:
                self._store.months = frozenset()  # a partition that was thought to be there is made
                await self._in_time(db.execute("ROLLBACK TO onthedot_finish"))
                if number == TRIES - 1:
                    raise StoreUnavailable(str(translate(error, self._store.address.shown))) from error
                longest = min(300 * MILLISECOND, 4 * MILLISECOND << number)
                await asyncio.sleep(longest * ids.fraction() / SECOND)
                continue
            return tx
        raise AssertionError("unreachable")

    def _settings(self) -> str:
        """What holds from here on, where gates are locked: how long the handler took before counts for nothing."""
        address, limited = self._store.address, is_limited(self.connection)
        told = list(settings_of(address, limited=limited, idle=self._store.limits.lease).items())
        told += limited_to(self._store.limits.long) if limited else []
        return "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in told)

    async def _move(self, tx: Transaction, finish: Finish) -> bool:
        await tx.db.execute("SAVEPOINT onthedot_finish")
        held = await hold(tx, [finish])
        if held.is_running(finish.lease):
            await move_runs(tx, [finish], held)
            return True
        return False

    async def _in_time(self, work: Awaitable[T]) -> T:
        """What is ours is answered in time, or never: a server that has fallen silent must not keep a seat for ever.
        How long the effects take is the handler's own affair."""
        async with asyncio.timeout(2 * self._store.address.timeout):
            return await work

    async def rollback(self) -> None:
        if self._over:
            return
        if not self.connection.is_in_transaction():
            await self._end(None, doubt=True)  # the handler has ended it: who knows what else it did
            return
        try:
            await self._in_time(self._outer.rollback())
        except TROUBLE as error:
            await self._end(error)
            return
        await self._end(None)

    async def _end(self, error: BaseException | None, *, doubt: bool = False) -> None:
        """Give the connection back as it was lent, or end it."""
        if self._over:
            return
        self._over = True
        if error is None and not doubt:
            try:
                await self.connection.reset(timeout=self._store.address.timeout)
            except TROUBLE as second:
                error = second
        await self._home.effects.give_back(self.connection, error, doubt=doubt or error is not None)


class PostgresTransactions:
    """See `Transactions`."""

    loop_bound = True

    def __init__(self, store: Tables) -> None:
        self._store = store

    async def begin(self, lease: Lease, *, now: Micros | None = None) -> PostgresTransaction:
        del now
        home = await self._store.home()
        pool: Connections = home.effects
        try:
            db = await pool.take()
            try:
                async with asyncio.timeout(2 * self._store.address.timeout):
                    outer = await self._begin(db, lease)
            except BaseException as error:  # a cancel, too, leaves the connection in an unknown state
                await pool.give_back(db, error)
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
    """The lease's own name, as far as it can stand in a statement."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "." for letter in lease.lease_id)
