"""Runs one transaction on a PostgreSQL connection (see `sql.port.Tx`), and keeps history in monthly partitions.

Locks are taken in one order: the key of queues, node, term, job, schedules, sets of dependents, other keys by name,
rows of fair queues, runs by id. A transaction does not wait for a lock that it needs out of order. Instead it is undone
and starts again (`Contended`). The table is in docs/design/store-moves.md, "Lock order".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import asyncpg

from onthedot.clock import Micros, to_datetime, to_micros
from onthedot.model.errors import StoreUnavailable
from onthedot.stores.hints import Hint
from onthedot.stores.postgres.connections import Connection
from onthedot.stores.sql.port import Contended, Statement, sql
from onthedot.stores.sql.records import Records

READ_CLOCK = sql("SELECT {now}")

LOCK_KEYS = sql("""
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || key, 0)) FROM unnest($1::text[]) key
""")

TRY_KEYS = sql("""
SELECT bool_and(pg_try_advisory_xact_lock(hashtextextended(current_schema() || key, 0))) FROM unnest($1::text[]) key
""")

TAKE_NUMBERS = "SELECT nextval($1::regclass) FROM generate_series(1, $2)"

SEQUENCES = {"job": "job_ids", "run": "run_ids", "fence": "fences", "document": "document_versions"}

FIRST_KEYS = frozenset({"queues", "terms"})
"""Keys that are locked before any row. All others are locked after jobs and before runs."""

Row = Sequence[Any]
R = TypeVar("R")


class Transaction:
    """One transaction. `months` are the partitions that it made. `timeout` limits each statement, in seconds."""

    __slots__ = ("_keys", "db", "hints", "known_months", "months", "records", "timeout")
    concurrent = True

    def __init__(
        self, db: Connection, records: Records, known_months: frozenset[int] = frozenset(), timeout: float | None = None
    ) -> None:
        self.db = db
        self.records = records
        self.timeout = timeout
        self.hints: list[Hint] = []
        self.known_months = known_months
        self.months: set[int] = set()
        self._keys: list[str] = []  # locked keys, in order

    async def rows(self, statement: Statement[R], *values: object) -> list[R]:
        rows: list[Any] = await self.db.fetch(statement.postgres, *values, timeout=self.timeout)
        return rows if statement.make is None else list(map(statement.make, rows))

    async def row(self, statement: Statement[R], *values: object) -> R | None:
        rows = await self.rows(statement, *values)
        return rows[0] if rows else None

    async def values(self, statement: Statement[Any], *values: object) -> list[Any]:
        return [value for value, *_ in await self.rows(statement, *values)]

    async def value(self, statement: Statement[Any], *values: object) -> Any:
        rows = await self.rows(statement, *values)
        return rows[0][0] if rows else None

    async def do(self, statement: Statement[Any], *values: object) -> int:
        status = await self.db.execute(statement.postgres, *values)
        return int(status.rpartition(" ")[2])

    async def each(self, statement: Statement[Any], rows: Iterable[Row]) -> None:
        if statement.bulk is None:
            await self.db.executemany(statement.postgres, rows)
        else:
            await self.db.execute(statement.bulk, *(list(column) for column in zip(*rows, strict=True)))

    async def scan(self, statement: Statement[R], lines: Sequence[Row], *values: object) -> list[Iterable[R]]:
        if not lines:
            return []
        columns = map(list, zip(*lines, strict=True))  # psycopg takes a tuple for a row
        scans: list[list[Any]] = [[] for _ in lines]
        make = statement.make or tuple
        for row in await self.db.fetch(statement.postgres, *values, *columns, timeout=self.timeout):
            scans[row[-1] - 1].append(make(row[:-1]))
        return list(scans)

    async def numbers(self, name: str, count: int) -> list[int]:
        rows = await self.db.fetch(TAKE_NUMBERS, SEQUENCES[name], count, timeout=self.timeout)
        return [number for (number,) in rows]

    async def make_room(self, instants: Iterable[Micros]) -> None:
        await make_room(self, instants)

    async def clock(self, now: Micros | None) -> Micros:
        """Return the time of the server's clock."""
        return await self.value(READ_CLOCK) if now is None else now

    async def lock_keys(self, keys: Iterable[str], *, late: bool = False) -> None:
        """Lock these keys until the transaction ends. It does not wait for keys that are out of order. It does not wait
        for `late` keys either, because runs are already locked. A key's name begins with its purpose."""
        wanted = sorted(set(keys) - set(self._keys), key=_place)
        if not wanted:
            return
        if not late and (not self._keys or _place(wanted[0]) > _place(self._keys[-1])):
            await self.rows(LOCK_KEYS, wanted)
        elif not await self.value(TRY_KEYS, wanted):
            raise Contended(f"a lock for one of {wanted}")
        self._keys = sorted({*self._keys, *wanted}, key=_place)


