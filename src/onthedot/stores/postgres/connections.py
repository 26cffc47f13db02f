"""Opens connections to PostgreSQL from the store's URL, limits their transactions, and prepares statements on them.

    postgresql://user:password@host:5432/database?schema=onthedot&sslmode=verify-full&sslrootcert=…

`schema`, `pooler`, `listen_url`, `connections` and `timeout` are ours. All other options go to asyncpg, the TLS options
too. Without a TLS option, a server on another machine must use TLS with a checked certificate: `sslmode=verify-full`.

A frozen client must not hold its locks for ever. PostgreSQL 17 and later end a transaction that takes too long
(`transaction_timeout`). Older servers end an idle transaction, but not one whose client stopped inside a statement:
`Prepared` avoids that. The pools are in `stores/per_loop.py`.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import quote

import asyncpg

from onthedot.clock import MILLISECOND, SECOND, Micros
from onthedot.model.errors import DefinitionError, did_you_mean
from onthedot.stores.addresses import (
    ServerAddress,
    hosts_of,
    is_local,
    options_of,
    read_number,
    refuse_option,
    shown_url,
    split_options,
)
from onthedot.stores.per_loop import CONNECT_TIMEOUT, Pool
from onthedot.stores.postgres.errors import TROUBLE, is_broken

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

# ── the store's URL ────────────────────────────────────────────────────────────────────────────────────────────

OURS = ("schema", "pooler", "listen_url", "connections", "timeout")

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,40}")


@dataclass(frozen=True, slots=True)
class Address(ServerAddress):
    """A server, and the options for its connections."""

    schema: str = "onthedot"  # the schema of the tables
    pooled: bool = False  # a pooler gives each transaction another session
    listen_dsn: str | None = field(default=None, repr=False)  # the address to listen at for hints; None: do not listen


def read_url(url: str) -> Address:
    """
    >>> read_url("postgresql://me:secret@db/shop?schema=jobs&sslmode=require").shown
    'postgresql://me:***@db/shop'
    """
    dsn, own = split_options(url, OURS)
    dsn = with_tls(dsn)
    schema = own.get("schema", "onthedot")
    if not _SCHEMA.fullmatch(schema):
        refuse_option("schema", "a name of small letters, digits and underscores", schema)
    pooler = own.get("pooler", "none")
    if pooler not in ("none", "transaction"):
        refuse_option("pooler", f"'none' or 'transaction'{did_you_mean(pooler, ('none', 'transaction'))}", pooler)
    pooled = pooler == "transaction"
    listen_url = own.get("listen_url")
    return Address(
        dsn,
        shown_url(url),
        connections=int(read_number(own, "connections", 10, least=2)),
        timeout=read_number(own, "timeout", 8.0, least=0.1),
        schema=schema,
        pooled=pooled,
        listen_dsn=with_tls(split_options(listen_url, ())[0]) if listen_url else None if pooled else dsn,
    )


_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
)


def with_tls(dsn: str) -> str:
    """Return the URL with `sslmode=verify-full` for a server on another machine, unless the URL, `PGSSLMODE` or a
    service file sets a mode. Without its own root certificate, the URL uses the machine's.

    >>> with_tls("postgresql://10.0.0.7/shop?sslmode=disable"), with_tls("postgresql://localhost/shop")
    ('postgresql://10.0.0.7/shop?sslmode=disable', 'postgresql://localhost/shop')
    >>> with_tls("postgresql://db/shop?sslrootcert=/ca.pem")
    'postgresql://db/shop?sslrootcert=/ca.pem&sslmode=verify-full'
    """
    given = options_of(dsn)
    environment = os.environ
    if not given.keys().isdisjoint(("sslmode", "ssl", "service")) or {"PGSSLMODE", "PGSERVICE"} & environment.keys():
        return dsn
    hosts = hosts_of(dsn) or [environment.get("PGHOST", "")]
    if all(map(is_local, hosts)):
        return dsn
    dsn += f"{'&' if '?' in dsn else '?'}sslmode=verify-full"
    own = Path("~/.postgresql/root.crt").expanduser()
    if "sslrootcert" in given or "PGSSLROOTCERT" in environment or own.exists():
        return dsn
    machines = ssl.get_default_verify_paths().cafile or next((one for one in _BUNDLES if os.path.exists(one)), None)
    return f"{dsn}&sslrootcert={quote(machines, safe='')}" if machines else dsn


# ── time limits of transactions ────────────────────────────────────────────────────────────────────────────────

SHORT: Micros = 2 * SECOND
"""For transactions that others wait for: heartbeats, reserving, arming, finishing, planning."""

PER_RUN: Micros = 4 * MILLISECOND
"""Added for each run that is submitted, because nobody retries for the caller."""

MIGRATION: Micros = 3600 * SECOND

DAY: Micros = 24 * 3600 * SECOND

SHOWING: Micros = 120 * SECOND
"""For listings, which hold no lock that others wait for."""


class Kind(NamedTuple):
    """What a transaction needs before it begins. `name` distinguishes kinds with the same limits."""

    name: str
    limit: Micros
    reading: bool = False
    timeout: float | None = None  # of each statement, in seconds; None: the connection's own


class Limits:
    """The limits of one store's transactions.

    A kind of transaction that took too long gets twice the time, up to `long`, until it is fast again. The engine
    retries, so a large batch on a slow machine succeeds in the end.

    >>> limits = Limits(timeout=8.0)
    >>> limits.overran("plan")
    >>> limits.of("plan") // SECOND, limits.of("beat") // SECOND
    (4, 2)
    >>> limits.took("plan", 3 * SECOND)  # by itself it would have been too slow again
    >>> limits.of("plan") // SECOND
    4
    >>> limits.took("plan", SECOND // 2)
    >>> limits.of("plan") // SECOND
    2
    """

    def __init__(self, *, timeout: float) -> None:
        self.long: Micros = max(SHORT, round(2 * timeout * SECOND))  # edits, retention, reads: of several statements
        self.lease: Micros | None = None  # of the node that uses the store, once it has registered
        self._longer: dict[str, Micros] = {}

    def know_lease(self, ttl: Micros) -> None:
        """Note that a node with this lease uses the store."""
        self.lease = min(max(ttl, SECOND), DAY)

    def of(self, kind: str) -> Micros:
        """Return how long a transaction of this kind may take now."""
        return self._longer.get(kind, SHORT)

    def overran(self, kind: str) -> None:
        """Note that the server ended a transaction of this kind. The next one gets more time."""
        self._longer[kind] = min(2 * self.of(kind), self.long)

    def took(self, kind: str, time: Micros) -> None:
        """Note that a transaction of this kind succeeded in this time."""
        if self._longer and time < SHORT // 2:
            self._longer.pop(kind, None)


# ── connections ────────────────────────────────────────────────────────────────────────────────────────────────

LIMITED_FROM = 17
"""The first version of PostgreSQL that ends a transaction that takes too long."""

PLANNER = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
"""Settings of the engine's sessions: docs/design/store-moves.md, "Plans". Reads for people turn both on."""

LOCK_TIMEOUT_MS = 3_000  # a transaction that waits longer for a lock starts again
SHORT_LOCK_TIMEOUT_MS = 1_500  # for a short transaction: after the deadlock check, before its time limit


NOTHING_ASKED = SimpleNamespace(name="none")
"""Tells asyncpg that no other statement has replaced the one that it prepares."""


class Session(Connection):
    """A connection of the engine, with the statements that are prepared on it (see `Prepared`)."""

    statements: dict[str, Any]
    _types: ClassVar[dict[frozenset[int], Any]] = {}

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float) -> Any:
        """Return the types that asyncpg asks for. It asks about each array type on each connection, which takes the
        server some 9 ms. We ask once."""
        wanted = frozenset(typeoids)
        if wanted not in self._types:
            answer = await super()._introspect_types(typeoids, timeout)  # type: ignore[misc]
            if max(wanted) >= 16_384:  # types below this number are PostgreSQL's own, and the same everywhere
                return answer
            self._types[wanted], _ = answer
        return self._types[wanted], NOTHING_ASKED


