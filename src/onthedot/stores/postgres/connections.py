"""The connections of one event loop: opened when needed, lent to one call at a time, ended when in doubt.

A call that is cancelled, times out or loses its server leaves a connection in an unknown state: it is ended, and
nobody else ever reads the answer that was meant for that call. The server undoes what was not committed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from onthedot.clock import SECOND, Micros, SystemClock
from onthedot.errors import DefinitionError, StateError, StoreUnavailable
from onthedot.ids import RandomIds
from onthedot.stores.postgres.failures import TROUBLE, is_broken
from onthedot.stores.postgres.url import Address

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

CONNECT_TIMEOUT = 5.0
LOCK_TIMEOUT_MS = 3_000  # somebody who waits longer for a lock starts over
LONGEST_PAUSE: Micros = 5 * SECOND


def settings_of(address: Address) -> dict[str, str]:
    """What every session, or through a pooler every transaction, is told."""
    milliseconds = round(address.timeout * 1000)
    return {
        "search_path": address.schema,
        "lock_timeout": str(LOCK_TIMEOUT_MS),
        "statement_timeout": str(milliseconds),
        "idle_in_transaction_session_timeout": str(2 * milliseconds),
        "jit": "off",  # our statements are short: compiling them takes longer than running them
        "plan_cache_mode": "force_generic_plan",  # planned once a session: no plan of ours hangs on a value
    }


def begin_statement(address: Address, *, reading: bool) -> str:
    """How a transaction begins. Through a pooler nothing that is said to a session holds: it is said here."""
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if reading else "BEGIN ISOLATION LEVEL READ COMMITTED"
    if not address.pooled:
        return begin
    return "; ".join([begin, *(f"SET LOCAL {name} = '{value}'" for name, value in settings_of(address).items())])


class Connections:
    """Used on one event loop only."""

    def __init__(self, address: Address, *, effects: bool = False) -> None:
        self._address = address
        self._effects = effects
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._room = asyncio.Semaphore(address.connections)
        self._clock = SystemClock()  # real time: the server is real
        self._ids = RandomIds()
        self._failures = 0
        self._connect_at: Micros = 0
        self._closed = False

    async def take(self) -> Connection:
        """A connection that nobody else uses: one that was given back, or a new one."""
        try:
            async with asyncio.timeout(self._address.timeout):
                await self._room.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(
                f"{self._address.shown}: expected one of {self._address.connections} connections to be free, "
                "all are in use; ask again, or raise the option 'connections' of the URL"
            ) from error
        try:
            if self._closed:
                raise StateError(f"{self._address.shown}: expected an open store, but it was closed; open it again")
            db = self._take_idle() or await self._connect()
        except BaseException:
            self._room.release()
            raise
        self._lent.add(db)
        return db

    def _take_idle(self) -> Connection | None:
        while self._idle:
            db = self._idle.pop()  # the last used first: the others may be let go by a server that is restarted
            if not db.is_closed():
                return db
        return None

    async def _connect(self) -> Connection:
        """Connect; after a failure not at once again, and not all nodes at the same time."""
        wait = self._connect_at - self._clock.steady()
        if wait > 0:
            await asyncio.sleep(wait / SECOND)
        try:
            db = await (connect_for_effects if self._effects else connect)(self._address.dsn, self._address)
        except TROUBLE:
            self._failures += 1
            longest = min(LONGEST_PAUSE, SECOND // 10 << min(self._failures, 10))
            self._connect_at = self._clock.steady() + round(longest * self._ids.fraction())
            raise
        self._failures = 0
        return db

    def give_back(self, db: Connection, error: BaseException | None = None, *, doubt: bool = False) -> None:
        """Return a connection outside of any transaction; in `doubt`, or after an error that leaves some, end it."""
        self._lent.discard(db)
        if error is not None and is_broken(error):
            db.terminate()
            if isinstance(error, TimeoutError | OSError):
                self._end_idle()  # they lead to the same place
        elif doubt or db.is_closed() or self._closed or db.is_in_transaction():
            db.terminate()
        else:
            self._idle.append(db)
        self._room.release()

    def _end_idle(self) -> None:
        while self._idle:
            self._idle.pop().terminate()

    async def close(self) -> None:
        """End them all: politely those that nobody uses."""
        self._closed = True
        for db in list(self._lent):
            db.terminate()
        while self._idle:
            await end(self._idle.pop())


async def end(db: Connection) -> None:
    """Say goodbye, if the server listens."""
    try:
        await db.close(timeout=1.0)
    except TROUBLE:
        db.terminate()


async def connect(dsn: str, address: Address, *, patient: bool = False) -> Connection:
    """A new connection. Through a pooler it has no state: no named statements, no settings of the session.

    With `patient` statements may take as long as they like: for migrations.
    """
    settings = {} if address.pooled else settings_of(address)
    if patient and settings:
        settings |= {"statement_timeout": "0", "lock_timeout": "0"}
    try:
        db: Connection = await asyncpg.connect(
            dsn,
            timeout=CONNECT_TIMEOUT,
            command_timeout=None if patient else address.timeout,
            statement_cache_size=0 if address.pooled else 512,
            max_cached_statement_lifetime=0,
            server_settings={"application_name": "onthedot", **settings},
        )
    except ValueError as error:
        if isinstance(error, TROUBLE):
            raise
        raise DefinitionError(
            f"{address.shown}: expected a host and options that the library for PostgreSQL can read, but it says: "
            f"{error}; look at the URL"
        ) from error
    return db


async def connect_for_effects(dsn: str, address: Address) -> Connection:
    """A connection for a handler: with the settings that its user has on this server, and no time-outs of ours."""
    db: Connection = await asyncpg.connect(
        dsn,
        timeout=CONNECT_TIMEOUT,
        statement_cache_size=0 if address.pooled else 100,
        server_settings={"application_name": "onthedot"},
    )
    return db