def _place(key: str) -> tuple[bool, str]:
    """Return the place of a key in the order of locks."""
    return key not in FIRST_KEYS, key


# ── partitions by month ────────────────────────────────────────────────────────────────────────────────────────

# Partitions are created when they are needed, and a month ahead. They are dropped when they are empty.

PARTITIONED = ("history", "attempts")

LIST_PARTITIONS = sql("""
SELECT child.relname FROM pg_inherits i JOIN pg_class child ON child.oid = i.inhrelid
WHERE i.inhparent = $1::regclass ORDER BY child.relname
""")

# `to_regclass` would report a table as missing until the transaction ends, even if another node creates it meanwhile.
LIST_MISSING = sql("""
SELECT name FROM unnest($1::text[]) name WHERE NOT EXISTS (
    SELECT 1 FROM pg_class WHERE relname = name AND relnamespace = current_schema()::regnamespace)
""")


def month_of(instant: Micros) -> int:
    """Return the month of an instant, in UTC, as a count of months."""
    at = to_datetime(instant)
    return at.year * 12 + at.month - 1


def begin_of(month: int) -> Micros:
    """Return the first instant of a month."""
    return to_micros(datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC))


def name_of(table: str, month: int) -> str:
    """
    >>> name_of("history", 2026 * 12)
    'history_2026_01'
    """
    return f"{table}_{month // 12}_{month % 12 + 1:02}"


def month_in(name: str) -> int:
    """
    >>> month_in("history_2026_01") == 2026 * 12
    True
    """
    year, month = name.split("_")[-2:]
    return int(year) * 12 + int(month) - 1


async def make_room(tx: Transaction, instants: Iterable[Micros]) -> None:
    """Create the missing partitions for runs that end at these instants, or a month later."""
    months = {month_of(instant) for instant in instants}
    missing = months - tx.known_months - tx.months
    if not missing:
        return
    wanted = {
        name_of(table, month): (table, month)
        for month in sorted(missing | {month + 1 for month in missing})
        for table in PARTITIONED
    }
    if await tx.values(LIST_MISSING, list(wanted)):
        await tx.lock_keys(["partitions"], late=True)  # runs are already locked
        for name in await tx.values(LIST_MISSING, list(wanted)):
            await _make(tx, name, *wanted[name])
    tx.months |= missing


async def _make(tx: Transaction, name: str, table: str, month: int) -> None:
    """Create a partition as a table and then attach it, so that it does not wait for transactions on other
    partitions."""
    await tx.db.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)")
    await tx.db.execute(
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({begin_of(month)}) TO ({begin_of(month + 1)})"
    )


async def drop_empty(tx: Transaction, until: Micros) -> list[str]:
    """Drop an empty partition of a month that is over by this instant. Return which, if there was one.

    Raise `StoreUnavailable` if the partition is in use. It is tried once and briefly, because other callers wait behind
    this.
    """
    await tx.db.execute("SET LOCAL lock_timeout = '100ms'")
    for table in PARTITIONED:
        for name in await tx.values(LIST_PARTITIONS, table):
            if begin_of(month_in(name) + 1) > until:
                break
            try:
                await tx.db.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
                found = await tx.db.execute(f"SELECT 1 FROM {name} LIMIT 1")  # noqa: S608 - a name of ours; not prepared
                if found == "SELECT 0":
                    await tx.db.execute(f"DROP TABLE {name}")
                    return [name]
            except asyncpg.LockNotAvailableError as error:
                raise StoreUnavailable(
                    f"expected a partition that nobody uses, got {error}; it is dropped later"
                ) from error
    return []
