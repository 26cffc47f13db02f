"""Submits runs inside the caller's transaction: the same statements, on the caller's connection.

A savepoint undoes our part if it is refused. Hints are sent by NOTIFY in the transaction, because only the caller knows
when it commits. Keys that share a lock are not locked, because others would wait for the caller's commit.

The connection is one of asyncpg, psycopg 3, SQLAlchemy or Django. This module imports none of these libraries: it
recognises a connection by the name of its type.
"""

from __future__ import annotations

import inspect
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, cast

from onthedot.clock import Micros
from onthedot.model.errors import DefinitionError, StateError, StoreUnusable
from onthedot.model.job import JobRecord
from onthedot.model.run import NewRun
from onthedot.stores.postgres.connections import Connection
from onthedot.stores.postgres.database import PostgresDatabase
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.postgres.wakeup import channel_of
from onthedot.stores.sql.port import sql
from onthedot.stores.sql.submit import submit_runs
from onthedot.stores.transactions import Joined

SAVE = "SAVEPOINT onthedot_submit"
UNDO = "ROLLBACK TO SAVEPOINT onthedot_submit"
RELEASE = "RELEASE SAVEPOINT onthedot_submit"

# Returns the caller's search path, and how many of these jobs exist here with the same time of creation.
ENTER = """
SELECT current_setting('search_path'), set_config('search_path', $1, true),
       (SELECT count(*) FROM {schema}.jobs j JOIN unnest($2::bigint[], $3::bigint[]) known (id, created_at)
        ON j.id = known.id AND j.created_at = known.created_at)
"""

LEAVE = sql("SELECT set_config('search_path', $1, true), pg_notify($2, $3)")

# Each call draws its own triggers, so runs that have these triggers are new.
LIST_CREATED = sql("SELECT id FROM runs WHERE id = ANY($1::bigint[]) AND trigger = ANY($2::text[])")

KEY_TAKEN = "23505"
TRIES = 5

NO_TRANSACTION = "25P01"
NO_TABLES = ("3F000", "42P01", "42703")
NO_RIGHT = "42501"


async def submit_within(
    database: PostgresDatabase, connection: Any, runs: Sequence[NewRun], jobs: Sequence[JobRecord], now: Micros | None
) -> list[Joined]:
    """See `stores.transactions.Joins`."""
    caller = caller_of(connection)
    try:
        await caller.execute(SAVE)
    except Exception as error:
        if code_of(error) != NO_TRANSACTION:
            raise
        raise StateError(
            "connection: expected one with a transaction that is open, got one without; begin a transaction, "
            "and submit inside of it"
        ) from error
    for number in range(TRIES):
        try:
            joined = await _submit(database, caller, runs, jobs, now)
        except Exception as error:
            try:
                await caller.execute(UNDO)  # restores the transaction
            except Exception as second:  # noqa: BLE001 - of whichever library; the first error is the one to be told
                error.add_note(f"The transaction could not be brought back to where it was: {second}")
            if code_of(error) == KEY_TAKEN and number < TRIES - 1:
                continue  # we waited for that commit, and see its key now
            if code_of(error) in NO_TABLES:
                raise _elsewhere(database) from error
            if code_of(error) == NO_RIGHT:
                raise _not_granted(database, error) from error
            raise
        await caller.execute(RELEASE)
        return joined
    raise AssertionError("unreachable")


async def _submit(
    database: PostgresDatabase, caller: Caller, runs: Sequence[NewRun], jobs: Sequence[JobRecord], now: Micros | None
) -> list[Joined]:
    tx = Transaction(cast(Connection, caller), database.records)
    schema = database.address.schema
    ids, made = [job.id for job in jobs], [job.created_at for job in jobs]
    [(path, _, known)] = await tx.db.fetch(ENTER.format(schema=schema), schema, ids, made)
    if known != len(jobs):
        raise _elsewhere(database)
    found = await submit_runs(tx, runs, await tx.clock(now), joined=True)
    triggers = [run.trigger for run in runs]
    keyed = any(run.key for run in runs)
    created = set(await tx.values(LIST_CREATED, found, triggers) if keyed else found)
    await tx.rows(LEAVE, path, channel_of(database.address), "caller runs")
    return [Joined(run_id, run_id in created) for run_id in found]


def _elsewhere(database: PostgresDatabase) -> StateError:
    address = database.address
    return StateError(
        f"connection: expected one to the database of the store, {address.shown}, with its jobs in the "
        f"schema {address.schema}; got one to another; connect to the same database"
    )


def _not_granted(database: PostgresDatabase, error: Exception) -> StoreUnusable:
    said = " ".join(str(getattr(error, "orig", None) or error).split())
    return StoreUnusable(
        f"connection: expected a role that may submit runs in the schema {database.address.schema}, but the server "
        f"says: {said}; connect with the role of the store, or grant this role the rights that "
        "docs/operate/postgresql.md lists"
    )


# ── the caller's connection ──────────────────────────────────────────────────────────────────────────────────

_PLACE = re.compile(r"\$(\d+)")

Rows = Sequence[Any]


