"""The tables: made and migrated when a store is opened, and shown as the snapshot `schema.sql`.

To write the snapshot anew after adding a migration, from the root of the repository, with the URL of a database that
may be filled with tables:

    python -c "import asyncio; from onthedot.stores.postgres.schema import snapshot; \\
        print(asyncio.run(snapshot('postgresql://…')), end='')" > src/onthedot/stores/postgres/schema.sql
"""

from __future__ import annotations

from onthedot.errors import StoreUnusable
from onthedot.stores import migrating
from onthedot.stores.postgres.connections import Connection, connect, end
from onthedot.stores.postgres.url import Address, read_url

DRIVER = "onthedot.stores.postgres"
OLDEST = 140_000  # the version of the server
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('onthedot migrations ' || $1::text, 0))"

# Both in one look, and in the tables themselves: what `to_regclass` remembers may be older than what another process
# has just made.
LOOK_AROUND = """
SELECT count(*) FILTER (WHERE c.relname = 'migrations') > 0, count(*)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1
"""

LIST_TABLES = """
SELECT c.relname, pg_get_partkeydef(c.oid), c.reloptions::text FROM pg_class c
WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.relname
"""
LIST_SEQUENCES = """
SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'S' ORDER BY relname
"""
LIST_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
       CASE WHEN a.attcollation <> t.typcollation THEN ' COLLATE ' || quote_ident(l.collname) ELSE '' END,
       CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END,
       CASE a.attidentity WHEN '' THEN coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')
                          ELSE ' GENERATED ALWAYS AS IDENTITY' END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation l ON l.oid = a.attcollation
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ($1 || '.' || $2)::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
LIST_INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = $1 AND tablename = $2 ORDER BY indexname"


async def prepare(address: Address) -> None:
    """Bring the schema to its newest version, in a transaction for each step. One that is not ours is left alone."""
    steps = migrating.load(DRIVER)
    db = await connect(address.dsn, address, patient=True)
    try:
        _check_server(db, address)
        if await _version(db, address, newest=len(steps)) == len(steps):
            return  # without a lock, and without the right to create anything
        for step in steps:
            await _apply(db, address, step, newest=len(steps))
    finally:
        await end(db)


async def check_current(address: Address) -> None:
    """`StoreUnusable` unless the newest schema is there already. Nothing is changed."""
    newest = len(migrating.load(DRIVER))
    db = await connect(address.dsn, address, patient=True)
    try:
        _check_server(db, address)
        found = await _version(db, address, newest=newest)
    finally:
        await end(db)
    if found < newest:
        raise StoreUnusable(
            f"{address.shown}, schema {address.schema}: expected version {newest}, got {found}; "
            "'onthedot store migrate' brings it up to date; a node does so when it starts"
        )


def _check_server(db: Connection, address: Address) -> None:
    version = db.get_server_version()
    if version.major * 10_000 < OLDEST:
        raise StoreUnusable(
            f"{address.shown}: expected PostgreSQL {OLDEST // 10_000} or newer, got {version.major}; upgrade the server"
        )


async def _version(db: Connection, address: Address, *, newest: int) -> int:
    """How many migrations the schema has seen; `StoreUnusable` if it is none of ours."""
    schema = address.schema
    [(has_migrations, tables)] = await db.fetch(LOOK_AROUND, schema)
    if not has_migrations:
        if tables:
            raise StoreUnusable(
                f"{address.shown}: expected the schema {schema!r} to be onthedot's or not to be there, got one of "
                f"another program ({tables} tables and indexes); name another one with '?schema=…'"
            )
        return 0
    version = int(await db.fetchval(f"SELECT coalesce(max(number), 0) FROM {schema}.migrations"))  # noqa: S608 - checked
    if version > newest:
        raise StoreUnusable(
            f"{address.shown}, schema {schema}: expected version {newest} or older, got {version}: a newer onthedot "
            "wrote it; upgrade this one"
        )
    return version


async def _apply(db: Connection, address: Address, step: migrating.Migration, *, newest: int) -> None:
    """One migration in one transaction, unless another process was here first."""
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
        # As text: nothing is parsed apart, with a wait for the answer, while the tables are locked.
        await db.execute(f"INSERT INTO migrations (number, name) VALUES ({step.number}, '{step.name}')")  # noqa: S608


async def dump(db: Connection, schema: str) -> str:
    """Tables with their columns and indexes, by name, as the server keeps them."""
    lines = ["-- Made by the migrations. Written by `onthedot.stores.postgres.schema`; do not edit.", ""]
    lines += [f"CREATE SEQUENCE {name};" for (name,) in await db.fetch(LIST_SEQUENCES, schema)]
    for table, partitions, options in await db.fetch(LIST_TABLES, schema):
        columns = await db.fetch(LIST_COLUMNS, schema, table)
        lines += ["", f"CREATE TABLE {table} ("]
        lines += [f"    {name} {''.join(rest)}," for name, *rest in columns]
        lines[-1] = lines[-1].removesuffix(",")
        said = [f" PARTITION BY {partitions}" if partitions else "", f" WITH {options}" if options else ""]
        lines.append(f"){''.join(said)};")
        for (index,) in await db.fetch(LIST_INDEXES, schema, table):
            lines.append(index.replace(f" {schema}.", " ") + ";")
    return "\n".join(lines) + "\n"


async def snapshot(url: str) -> str:
    """The whole schema after all migrations, as text."""
    address = read_url(url)
    await prepare(address)
    db = await connect(address.dsn, address, patient=True)
    try:
        return await dump(db, address.schema)
    finally:
        await end(db)
