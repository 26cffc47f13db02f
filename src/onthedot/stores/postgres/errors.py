"""Translates PostgreSQL's errors into ours: what was expected, what came, what to do."""

from __future__ import annotations

import ssl

import asyncpg

from onthedot.clock import Micros
from onthedot.model.errors import StoreUnavailable, StoreUnusable
from onthedot.stores.sql.port import Contended

LOST = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""Errors after which the connection is lost, or its state is unknown. The last one comes with an answer for which no
caller waits."""

TROUBLE = (*LOST, asyncpg.PostgresError)
"""All errors that a server or the network can cause."""


ENDED = ("25P03", "25P04")
"""The codes of a server that ends a session because its transaction took too long."""

# By the first two characters of the error's code, or all five: what came, and what to do.
_WILL_NOT = {
    "28": ("the server does not let this user in", "look at user, password and pg_hba.conf"),
    "3D": ("there is no such database", "create it, or name another one"),
    "42501": ("this user may not do that", "grant it the right to use the schema, and to create it the first time"),
    "42": ("the tables are not what this version made", "restore a backup; if nobody changed them, report a bug"),
    "22021": ("it cannot keep a text with a zero character", "leave that out"),
    "22": ("it cannot keep a value", "report this as a bug"),
    "23": ("the tables are not what this version made", "restore a backup; if nobody changed them, report a bug"),
    "25006": ("the server takes no writes: it is a standby", "name the primary, or wait until it is one"),
    "XX": ("the server's files are damaged", "look at its log; restore a backup"),
}
_MAY_PASS = ("the server could not do it now", "ask again")


def is_missing_partition(error: BaseException) -> bool:
    """Return whether a row found no partition for its month, because another transaction dropped the partition."""
    return isinstance(error, asyncpg.CheckViolationError) and "partition" in str(error)


def is_broken(error: BaseException) -> bool:
    """Return whether the state of the connection is unknown. Then it is closed, and not lent again."""
    return not isinstance(error, Exception) or isinstance(error, LOST) or getattr(error, "sqlstate", None) in ENDED


def is_overrun(error: BaseException, *, after: Micros = 0, limit: Micros | None = None) -> bool:
    """Return whether the server has ended a transaction because it took too long. asyncpg often reports only that the
    connection is lost. Then the time that passed decides (`after` and `limit`)."""
    if getattr(error, "sqlstate", None) == "25P04":
        return True
    gone = isinstance(error, (*LOST, asyncpg.PostgresConnectionError))
    return gone and limit is not None and after >= limit


def _tls_of(shown: str) -> str:
    """Return what to change in the URL of a server on another machine."""
    return (
        f"name the root certificate of the server, '{shown}?sslrootcert=/path/ca.pem', "
        f"or, only in a network that you trust, do without TLS, '{shown}?sslmode=disable'"
    )


def translate(error: Exception, shown: str) -> Exception:
    """Return our error for an error of PostgreSQL: what was expected, what came, what to do. Other errors are
    unchanged."""
    if isinstance(error, asyncpg.PostgresError):
        code = getattr(error, "sqlstate", None) or ""
        found = _WILL_NOT.get(code) or _WILL_NOT.get(code[:2])
        kind = StoreUnusable if found and code != "25006" else StoreUnavailable
        came, todo = found or _MAY_PASS
        said = " ".join(str(error).split())  # with its DETAIL and HINT it has several lines
        return kind(f"{shown}: expected a server that reads and writes, but {came} ({code}: {said}); {todo}")
    if isinstance(error, asyncpg.exceptions.ClientConfigurationError):
        todo = _tls_of(shown) if "root certificate" in str(error) else "mend the URL"
        return StoreUnusable(f"{shown}: expected options that a connection can be made with, but {error}; {todo}")
    if isinstance(error, Contended):
        return StoreUnavailable(f"{shown}: expected a lock within some seconds, others had it; ask again")
    if isinstance(error, ssl.SSLError) or "rejected SSL upgrade" in str(error):
        return StoreUnavailable(
            f"{shown}: expected a server that speaks TLS, with a certificate for its name, "
            f"got {error}; {_tls_of(shown)}"
        )
    if isinstance(error, TimeoutError):
        return StoreUnavailable(f"{shown}: expected an answer in time, got none; look at server and network; ask again")
    if isinstance(error, LOST):
        return StoreUnavailable(
            f"{shown}: expected a server that answers, got {type(error).__name__}: {error}; "
            "look whether it runs and can be reached; ask again"
        )
    return error
