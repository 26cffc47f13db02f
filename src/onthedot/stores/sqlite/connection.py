"""Opens SQLite connections, waits for the database's lock, and translates SQLite's errors."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import TypeVar

from onthedot.clock import MILLISECOND, SECOND, Micros, SystemClock
from onthedot.model.errors import StoreUnavailable, StoreUnusable

T = TypeVar("T")

OLDEST = (3, 37, 0)  # STRICT tables; RETURNING came before

REFUSED = ("", ":memory:")
"""Paths for which SQLite opens a database that a second connection cannot see."""

PATIENCE: Micros = 5 * SECOND
"""How long a call waits for other processes before it gives up."""

# SQLite's own busy handler waits up to 100 ms between tries, and delays the heartbeats of other processes (130–630 ms
# at worst, when measured). A retry after 0.2–1 ms keeps the delay below 22 ms. The steps are uneven, so that two
# waiters do not retry at the same time.
_PAUSES: tuple[Micros, ...] = (200, 600, 300, 1 * MILLISECOND, 400, 800)

PAGE = 4_096
LONGEST_LOG = 10_000
"""The number of pages in the log before it is written back to the database: 40 MB. So a page that changes often is
copied only once (drain +25 %)."""
SHORTEST_LOG = 1_000

_WRITING = """
PRAGMA synchronous = FULL;           -- what was acknowledged survives the machine; nearly free in WAL
PRAGMA journal_size_limit = 67108864;
PRAGMA cache_size = -32000;          -- 32 MB: the indexes of a backlog of 100,000 runs
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
"""
_READING = """
PRAGMA query_only = ON;
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
"""


def create_file(path: str) -> None:
    """Make sure that the file exists and may be written. A new file is for this user only.

    An existing file is not opened here: closing it would drop the locks of this process's connections (POSIX)."""
    if path in REFUSED:
        raise StoreUnusable(f"{path!r}: expected the path of a file; for a store in memory use the URL 'memory:'")
    if sqlite3.sqlite_version_info < OLDEST:
        wanted, got = ".".join(map(str, OLDEST)), sqlite3.sqlite_version
        raise StoreUnusable(f"expected SQLite {wanted} or newer, got {got}; use a newer Python build")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        _check_file(path)
    except PermissionError as error:
        raise StoreUnusable(
            f"{path}: expected a folder that this user may write, got {error.strerror}; change its rights"
        ) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreUnusable(f"{path}: expected its folder to exist, got {error.strerror}; create it first") from error
    except OSError as error:
        raise StoreUnavailable(
            f"{path}: expected to create the file, got {error.strerror}; put that right and ask again"
        ) from error


def find_file(path: str) -> None:
    """Raise `StoreUnusable` unless there is a file at this path."""
    if path in REFUSED or not os.path.exists(path):
        raise StoreUnusable(f"{path!r}: expected the path of a database, found none; name one that is there")
    if not os.path.isfile(path):
        raise StoreUnusable(f"{path}: expected a file, got a folder or a device; name a file in it")


def _check_file(path: str) -> None:
    find_file(path)
    if not (os.access(path, os.R_OK | os.W_OK) and os.access(os.path.dirname(path) or ".", os.W_OK | os.X_OK)):
        raise StoreUnusable(f"{path}: expected a file and a folder that this user may write; change their rights")


def connect(path: str, *, writing: bool) -> sqlite3.Connection:
    """Connect to an existing file. The caller begins and ends transactions, and SQLite itself never waits."""
    # cached_statements: every statement of the driver stays prepared. check_same_thread: a connection is used by one
    # thread at a time (`writer_thread.py`).
    uri = Path(path).absolute().as_uri() + "?mode=rw"  # a missing file is an error, not a new database
    db = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        patiently(lambda: db.executescript(_WRITING if writing else _READING))
        if writing:
            limit_log(db, path)
    except sqlite3.Error:
        db.close()
        raise
    return db