class Caller:
    """The part of a connection that `Transaction` uses. All of it calls `ask`, which returns the rows and how many were
    changed.

    A connection that `blocks` is used without `await`. The caller limits the time of statements; our time-outs do not
    apply."""

    def __init__(self, connection: Any, *, blocks: bool = False) -> None:
        self.connection = connection
        self.blocks = blocks

    @abstractmethod
    async def ask(self, statement: str, values: Rows) -> tuple[Rows, int]:
        """Send one statement to the server."""

    async def fetch(self, statement: str, *values: object, timeout: float | None = None) -> Rows:  # noqa: ARG002
        return (await self.ask(statement, values))[0]

    async def execute(self, statement: str, *values: object) -> str:
        """Return a status whose last word is the number of changed rows."""
        return f"rows {(await self.ask(statement, values))[1]}"


class Asyncpg(Caller):
    """A connection of asyncpg, from its pool, or from `ctx.transaction_blocking()`. The last one waits for asyncpg on
    behalf of a plain function."""

    async def ask(self, statement: str, values: Rows) -> tuple[Rows, int]:
        rows = await _answer(self.connection.fetch(statement, *values))
        return rows, len(rows)

    async def execute(self, statement: str, *values: object) -> str:
        status: str = await _answer(self.connection.execute(statement, *values))
        return status


class Psycopg(Caller):
    """`psycopg.Connection` or `AsyncConnection`."""

    async def ask(self, statement: str, values: Rows) -> tuple[Rows, int]:
        psycopg = sys.modules["psycopg"]
        make = psycopg.RawCursor if self.blocks else psycopg.AsyncRawCursor
        cursor = make(self.connection, row_factory=psycopg.rows.tuple_row)
        try:
            await _answer(cursor.execute(statement, values or None))
            return await _answer(cursor.fetchall()) if cursor.description else [], cursor.rowcount
        finally:
            await _answer(cursor.close())


class Django(Psycopg):
    """Django's wrapper around a connection of psycopg 3, inside `transaction.atomic()`.

    We read only its attributes, because its methods refuse a thread that has an event loop."""

    def __init__(self, wrapper: Any, *, blocks: bool) -> None:
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
        super().__init__(wrapper.connection, blocks=blocks)


class Alchemy(Caller):
    """A connection or session of SQLAlchemy, with any driver."""

    def __init__(self, connection: Any, *, blocks: bool) -> None:
        super().__init__(connection, blocks=blocks)
        bind = connection if hasattr(connection, "dialect") else connection.get_bind()
        if bind.dialect.name != "postgresql":
            raise DefinitionError(f"connection: expected one to PostgreSQL, got one to {bind.dialect.name}")

    async def ask(self, statement: str, values: Rows) -> tuple[Rows, int]:
        text = sys.modules["sqlalchemy"].text(_PLACE.sub(r"(:v\1)", statement))
        named = {f"v{place}": value for place, value in enumerate(values, 1)}
        result = await _answer(self.connection.execute(text, named))
        return result.fetchall() if result.returns_rows else [], result.rowcount


async def _answer(given: Any) -> Any:
    """Return a connection's answer, and await it first if the connection is asynchronous."""
    return await given if inspect.isawaitable(given) else given


# By library and type name: the adapter for the connection, and whether the connection blocks.
_KINDS: dict[tuple[str, str], tuple[Callable[..., Caller], bool]] = {
    ("asyncpg", "Connection"): (Asyncpg, False),
    ("asyncpg", "PoolConnectionProxy"): (Asyncpg, False),
    ("django", "DatabaseWrapper"): (Django, True),
    ("onthedot", "BlockingConnection"): (Asyncpg, True),
    ("psycopg", "Connection"): (Psycopg, True),
    ("psycopg", "AsyncConnection"): (Psycopg, False),
    ("sqlalchemy", "Connection"): (Alchemy, True),
    ("sqlalchemy", "Session"): (Alchemy, True),
    ("sqlalchemy", "AsyncConnection"): (Alchemy, False),
    ("sqlalchemy", "AsyncSession"): (Alchemy, False),
}


def caller_of(connection: Any) -> Caller:
    """Return an adapter for the caller's connection. Raise `DefinitionError` for an unknown type."""
    for kind in type(connection).__mro__:
        known = _KINDS.get((kind.__module__.partition(".")[0], kind.__name__))
        if known is not None:
            speak, blocks = known
            return speak(connection, blocks=blocks)
    name = type(connection).__name__
    todo = f"; give the session itself: {name} is called for it" if name.endswith("scoped_session") else ""
    raise DefinitionError(
        "connection: expected a connection of asyncpg or psycopg 3, a connection or session of SQLAlchemy, or Django's "
        f"connection, got {type(connection).__module__}.{name}{todo}"
    )


def code_of(error: BaseException) -> str:
    """Return the server's code for an error of any of these libraries. Empty: the error is not the server's."""
    for one in (error, getattr(error, "orig", None), error.__cause__):
        for name in ("sqlstate", "pgcode"):
            code = getattr(one, name, None)
            if isinstance(code, str):
                return code
    return ""
