"""Records which locks a store call holds after each of its statements, and finds calls that could wait for each other.

Row locks are not in `pg_locks`, so the extension `pgrowlocks` reads them from the pages. A new row is visible only to
its own transaction, but a second insert of the same key has to wait.

Two calls deadlock in this order: the first call executes some statements, then the second call waits for a lock of
these. So it is enough to try each number of statements of the first call (`find_suspects`). A suspect may be harmless,
if a call does not wait for a lock (SKIP LOCKED, NOWAIT). A race on real connections decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

KEY_SHARE, SHARE, CHANGE, UPDATE = 1, 2, 3, 4
"""Modes of a lock on a row: FOR KEY SHARE, FOR SHARE, FOR NO KEY UPDATE, FOR UPDATE."""

LIST_UNIQUE = """
SELECT t.relname, i.indisprimary, ARRAY(
    SELECT quote_ident(a.attname) FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attnum = ANY(i.indkey) ORDER BY 1)
FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
WHERE i.indisunique AND t.relnamespace = 'onthedot'::regnamespace AND t.relkind = 'r' AND t.relname <> 'migrations'
"""

# The ids of a transaction and of its savepoints, and its advisory locks.
LIST_LOCKS = """
SELECT transactionid::text, concat_ws(':', 'key', classid, objid), CASE mode WHEN 'ShareLock' THEN 2 ELSE 4 END
FROM pg_locks WHERE pid = $1 AND locktype IN ('advisory', 'transactionid')
"""

NEW_ROWS = "SELECT {name} FROM onthedot.{table} WHERE xmin::text = ANY($1::text[])"

LOCKED_ROWS = """
SELECT {name}, held.modes
FROM pgrowlocks('onthedot.{table}') held JOIN onthedot.{table} ON {table}.ctid = held.locked_row
"""

_MODES = {
    "For Key Share": KEY_SHARE, "Key Share": KEY_SHARE, "For Share": SHARE, "Share": SHARE,
    "For No Key Update": CHANGE, "No Key Update": CHANGE, "For Update": UPDATE, "Update": UPDATE,
}  # fmt: skip

Footprint = dict[str, int]
"""Locks by name, each with its mode."""


def is_conflict(one: int, other: int) -> bool:
    """Whether one transaction has to wait for another that holds the same lock.

    >>> is_conflict(KEY_SHARE, CHANGE), is_conflict(KEY_SHARE, UPDATE), is_conflict(SHARE, SHARE)
    (False, True, False)
    """
    return one + other > UPDATE


class Footprints:
    """Reads the locks of a database through its own connection."""

    def __init__(self, db: Any, unique: Sequence[tuple[str, bool, str]]) -> None:
        self._db = db
        self._names = {table: name for table, is_primary, name in unique if is_primary}
        self._new = " UNION ALL ".join(NEW_ROWS.format(table=table, name=name) for table, _, name in unique)
        some = self._names.items()
        self._locked = " UNION ALL ".join(LOCKED_ROWS.format(table=table, name=name) for table, name in some)
        self._known: frozenset[str] = frozenset()

    @classmethod
    async def open(cls, db: Any) -> Footprints:
        """All calls begin with the current state of the database."""
        await db.execute("CREATE EXTENSION pgrowlocks; SET plan_cache_mode = force_generic_plan")
        rows = await db.fetch(LIST_UNIQUE)
        unique = [
            (table, is_primary, f"concat_ws(':', '{table}', {', '.join(row)})") for table, is_primary, row in rows
        ]
        footprints = cls(db, unique)
        everything = footprints._new.replace("xmin::text = ANY($1::text[])", "true")
        footprints._known = frozenset(key for (key,) in await db.fetch(everything))
        return footprints

    def obstacle(self, lock: str) -> str:
        """Returns a statement that locks this row."""
        table = lock.partition(":")[0]
        return f"SELECT 1 FROM onthedot.{table} WHERE {self._names[table]} = '{lock}' FOR UPDATE"  # noqa: S608

    async def look(self, holder: Any) -> Footprint:
        """Returns what the transaction on this connection holds now. It must be the only one."""
        rows = await self._db.fetch(LIST_LOCKS, holder.get_server_pid())
        found = {key: mode for number, key, mode in rows if number is None}
        numbers = [number for number, _, _ in rows if number is not None]
        if numbers:
            found |= {key: UPDATE for (key,) in await holder.fetch(self._new, numbers) if key not in self._known}
            found |= {key: max(_MODES[one] for one in modes) for key, modes in await self._db.fetch(self._locked)}
        return found


class Suspect(NamedTuple):
    """Two calls that may wait for each other. The second starts after `cut` statements of the first, waits for
    `wanted`, and holds `held`, which the first needs. With `obstacle`, both lock several rows in one statement."""

    first: str
    second: str
    cut: int
    wanted: str
    held: str
    obstacle: str = ""


class Step(NamedTuple):
    """One statement of a call: the locks before it, and the locks that it adds."""

    before: Footprint
    gained: Footprint


def steps_of(trace: Sequence[Footprint]) -> list[Step]:
    """Returns the statements of a call."""
    return [
        Step(before, {lock: mode for lock, mode in after.items() if mode > before.get(lock, 0)})
        for before, after in pairwise(trace)
    ]


def _met(some: Footprint, others: Footprint) -> list[str]:
    return sorted(lock for lock in some.keys() & others.keys() if is_conflict(some[lock], others[lock]))


def find_suspects(first: str, second: str, calls: Mapping[str, Sequence[Step]]) -> Iterator[Suspect]:
    """Yields all ways in which the second call may wait for the first, and the first then for the second. If several
    cuts stop the second call at the same place, only the earliest is given, because the first call then has the most
    left."""
    one, other = calls[first], calls[second]
    if not _met(one[-1].before | one[-1].gained, other[-1].before | other[-1].gained):
        return
    places = set()
    for cut, (held, _) in enumerate(one):
        for place, (before, gained) in enumerate(other):
            wanted = _met(gained, held)
            if wanted:
                has = before | {lock: mode for lock, mode in gained.items() if lock not in wanted}  # or some of them
                needed = next((lock for step in one[cut:] for lock in _met(step.gained, has)), None)
                if needed is not None and place not in places:
                    places.add(place)
                    yield Suspect(first, second, cut, wanted[0], needed)
                break


def find_common_rows(first: str, second: str, calls: Mapping[str, Sequence[Step]]) -> Iterator[Suspect]:
    """Yields the rows at which two statements may meet that both lock several of the same rows, unless an earlier lock
    keeps them apart."""
    for cut, (held, gains) in enumerate(calls[first]):
        for before, gained in calls[second]:
            shared = _met(gains, gained)
            if len(shared) > 1 and not _met(held, before):
                rows = [lock for lock in shared if not lock.startswith("key:")]
                yield from (Suspect(first, second, cut, row, row, obstacle=row) for row in rows)
