"""What has been is kept by month: partitions that are made when they are needed and ahead, and dropped when empty."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import asyncpg

from onthedot.clock import Micros, to_datetime, to_micros
from onthedot.model.errors import StoreUnavailable
from onthedot.stores.sql.port import sql

if TYPE_CHECKING:
    from onthedot.stores.postgres.transaction import Transaction

PARTITIONED = ("history", "attempts")

LIST_PARTITIONS = sql("""
SELECT child.relname FROM pg_inherits i JOIN pg_class child ON child.oid = i.inhrelid
WHERE i.inhparent = $1::regclass ORDER BY child.relname
""")

LIST_MISSING = sql("SELECT name FROM unnest($1::text[]) name WHERE to_regclass(name) IS NULL")


def month_of(instant: Micros) -> int:
    """The month of an instant, in UTC, as a number that counts months."""
    at = to_datetime(instant)
    return at.year * 12 + at.month - 1


def begin_of(month: int) -> Micros:
    """Its first instant."""
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
    """See that there are partitions for what ends at these instants, and for what ends a month later."""
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
        await tx.lock_keys(["partitions"], late=True)  # runs are locked already
        for name in await tx.values(LIST_MISSING, list(wanted)):
            await _make(tx, name, *wanted[name])
    tx.months |= missing


async def _make(tx: Transaction, name: str, table: str, month: int) -> None:
    """Made apart and then attached: that does not wait for those who read and write the others."""
    await tx.db.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)")
    await tx.db.execute(
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({begin_of(month)}) TO ({begin_of(month + 1)})"
    )


async def drop_empty(tx: Transaction, until: Micros) -> list[str]:
    """Drop a partition of a month that was over by then and holds nothing any more; which, if there was one.

    `StoreUnavailable` if somebody uses it. Tried once, and not for long: whoever comes meanwhile has to wait behind us.
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