def is_limited(db: Connection) -> bool:
    """Return whether the server itself ends a transaction that takes too long."""
    return bool(db.get_server_version().major >= LIMITED_FROM)


def settings_of(address: Address, *, limited: bool, idle: Micros | None = None) -> dict[str, str]:
    """Return the settings of each session, or of each transaction behind a pooler. `idle` limits an idle
    transaction."""
    milliseconds = round(address.timeout * 1000)
    return {
        "search_path": address.schema,
        "lock_timeout": str(SHORT_LOCK_TIMEOUT_MS if limited else LOCK_TIMEOUT_MS),
        "statement_timeout": str(milliseconds),
        "idle_in_transaction_session_timeout": str(2 * milliseconds if idle is None else idle // MILLISECOND),
        "jit": "off",  # our statements are short: compiling them takes longer than running them
        "plan_cache_mode": "force_generic_plan",  # planned once per session: none of our plans depends on a value
        **PLANNER,
    }


def set_local(told: Iterable[tuple[str, str]]) -> list[str]:
    """Return statements that set these values until the end of the transaction."""
    return [f"SET LOCAL {name} = '{value}'" for name, value in told]


def begin_statement(address: Address, kind: Kind, *, limited: bool, lease: Micros | None = None) -> str:
    """Return the statement that begins a transaction of this kind. On older servers the transaction may be idle for as
    long as the node's lease. Through a pooler, settings of a session have no effect, so this statement sets them."""
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
    """Return the settings that give a transaction this much time from now. A time limit that already runs is not
    changed."""
    return [("transaction_timeout", "0"), ("transaction_timeout", str(limit // MILLISECOND))]


class Connections(Pool[Connection]):
    """The connection pool of one event loop. `connect` opens connections for the engine, or for the writes of
    handlers."""

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
    """Close a connection politely, if the server answers."""
    try:
        await db.close(timeout=1.0)
    except TROUBLE:
        db.terminate()


async def connect(dsn: str, address: Address, *, patient: bool = False) -> Session:
    """Open a connection. Through a pooler it has no named statements, and no settings of the session.

    With `patient`, statements have no time-out; migrations need this.
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
    """Set the limits that only PostgreSQL 17 and later support."""
    limit, wait = (MIGRATION, 0) if patient else (SHORT, SHORT_LOCK_TIMEOUT_MS)
    try:
        await db.execute(f"SET transaction_timeout = {limit // MILLISECOND}; SET lock_timeout = {wait}")
    except BaseException:  # also when cancelled: no connection stays open; raised again
        db.terminate()
        raise


async def connect_for_effects(dsn: str, address: Address) -> Connection:
    """Open a connection for a handler, with its user's settings on this server and without our time-outs."""
    db: Connection = await asyncpg.connect(
        dsn,
        timeout=CONNECT_TIMEOUT,
        statement_cache_size=0 if address.pooled else 100,
        server_settings={"application_name": "onthedot"},
    )
    return db


# Settings of an engine's session hide the role's own search path. So this needs a connection like an application's.
OWN_PATH = "SELECT quote_ident(current_user), current_setting('search_path'), $1 = ANY(current_schemas(false))"


async def warn_of_mixed_tables(address: Address) -> str:
    """Return a warning with a remedy if the schema is in the role's own search path, else an empty text.

    This happens if the role has the schema's name, because the default path is `"$user", public`."""
    db = await connect_for_effects(address.dsn, address)
    try:
        [(role, path, mixed)] = await db.fetch(OWN_PATH, address.schema, timeout=address.timeout)
    finally:
        await end(db)
    if not mixed:
        return ""
    return (
        f"the search path of the role {role} ({path}) has the schema {address.schema} of the store: an application "
        "with this role finds and creates its own tables among the store's; use another role, "
        f"or, if your tables are in public, ALTER ROLE {role} SET search_path = public"
    )


# ── prepared statements ────────────────────────────────────────────────────────────────────────────────────────

# To parse a statement, asyncpg sends Parse, Describe and Flush, and waits for the answer. A client that freezes there
# keeps its locks until it wakes, because servers below 17 have no time-out between Flush and Sync. So we prepare the
# statements of each kind of transaction before BEGIN. A transaction that needs a new statement is undone (`Unprepared`)
# and starts again after the statement is prepared. This happens once per kind and process. Behind a pooler no session
# keeps a statement. Then each use sends everything from Parse to Sync at once.

Row = tuple[Any, ...]

AT_ONCE = 65_536
"""Bytes. asyncpg sends the rows of `executemany` in pieces of 128 KiB, and waits between the pieces before it syncs."""


class Unprepared(Exception):
    """The statement is not prepared on this connection, but the transaction has already begun."""

    def __init__(self, statement: str) -> None:
        super().__init__(statement)
        self.statement = statement


async def prepare_statements(db: Session, statements: Iterable[str], begin: str) -> None:
    """Prepare the missing statements, in a transaction without locks."""
    missing = [statement for statement in statements if statement not in db.statements]
    if not missing:
        return
    await db.execute(begin)
    for statement in missing:
        db.statements[statement] = await db.prepare(statement)
    await db.execute("ROLLBACK")


class Prepared:
    """A connection for `Transaction` that runs prepared statements only."""

    def __init__(self, db: Session) -> None:
        self._db = db

    def _find(self, statement: str) -> Any:
        found = self._db.statements.get(statement)
        if found is None:
            raise Unprepared(statement)
        return found

    async def fetch(self, statement: str, *values: object, timeout: float | None = None) -> list[Any]:
        found: list[Any] = await self._find(statement).fetch(*values, timeout=timeout)
        return found

    async def execute(self, statement: str, *values: object) -> str:
        """Run a statement. Without values it is one message, and needs no preparation."""
        if not values:
            return await self._db.execute(statement)
        found = self._find(statement)
        await found.fetch(*values)
        status: str = found.get_statusmsg()
        return status

    async def executemany(self, statement: str, rows: Iterable[Row]) -> None:
        found = self._find(statement)
        for some in _in_pieces(rows):
            await found.executemany(some)


def _in_pieces(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield pieces of rows that asyncpg sends at once. A large row is a piece of its own."""
    piece: list[Row] = []
    size = 0
    for row in rows:
        more = 64 + sum(4 * len(value) if isinstance(value, str) else 16 for value in row)
        if piece and size + more > AT_ONCE:
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += more
    if piece:
        yield piece
