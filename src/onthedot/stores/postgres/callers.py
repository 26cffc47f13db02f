"""Connections that belong to the caller: of asyncpg, psycopg 3, SQLAlchemy and Django, each as our statements know one.

A statement of ours is spoken as it is: `$1`, `$2` stand for its values. No library is imported here: whoever has a
connection has its library. Types are told by name, so that asking costs nothing where none is given.
"""

from __future__ import annotations

import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from onthedot.errors import DefinitionError, StateError

_PLACE = re.compile(r"\$(\d+)")

Rows = Sequence[Any]


class Caller:
    """What `Transaction` asks of a connection, over one question: `ask` gives the rows, and how many were changed.

    How long a statement may take is the caller's own affair: our time-outs are left aside.
    """

    blocks = False

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @abstractmethod
    async def ask(self, statement: str, values: Rows) -> tuple[Rows, int]:
        """Put one statement to the server."""

    async def fetch(self, statement: str, *values: object, timeout: float | None = None) -> Rows:  # noqa: ARG002
        return (await self.ask(statement, values))[0]

    async def fetchrow(self, statement: str, *values: object, timeout: float | None = None) -> Any:  # noqa: ARG002
        rows = await self.fetch(statement, *values)
        return rows[0] if rows else None

    async def fetchval(self, statement: str, *values: object, timeout: float | None = None) -> Any:  # noqa: ARG002
        row = await self.fetchrow(statement, *values)
        return None if row is None else row[0]

    async def execute(self, statement: str, *values: object, timeout: float | None = None) -> str:  # noqa: ARG002
        """How many rows were changed, as the last word."""
        return f"rows {(await self.ask(statement, values))[1]}"


class Asyncpg(Caller):
    """A connection of asyncpg, or one that its pool lends."""

    async def ask(self, statement: str, values: Rows) -> tuple[Rows, int]:
        rows = await self.connection.fetch(statement, *values)
        return rows, len(rows)

    async def execute(self, statement: str, *values: object, timeout: float | None = None) -> str:  # noqa: ARG002
        status: str = await self.connection.execute(statement, *values)
        return status


class OfHandler(Caller):
    """What a plain function has of `ctx.transaction_blocking()`: asyncpg's, waited for."""

    blocks = True

    async def ask(self, statement: str, values: Rows) -> tuple[Rows, int]:
        rows = self.connection.fetch(statement, *values)
        return rows, len(rows)

    async def execute(self, statement: str, *values: object, timeout: float | None = None) -> str:  # noqa: ARG002
        status: str = self.connection.execute(statement, *values)
        return status


class Psycopg(Caller):
    """`psycopg.Connection`."""

    blocks = True

    async def ask(self, statement: str, values: Rows) -> tuple[Rows, int]:
        psycopg = sys.modules["psycopg"]
        with psycopg.RawCursor(self.connection, row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else [], cursor.rowcount


class Django(Psycopg):
    """Django's wrapper of a connection of psycopg 3, inside `transaction.atomic()`.

    Only its attributes are read: its methods refuse a thread that has an event loop.
    """

    def __init__(self, wrapper: Any) -> None:
        if wrapper.vendor != "postgresql":
            raise DefinitionError(f"connection: expected one to PostgreSQL, got one to {wrapper.vendor}")
        if wrapper.connection is None or (wrapper.autocommit and not wrapper.in_atomic_block):
            raise StateError(
                "connection: expected one with a transaction that is open, got one without; "
                "submit inside of 'with transaction.atomic():'"
            )
        of = type(wrapper.connection).__module__.partition(".")[0]
        if of != "psycopg":
            raise DefinitionError(
                f"connection: expected Django with psycopg 3, got it with {of}; install psycopg, which Django prefers"
            )
        super().__init__(wrapper.connection)


class AsyncPsycopg(Caller):
    """`psycopg.AsyncConnection`."""

    async def ask(self, statement: str, values: Rows) -> tuple[Rows, int]:
        psycopg = sys.modules["psycopg"]
        async with psycopg.AsyncRawCursor(self.connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(statement, values or None)
            return await cursor.fetchall() if cursor.description else [], cursor.rowcount


class Alchemy(Caller):
    """A `Connection` or `Session` of SQLAlchemy, over whichever driver it has."""

    blocks = True

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        bind = connection if hasattr(connection, "dialect") else connection.get_bind()
        if bind.dialect.name != "postgresql":
            raise DefinitionError(f"connection: expected one to PostgreSQL, got one to {bind.dialect.name}")

    async def ask(self, statement: str, values: Rows) -> tuple[Rows, int]:
        return _answer(self.connection.execute(*self._said(statement, values)))

    def _said(self, statement: str, values: Rows) -> tuple[Any, dict[str, object]]:
        text = sys.modules["sqlalchemy"].text
        return text(_PLACE.sub(r"(:v\1)", statement)), {f"v{place}": value for place, value in enumerate(values, 1)}


class AsyncAlchemy(Alchemy):
    """An `AsyncConnection` or `AsyncSession` of SQLAlchemy."""

    blocks = False

    async def ask(self, statement: str, values: Rows) -> tuple[Rows, int]:
        return _answer(await self.connection.execute(*self._said(statement, values)))


def _answer(result: Any) -> tuple[Rows, int]:
    return result.fetchall() if result.returns_rows else [], result.rowcount


_KINDS: dict[tuple[str, str], Callable[[Any], Caller]] = {
    ("asyncpg", "Connection"): Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): Asyncpg,
    ("django", "DatabaseWrapper"): Django,
    ("onthedot", "BlockingConnection"): OfHandler,
    ("psycopg", "Connection"): Psycopg,
    ("psycopg", "AsyncConnection"): AsyncPsycopg,
    ("sqlalchemy", "Connection"): Alchemy,
    ("sqlalchemy", "Session"): Alchemy,
    ("sqlalchemy", "AsyncConnection"): AsyncAlchemy,
    ("sqlalchemy", "AsyncSession"): AsyncAlchemy,
}


def caller_of(connection: Any) -> Caller:
    """Speak with the caller's connection; `DefinitionError` for what is none of those that are known."""
    for kind in type(connection).__mro__:
        known = _KINDS.get((kind.__module__.partition(".")[0], kind.__name__))
        if known is not None:
            return known(connection)
    name = type(connection).__name__
    todo = f"; give the session itself: {name} is called for it" if name.endswith("scoped_session") else ""
    raise DefinitionError(
        "connection: expected a connection of asyncpg or psycopg 3, a connection or session of SQLAlchemy, or Django's "
        f"connection, got {type(connection).__module__}.{name}{todo}"
    )


def code_of(error: BaseException) -> str:
    """The server's code for an error, by whichever library it comes; empty if it is none of the server's."""
    for one in (error, getattr(error, "orig", None), error.__cause__):
        for name in ("sqlstate", "pgcode"):
            code = getattr(one, name, None)
            if isinstance(code, str):
                return code
    return ""
