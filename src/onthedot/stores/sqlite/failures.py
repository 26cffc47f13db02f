"""SQLite's errors in our words: `StoreUnavailable` for what may pass, `StoreUnusable` for what will not."""

from __future__ import annotations

import sqlite3

from onthedot.errors import StoreUnavailable, StoreUnusable

# Primary result code -> (what came, what to do).
_MAY_PASS = {
    sqlite3.SQLITE_BUSY: ("another process has been writing for too long", "find it, or ask again"),
    sqlite3.SQLITE_LOCKED: ("another connection holds a lock", "ask again"),
    sqlite3.SQLITE_FULL: ("the disk is full", "make room; nothing was written, and the call may be repeated"),
    sqlite3.SQLITE_IOERR: ("the disk answered with an error", "look at the system's log; ask again"),
    sqlite3.SQLITE_NOMEM: ("memory ran out", "ask again"),
    sqlite3.SQLITE_PROTOCOL: ("the locks were contended for too long", "ask again"),
    sqlite3.SQLITE_INTERRUPT: ("the statement was interrupted", "ask again"),
    sqlite3.SQLITE_CANTOPEN: (
        "a file beside it cannot be opened",
        "look at open files and the folder's rights; ask again",
    ),
}
_WILL_NOT = {
    sqlite3.SQLITE_NOTADB: ("the file is not an SQLite database", "name another file, or move this one away"),
    sqlite3.SQLITE_CORRUPT: (
        "the database is damaged",
        "restore a backup, or save what can be read with `sqlite3 … .recover`",
    ),
    sqlite3.SQLITE_FORMAT: ("the database is damaged", "restore a backup"),
    sqlite3.SQLITE_READONLY: ("the file or its folder is read-only", "give this user the right to write both"),
    sqlite3.SQLITE_PERM: ("this user has no right to the file", "give this user the right to read and write it"),
    sqlite3.SQLITE_AUTH: ("this user has no right to the file", "give this user the right to read and write it"),
}
_ELSE = ("the tables are not what this version made", "restore a backup; if nobody changed them, report this as a bug")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else holds the lock, and may let go of it."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def translate(error: Exception, path: str) -> Exception:
    """Our error for one of SQLite's: what was expected, what came, what to do. Any other stays what it is."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = _primary_code(error)
    kind = StoreUnavailable if code in _MAY_PASS else StoreUnusable
    came, todo = _MAY_PASS.get(code) or _WILL_NOT.get(code) or _ELSE
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return kind(f"{path}: expected a database that can be read and written, but {came} ({name}: {error}); {todo}")


def _primary_code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF  # the upper bits say where it happened
