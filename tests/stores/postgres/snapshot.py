"""Writes the schema of PostgreSQL as text, as in `schema.sql`.

Write it again after you add a migration, with the URL of an empty database:

    python -m tests.stores.postgres.snapshot postgresql://… > src/onthedot/stores/postgres/schema.sql
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from onthedot.stores.postgres.connections import connect, end, read_url
from onthedot.stores.postgres.schema import prepare

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


async def snapshot(url: str) -> str:
    """Returns the whole schema after all migrations."""
    address = read_url(url)
    await prepare(address)
    db = await connect(address.dsn, address)
    text = await dump(db, address.schema)
    await end(db)
    return text


async def dump(db: Any, schema: str) -> str:
    """Returns tables with their columns and indexes, by name, as the server stores them."""
    lines = ["-- Made by the migrations. Written by `tests.stores.postgres.snapshot`; do not edit.", ""]
    lines += [f"CREATE SEQUENCE {name};" for (name,) in await db.fetch(LIST_SEQUENCES, schema)]
    for table, partitions, options in await db.fetch(LIST_TABLES, schema):
        columns = await db.fetch(LIST_COLUMNS, schema, table)
        lines += ["", f"CREATE TABLE {table} ("]
        lines += [f"    {name} {''.join(rest)}," for name, *rest in columns]
        lines[-1] = lines[-1].removesuffix(",")
        clauses = [f" PARTITION BY {partitions}" if partitions else "", f" WITH {options}" if options else ""]
        lines.append(f"){''.join(clauses)};")
        for (index,) in await db.fetch(LIST_INDEXES, schema, table):
            lines.append(index.replace(f" {schema}.", " ") + ";")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(asyncio.run(snapshot(sys.argv[1])), end="")
