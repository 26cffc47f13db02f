"""Creates and migrates the tables when a file is opened. The snapshot `schema.sql` shows them.

`tests/stores/sqlite/snapshot.py` writes it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from onthedot.model.errors import StoreUnusable
from onthedot.stores import migration
from onthedot.stores.sqlite.connection import begin, commit, patiently, roll_back

APPLICATION_ID = 0x4F544431  # "OTD1" in the file's header: the database is ours
DRIVER = "onthedot.stores.sqlite"


def prepare(db: sqlite3.Connection, path: str) -> None:
    """Bring a database to the newest schema. A database of another program, or of a newer version, is not changed."""
    steps = migration.load(DRIVER)
    found = patiently(lambda: _look(db, path, newest=len(steps)))
    [mode] = patiently(lambda: db.execute("PRAGMA journal_mode = WAL").fetchone())
    if mode != "wal":
        raise StoreUnusable(f"{path}: expected a local disk, where WAL works, got journal mode {mode!r}; move the file")
    for step in steps[found:]:
        _apply(db, path, step, newest=len(steps))


def check_current(db: sqlite3.Connection, path: str) -> None:
    """Raise `StoreUnusable` unless the database has the newest schema already. Nothing is changed."""
    newest = len(migration.load(DRIVER))
    migration.check_version(path, patiently(lambda: _look(db, path, newest=newest)), newest, current=True)


def _look(db: sqlite3.Connection, path: str, *, newest: int) -> int:
    """Return the version from one snapshot, because another process may be creating the tables."""
    db.execute("BEGIN")
    try:
        return _version(db, path, newest=newest)
    finally:
        roll_back(db)


def _version(db: sqlite3.Connection, path: str, *, newest: int) -> int:
    """Return the number of applied migrations. Raise `StoreUnusable` if the database is not ours."""
    [application_id] = db.execute("PRAGMA application_id").fetchone()
    [version] = db.execute("PRAGMA user_version").fetchone()
    [tables] = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application_id != APPLICATION_ID and (application_id or version or tables):
        raise StoreUnusable(
            f"{path}: expected a database of onthedot or an empty file, got one of another program "
            f"(application id {application_id:#x}, {tables} tables and indexes); name another file"
        )
    migration.check_version(path, version, newest)
    return int(version)


def _apply(db: sqlite3.Connection, path: str, step: migration.Migration, *, newest: int) -> None:
    """Apply one migration in one transaction, unless another process has applied it."""
    begin(db, writing=True)
    try:
        if _version(db, path, newest=newest) < step.number:
            for statement in _statements(step.sql):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {step.number}")
    except (sqlite3.Error, StoreUnusable):
        roll_back(db)
        raise
    commit(db)


def _statements(script: str) -> Iterator[str]:
    """Yield a script's statements one by one, because `executescript` would commit the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def make_in_memory() -> sqlite3.Connection:
    """Return a database in memory with the newest schema."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    steps = migration.load(DRIVER)
    for step in steps:
        _apply(db, ":memory:", step, newest=len(steps))
    return db
