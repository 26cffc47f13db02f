"""One transaction on a PostgreSQL connection: see `sql.port.Tx`.

Locks are taken in one order: the key of queues, node, term, job, schedules, sets of dependents, other keys by name,
rows of fair queues, runs by id. A transaction does not wait for a lock that it needs out of order: it is undone and
starts over (`Contended`). docs/design/store-moves.md, "Lock order", has the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from onthedot.clock import Micros
from onthedot.stores.hints import Hint
from onthedot.stores.postgres.connections import Connection
from onthedot.stores.postgres.failures import Contended
from onthedot.stores.postgres.partitions import make_room
from onthedot.stores.sql.port import Statement, sql
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
    """One transaction. `months` are the partitions that it made. `timeout` is that of each statement, in seconds."""

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
        self._keys: list[str] = []  # that are locked, in order

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
        """The server's clock."""
        return await self.value(READ_CLOCK) if now is None else now

    async def lock_keys(self, keys: Iterable[str], *, late: bool = False) -> None:
        """Hold these keys until the transaction ends. Keys that are out of order are not waited for; nor are `late`
        ones, because runs are locked already. A key's name begins with what it is for."""
        wanted = sorted(set(keys) - set(self._keys), key=_place)
        if not wanted:
            return
        if not late and (not self._keys or _place(wanted[0]) > _place(self._keys[-1])):
            await self.rows(LOCK_KEYS, wanted)
        elif not await self.value(TRY_KEYS, wanted):
            raise Contended(f"a lock for one of {wanted}")
        self._keys = sorted({*self._keys, *wanted}, key=_place)


def _place(key: str) -> tuple[bool, str]:
    """The place of a key in the order of locks."""
    return key not in FIRST_KEYS, key