def limit_log(db: sqlite3.Connection, path: str) -> None:
    """Limit the log to an eighth of the free space. A log that fills the disk cannot be written back, because the
    database has no space to grow. Then the disk would stay full."""
    try:
        room = shutil.disk_usage(os.path.dirname(path) or ".").free
    except OSError:  # the folder is missing: the next write reports it
        room = 0
    pages = min(max(room // 8 // PAGE, SHORTEST_LOG), LONGEST_LOG)
    db.execute(f"PRAGMA wal_autocheckpoint = {pages}")


def begin(db: sqlite3.Connection, *, writing: bool) -> None:
    """Begin a transaction that holds the write lock, or a snapshot. It is never upgraded."""
    patiently(lambda: db.execute("BEGIN IMMEDIATE") if writing else _begin_reading(db))


def _begin_reading(db: sqlite3.Connection) -> None:
    db.execute("BEGIN")
    try:
        db.execute("SELECT value FROM meta LIMIT 1").fetchall()  # the first read takes the snapshot
    except sqlite3.Error:
        roll_back(db)
        raise


def commit(db: sqlite3.Connection) -> None:
    """Commit. When this returns, the writes are on disk. After an error none is, and the transaction is over."""
    try:
        patiently(lambda: db.execute("COMMIT"))
    except sqlite3.Error:
        roll_back(db)
        raise


def roll_back(db: sqlite3.Connection) -> None:
    """End the transaction, if SQLite has not done so itself."""
    if db.in_transaction:
        db.execute("ROLLBACK")


def patiently(work: Callable[[], T]) -> T:
    """Do work that needs a lock, and retry for up to `PATIENCE` while another process holds it.

    In real time, because the other process is real."""
    clock = SystemClock()
    deadline: Micros | None = None
    pauses = cycle(_PAUSES)
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            now = clock.steady()
            deadline = now + PATIENCE if deadline is None else deadline
            if not is_busy(error) or now >= deadline:
                raise
        threading.Event().wait(next(pauses) / SECOND)


# ── SQLite's errors: `StoreUnavailable` if a retry may succeed, else `StoreUnusable` ──────────────────────────────

# Primary result code -> (what came, what to do).
_MAY_PASS = {
    sqlite3.SQLITE_BUSY: ("another process has been writing for too long", "find it, or ask again"),
    sqlite3.SQLITE_LOCKED: ("another connection holds a lock", "ask again"),
    sqlite3.SQLITE_FULL: ("the disk is full", "make room; nothing was written, and the call may be repeated"),
    sqlite3.SQLITE_IOERR: ("the disk answered with an error", "look at the system's log; ask again"),
    sqlite3.SQLITE_NOMEM: ("memory ran out", "ask again"),
    sqlite3.SQLITE_PROTOCOL: ("the locks were contended for too long", "ask again"),
    sqlite3.SQLITE_INTERRUPT: ("the statement was interrupted", "ask again"),
    sqlite3.SQLITE_CANTOPEN: ("a file beside it cannot be opened", "check open files and the folder; ask again"),
}
_WILL_NOT = {
    sqlite3.SQLITE_NOTADB: ("the file is not an SQLite database", "name another file, or move this one away"),
    sqlite3.SQLITE_CORRUPT: ("the database is damaged", "restore a backup, or use `sqlite3 … .recover`"),
    sqlite3.SQLITE_FORMAT: ("the database is damaged", "restore a backup"),
    sqlite3.SQLITE_READONLY: ("the file or its folder is read-only", "give this user the right to write both"),
    sqlite3.SQLITE_PERM: ("this user has no right to the file", "give this user the right to read and write it"),
    sqlite3.SQLITE_AUTH: ("this user has no right to the file", "give this user the right to read and write it"),
}
_ELSE = ("the tables are not what this version made", "restore a backup; if nobody changed them, report this as a bug")


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds the lock, and may release it."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def is_full(error: Exception) -> bool:
    """Return whether the disk is full."""
    return isinstance(error, sqlite3.Error) and _primary_code(error) == sqlite3.SQLITE_FULL


def translate(error: Exception, path: str) -> Exception:
    """Return our error for an error of SQLite: what was expected, what came, what to do. Other errors are unchanged."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = _primary_code(error)
    kind = StoreUnavailable if code in _MAY_PASS else StoreUnusable
    came, todo = _MAY_PASS.get(code) or _WILL_NOT.get(code) or _ELSE
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return kind(f"{path}: expected a database that can be read and written, but {came} ({name}: {error}); {todo}")


def _primary_code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF  # the upper bits have the place of the error
