"""Opens connections to Redis or Valkey from the store's URL. The pools are in `stores/per_loop.py`.

    redis://user:password@host:6379/0?prefix=onthedot
    rediss://user:password@host:6379/0?ssl_ca_certs=/etc/ca.pem

`prefix`, `connections`, `timeout`, `tls` and `history` are ours. All other options go to the library, the TLS options
too. For a server on another machine `redis://` is refused without `tls=off`.

`history` is how many finished runs the server keeps. They are all in its memory, so there is a limit: the oldest are
removed with new verdicts, and with upkeep. What is removed is counted by job, day and state.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio.connection import AbstractConnection, ConnectionPool

from onthedot.model.errors import DefinitionError
from onthedot.stores.addresses import (
    ServerAddress,
    is_local,
    read_number,
    refuse_option,
    refuse_url,
    shown_url,
    split_options,
)
from onthedot.stores.per_loop import CONNECT_TIMEOUT, Pool
from onthedot.stores.redis.errors import TROUBLE, is_broken

OURS = ("prefix", "connections", "timeout", "tls", "history")

MOST_FINISHED = 100_000

_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,80}")


@dataclass(frozen=True, slots=True)
class Address(ServerAddress):
    """A server, and the options of its URL."""

    prefix: str = "onthedot"  # of every key of this store
    history: int = MOST_FINISHED  # how many finished runs are kept

    @property
    def tag(self) -> str:
        """The prefix of every key, in braces, so that all keys lie in one hash slot of a cluster."""
        return f"{{{self.prefix}}}"


def read_url(url: str) -> Address:
    """
    >>> read_url("rediss://me:secret@db:6380/1?prefix=shop").shown
    'rediss://me:***@db:6380/1'
    """
    dsn, own = split_options(url, OURS)
    parts = urlsplit(dsn)
    if not parts.hostname:
        refuse_url(url, f"'{parts.scheme}://host:6379/0'", todo="name the server's host")
    if "," in parts.netloc.rpartition("@")[2]:
        refuse_url(url, "one host", todo="name the primary")
    if own.get("tls", "off") != "off":
        refuse_option("tls", "'off'; for TLS, write 'rediss://'", own["tls"])
    if parts.scheme == "redis" and not is_local(parts.hostname) and "tls" not in own:
        secure, plain = shown_url(url).replace("redis:", "rediss:", 1), f"{'&' if '?' in url else '?'}tls=off"
        refuse_url(
            url,
            "TLS for a server on another machine",
            todo=f"write '{secure}' if the server speaks TLS, or, only in a network that you trust, add '{plain}'",
        )
    prefix = own.get("prefix", "onthedot")
    if not _PREFIX.fullmatch(prefix):
        refuse_option("prefix", "a name of letters, digits and . _ - :", prefix)
    return Address(
        dsn,
        shown_url(url),
        connections=int(read_number(own, "connections", 10, least=2)),
        timeout=read_number(own, "timeout", 8.0, least=0.1),
        prefix=prefix,
        history=_read_history(own),
    )


def _read_history(own: Mapping[str, str]) -> int:
    """How many finished runs are kept."""
    given = own.get("history", str(MOST_FINISHED))
    if not given.isdecimal():
        refuse_option("history", "a whole number from 0 on", given)
    return int(given)


Connection = AbstractConnection


def maker(address: Address) -> Callable[[], Connection]:
    """Makes connections to this address, which are not open yet. Raises `DefinitionError` for options that the library
    does not know."""
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
        make()  # the library checks its options only here
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            f"{address.shown}: expected options that the library for Redis knows, but it says: {error}; "
            "check the part of the URL after the question mark"
        ) from error
    return make


async def open_connection(db: Connection) -> None:
    """Connect, and identify this client."""
    await db.connect()  # type: ignore[no-untyped-call]  # the library's own


async def break_off(db: Connection) -> None:
    """Close a connection at once, also while an answer is on its way. The library would only begin to close it: a TLS
    connection then stays open until the server answers, or for ever if the event loop ends first."""
    writer = getattr(db, "_writer", None)
    if writer is not None:
        writer.transport.abort()
    await db.disconnect(nowait=True)


async def talk(db: Connection, *words: str | int) -> Any:
    """Send one command on a connection that no other call uses, and return its answer."""
    await db.send_command(*words)
    return await db.read_response()


class Connections(Pool[Connection]):
    """The connections of one event loop. `greet` is called with each new connection before its first use."""

    trouble = lost = TROUBLE
    is_broken = staticmethod(is_broken)

    def __init__(self, address: Address, greet: Callable[[Connection], Awaitable[None]]) -> None:
        super().__init__(address)
        self._make = maker(address)
        self._greet = greet

    async def call(self, *words: str | int) -> Any:
        """Send one command, and return its answer."""
        return await self.use(lambda db: talk(db, *words))

    async def open(self) -> Connection:
        db = self._make()
        try:
            await open_connection(db)
            await self._greet(db)
        except BaseException:  # close it here, because no other code has it
            await self.end(db)
            raise
        return db

    async def end(self, db: Connection) -> None:
        await break_off(db)

    def is_fit(self, db: Connection) -> bool:
        return bool(db.is_connected)
