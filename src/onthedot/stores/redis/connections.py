"""The connections of one event loop: opened when needed, lent to one call at a time, ended when in doubt.

A call that is cancelled, times out or loses its server leaves an answer on its way: its connection is ended, and nobody
else ever reads the answer that was meant for that call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import RedisError

from onthedot.clock import SECOND, Micros, SystemClock
from onthedot.errors import DefinitionError, StateError, StoreUnavailable
from onthedot.ids import RandomIds
from onthedot.stores.redis.failures import is_broken
from onthedot.stores.redis.url import Address

CONNECT_TIMEOUT = 5.0
LONGEST_PAUSE: Micros = 5 * SECOND

Connection = AbstractConnection


def maker(address: Address) -> Callable[[], Connection]:
    """What makes connections to this address, not connected yet. `DefinitionError` for what the library cannot use."""
    try:
        pool = ConnectionPool.from_url(
            address.dsn,
            decode_responses=True,
            protocol=2,
            socket_timeout=address.timeout,
            socket_connect_timeout=min(CONNECT_TIMEOUT, address.timeout),
            client_name="onthedot",
        )
        make: Callable[[], Connection] = pool.make_connection
        make()  # it looks at its options only now
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            f"{address.shown}: expected options that the library for Redis knows, but it says: {error}; "
            "look at what stands behind the question mark"
        ) from error
    return make


async def open_connection(db: Connection) -> None:
    """Connect, and say who we are."""
    await db.connect()  # type: ignore[no-untyped-call]  # the library's own


async def talk(db: Connection, *words: str | int) -> Any:
    """One command on a connection that nobody else uses, and its answer."""
    await db.send_command(*words)
    return await db.read_response()


class Connections:
    """Used on one event loop only. `greet` is called with each new connection before anybody uses it."""

    def __init__(self, address: Address, greet: Callable[[Connection], Awaitable[None]]) -> None:
        self._address = address
        self._make = maker(address)
        self._greet = greet
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._room = asyncio.Semaphore(address.connections)
        self._clock = SystemClock()  # real time: the server is real
        self._ids = RandomIds()
        self._failures = 0
        self._connect_at: Micros = 0
        self._closed = False

    async def call(self, *words: str | int) -> Any:
        """One command, and its answer."""
        db = await self._take()
        try:
            answer = await talk(db, *words)
        except BaseException as error:
            await self._give_back(db, error)
            raise
        await self._give_back(db)
        return answer

    async def _take(self) -> Connection:
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
            db = self._idle.pop() if self._idle else await self._connect()  # the last used first
        except BaseException:
            self._room.release()
            raise
        self._lent.add(db)
        return db

    async def _connect(self) -> Connection:
        """Connect; after a failure not at once again, and not all nodes at the same time."""
        wait = self._connect_at - self._clock.steady()
        if wait > 0:
            await asyncio.sleep(wait / SECOND)
        db = self._make()
        try:
            await open_connection(db)
            await self._greet(db)
        except BaseException as error:
            await db.disconnect(nowait=True)
            if isinstance(error, RedisError | OSError | TimeoutError):
                self._failures += 1
                longest = min(LONGEST_PAUSE, SECOND // 10 << min(self._failures, 10))
                self._connect_at = self._clock.steady() + round(longest * self._ids.fraction())
            raise
        self._failures = 0
        return db

    async def _give_back(self, db: Connection, error: BaseException | None = None) -> None:
        """Return a connection that has nothing on its way; after an `error` that leaves it in doubt, end it."""
        self._lent.discard(db)
        try:
            if self._closed or (error is not None and is_broken(error)):
                await db.disconnect(nowait=True)
                if isinstance(error, RedisError | OSError | TimeoutError):
                    await self._end_idle()  # they lead to the same place
            else:
                self._idle.append(db)
        finally:
            self._room.release()

    async def _end_idle(self) -> None:
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)

    async def close(self) -> None:
        """End them all."""
        self._closed = True
        for db in list(self._lent):
            await db.disconnect(nowait=True)
        await self._end_idle()
