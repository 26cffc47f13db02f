"""Opens connections to PostgreSQL with our settings, for the pools of `stores/per_loop.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import asyncpg

from onthedot.clock import MILLISECOND, Micros
from onthedot.model.errors import DefinitionError
from onthedot.stores.per_loop import CONNECT_TIMEOUT, Pool
from onthedot.stores.postgres.failures import TROUBLE, is_broken
from onthedot.stores.postgres.limits import MIGRATION, SHORT, Kind
from onthedot.stores.postgres.url import Address

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

LIMITED_FROM = 17
"""The version of the server from which on it ends a transaction that takes too long."""

PLANNER = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
"""Settings of the engine's sessions: docs/design/store-moves.md, "Plans". Reads for people turn both on."""

LOCK_TIMEOUT_MS = 3_000  # somebody who waits longer for a lock starts over
SHORT_LOCK_TIMEOUT_MS = 1_500  # in a short transaction: after the server looked for deadlocks, before it ends us


NOTHING_ASKED = SimpleNamespace(name="none")
"""Tells asyncpg that no statement has taken the place of the one that it prepares."""


class Session(Connection):
    """A connection of the engine, with the statements that are prepared on it (`prepared.py`)."""

    statements: dict[str, Any]
    _types: ClassVar[dict[frozenset[int], Any]] = {}

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float) -> Any:
        """asyncpg asks about each array type once per connection, some 9 ms of the server's time. We ask once."""
        wanted = frozenset(typeoids)
        if wanted not in self._types:
            answer = await super()._introspect_types(typeoids, timeout)  # type: ignore[misc]
            if max(wanted) >= 16_384:  # of this database: those below are PostgreSQL's own, and the same everywhere
                return answer
            self._types[wanted], _ = answer
        return self._types[wanted], NOTHING_ASKED


def is_limited(db: Connection) -> bool:
    """Whether its server ends a transaction that takes too long, whatever the client does."""
    return bool(db.get_server_version().major >= LIMITED_FROM)


def settings_of(address: Address, *, limited: bool, idle: Micros | None = None) -> dict[str, str]:
    """Settings of each session, or of each transaction behind a pooler. `idle` bounds an idle transaction."""
    milliseconds = round(address.timeout * 1000)
    return {
        "search_path": address.schema,
        "lock_timeout": str(SHORT_LOCK_TIMEOUT_MS if limited else LOCK_TIMEOUT_MS),
        "statement_timeout": str(milliseconds),
        "idle_in_transaction_session_timeout": str(2 * milliseconds if idle is None else idle // MILLISECOND),
        "jit": "off",  # our statements are short: compiling them takes longer than running them
        "plan_cache_mode": "force_generic_plan",  # planned once a session: no plan of ours hangs on a value
        **PLANNER,
    }


def set_local(told: Iterable[tuple[str, str]]) -> list[str]:
    """Statements that set this until the end of the transaction."""
    return [f"SET LOCAL {name} = '{value}'" for name, value in told]


def begin_statement(address: Address, kind: Kind, *, limited: bool, lease: Micros | None = None) -> str:
    """How a transaction of this kind begins. On older servers it may be idle for as long as the node's lease. Through
    a pooler, settings of the session have no effect, so they come here."""
    level = "REPEATABLE READ READ ONLY" if kind.reading else "READ COMMITTED"
    told: list[tuple[str, str]] = []
    if address.pooled:
        told += settings_of(address, limited=limited, idle=lease).items()
    elif not limited and lease is not None and not kind.reading:
        told.append(("idle_in_transaction_session_timeout", str(lease // MILLISECOND)))
    if limited and (address.pooled or kind.limit != SHORT):
        told += limited_to(kind.limit)
        told += [("lock_timeout", str(LOCK_TIMEOUT_MS))] if kind.limit >= 2 * LOCK_TIMEOUT_MS * MILLISECOND else []
    if kind.timeout is not None:
        told += [("statement_timeout", str(round(kind.timeout * 1000))), *((name, "on") for name in PLANNER)]
    return "; ".join([f"BEGIN ISOLATION LEVEL {level}", *set_local(told)])


def limited_to(limit: Micros) -> list[tuple[str, str]]:
    """The settings for a transaction that may take so long from now on: a limit that counts already is not changed."""
    return [("transaction_timeout", "0"), ("transaction_timeout", str(limit // MILLISECOND))]


class Connections(Pool[Connection]):
    """Used on one event loop only. `connect` makes them: those of the engine, or for what handlers write."""

    trouble = TROUBLE
    is_broken = staticmethod(is_broken)

    def __init__(self, address: Address, connect: Callable[[str, Address], Awaitable[Connection]]) -> None:
        super().__init__(address)
        self._to = address
        self._make = connect

    async def open(self) -> Connection:
        return await self._make(self._to.dsn, self._to)

    async def end(self, db: Connection) -> None:
        db.terminate()

    async def part(self, db: Connection) -> None:
        await end(db)

    def is_fit(self, db: Connection) -> bool:
        return not db.is_closed() and not db.is_in_transaction()


async def end(db: Connection) -> None:
    """Say goodbye, if the server listens."""
    try:
        await db.close(timeout=1.0)
    except TROUBLE:
        db.terminate()


async def connect(dsn: str, address: Address, *, patient: bool = False) -> Session:
    """A new connection. Through a pooler it has no named statements, and no settings of the session.

    With `patient` statements have no time-out, for migrations.
    """
    settings = {} if address.pooled else settings_of(address, limited=False)
    if patient and settings:
        settings |= {"statement_timeout": "0", "lock_timeout": "0"}
    try:
        db: Session = await asyncpg.connect(
            dsn,
            connection_class=Session,
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
    db.statements = {}
    if is_limited(db) and not address.pooled:
        await _limit(db, patient=patient)
    return db


async def _limit(db: Session, *, patient: bool) -> None:
    """Set the limits that only PostgreSQL 17 and later have."""
    limit, wait = (MIGRATION, 0) if patient else (SHORT, SHORT_LOCK_TIMEOUT_MS)
    try:
        await db.execute(f"SET transaction_timeout = {limit // MILLISECOND}; SET lock_timeout = {wait}")
    except BaseException:  # also when cancelled: no connection stays open; raised again
        db.terminate()
        raise


async def connect_for_effects(dsn: str, address: Address) -> Connection:
    """A connection for a handler: with the settings that its user has on this server, and no time-outs of ours."""
    db: Connection = await asyncpg.connect(
        dsn,
        timeout=CONNECT_TIMEOUT,
        statement_cache_size=0 if address.pooled else 100,
        server_settings={"application_name": "onthedot"},
    )
    return db
