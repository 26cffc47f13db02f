"""Writes the schema of SQLite as text, as in `schema.sql`.

Write it again after you add a migration:

    python -m tests.stores.sqlite.snapshot > src/onthedot/stores/sqlite/schema.sql
"""

from __future__ import annotations

import sqlite3

from onthedot.stores.sqlite.schema import make_in_memory


def snapshot() -> str:
    """Returns the whole schema after all migrations."""
    db = make_in_memory()
    text = dump(db)
    db.close()
    return text


def dump(db: sqlite3.Connection) -> str:
    """Returns tables with their indexes, by name, as SQLite stores them."""
    [version] = db.execute("PRAGMA user_version").fetchone()
    rows = db.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name NOT LIKE 'sqlite_%' "
        "ORDER BY tbl_name, type DESC, name"
    )
    head = f"-- Schema {version}, made by the migrations. Written by `tests.stores.sqlite.snapshot`; do not edit.\n"
    return "\n".join([head, *(f"{sql};\n" for (sql,) in rows)])


if __name__ == "__main__":
    print(snapshot(), end="")
