"""Creates and migrates the tables when a store is opened. The snapshot `schema.sql` shows them.

`tests/stores/postgres/snapshot.py` writes it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from onthedot.model.errors import StoreUnusable
from onthedot.stores import migration
from onthedot.stores.postgres.connections import Address, Connection, connect, end
from onthedot.stores.postgres.retries import with_retries

DRIVER = "onthedot.stores.postgres"
OLDEST = 14  # the version of the server
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('onthedot migrations ' || $1::text, 0))"

# One statement reads both from the catalogue tables, because `to_regclass` may not see a table that another process has
# just created.
LOOK_AROUND = """
SELECT count(*) FILTER (WHERE c.relname = 'migrations') > 0, count(*)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1
"""


async def prepare(address: Address) -> None:
    """Bring the schema to its newest version, each step in its own transaction. A schema of another program is not
    changed.

    Nodes may be running, and take locks in another order. A step that the server ends because of a deadlock is
    retried."""
    steps = migration.load(DRIVER)
    async with _connection(address) as db:
        if await _version(db, address, newest=len(steps)) == len(steps):
            return  # needs no lock, and no right to create anything
        for step in steps:
            await with_retries(partial(_apply, db, address, step, newest=len(steps)))


async def check_current(address: Address) -> None:
    """Raise `StoreUnusable` unless the newest schema exists already. Nothing is changed."""
    newest = len(migration.load(DRIVER))
    async with _connection(address) as db:
        found = await _version(db, address, newest=newest)
    migration.check_version(f"{address.shown}, schema {address.schema}", found, newest, current=True)


@asynccontextmanager
async def _connection(address: Address) -> AsyncGenerator[Connection]:
    db = await connect(address.dsn, address, patient=True)
    try:
        major = db.get_server_version().major
        if major < OLDEST:
            raise StoreUnusable(
                f"{address.shown}: expected PostgreSQL {OLDEST} or newer, got {major}; upgrade the server"
            )
        yield db
    finally:
        await end(db)


async def _version(db: Connection, address: Address, *, newest: int) -> int:
    """Return the number of applied migrations. Raise `StoreUnusable` if the schema is not ours."""
    schema = address.schema
    [(has_migrations, tables)] = await db.fetch(LOOK_AROUND, schema)
    if not has_migrations:
        if tables:
            raise StoreUnusable(
                f"{address.shown}: expected the schema {schema!r} to be new or onthedot's, got one of another "
                f"program ({tables} tables and indexes); name another one with '?schema=…'"
            )
        return 0
    version = int(await db.fetchval(f"SELECT coalesce(max(number), 0) FROM {schema}.migrations"))  # noqa: S608 - checked
    migration.check_version(f"{address.shown}, schema {address.schema}", version, newest)
    return version


async def _apply(db: Connection, address: Address, step: migration.Migration, *, newest: int) -> None:
    """Apply one migration in one transaction, unless another process has applied it."""
    schema = address.schema
    async with db.transaction():
        await db.fetchval(LOCK, schema)
        if await _version(db, address, newest=newest) >= step.number:
            return
        if step.number == 1:
            await db.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        await db.execute(f"SET LOCAL search_path = {schema}")
        if step.number == 1:
            await db.execute("CREATE TABLE migrations (number integer PRIMARY KEY, name text NOT NULL)")
        await db.execute(step.sql)
        # Sent as text, because a separate parse would wait for an answer while the tables are locked.
        await db.execute(f"INSERT INTO migrations (number, name) VALUES ({step.number}, '{step.name}')")  # noqa: S608
