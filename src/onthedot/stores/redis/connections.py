"""Connections to Redis: how they are made, and when they are in doubt. Lent as in `stores/per_loop.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio.connection import AbstractConnection, ConnectionPool

from onthedot.model.errors import DefinitionError
from onthedot.stores.per_loop import CONNECT_TIMEOUT, Pool
from onthedot.stores.redis.failures import TROUBLE, is_broken
from onthedot.stores.redis.url import Address

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


async def break_off(db: Connection) -> None:
    """End a connection now, whatever is on its way. The library only begins to close it: one that speaks TLS stays open
    until the server has said goodbye, or for ever if the loop ends first."""
    writer = getattr(db, "_writer", None)
    if writer is not None:
        writer.transport.abort()
    await db.disconnect(nowait=True)


async def talk(db: Connection, *words: str | int) -> Any:
    """One command on a connection that nobody else uses, and its answer."""
    await db.send_command(*words)
    return await db.read_response()


class Connections(Pool[Connection]):
    """Used on one event loop only. `greet` is called with each new connection before anybody uses it."""

    trouble = lost = TROUBLE
    is_broken = staticmethod(is_broken)

    def __init__(self, address: Address, greet: Callable[[Connection], Awaitable[None]]) -> None:
        super().__init__(address)
        self._make = maker(address)
        self._greet = greet

    async def call(self, *words: str | int) -> Any:
        """One command, and its answer."""
        return await self.use(lambda db: talk(db, *words))

    async def open(self) -> Connection:
        db = self._make()
        try:
            await open_connection(db)
            await self._greet(db)
        except BaseException:  # nobody else has it: whatever the reason, it would stay open
            await self.end(db)
            raise
        return db

    async def end(self, db: Connection) -> None:
        await break_off(db)

    def is_fit(self, db: Connection) -> bool:
        return bool(db.is_connected)
