"""Which locks a store call holds after each of its statements, and which two calls could wait for each other.

Row locks are not in `pg_locks`; the extension `pgrowlocks` reads them from the pages. A new row is seen from the inside
only: whoever inserts the same key has to wait.

A schedule of two calls that deadlock has a first wait: the first call has done some statements, and the second one
meets a lock of these. So it is enough to look at each number of statements (`find_suspects`). What is found may still
be fine, where a call does not wait for what it cannot get (SKIP LOCKED, NOWAIT): a race tells.
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

# The numbers of a transaction and of its savepoints, and the advisory locks that it holds.
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
    """Looks at a database through a connection of its own."""

    def __init__(self, db: Any, unique: Sequence[tuple[str, bool, str]]) -> None:
        self._db = db
        self._names = {table: name for table, is_primary, name in unique if is_primary}
        self._new = " UNION ALL ".join(NEW_ROWS.format(table=table, name=name) for table, _, name in unique)
        some = self._names.items()
        self._locked = " UNION ALL ".join(LOCKED_ROWS.format(table=table, name=name) for table, name in some)
        self._known: frozenset[str] = frozenset()

    @classmethod
    async def open(cls, db: Any) -> Footprints:
        """The state of the database now is the one that all calls begin with."""
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
        """A statement that locks this row."""
        table = lock.partition(":")[0]
        return f"SELECT 1 FROM onthedot.{table} WHERE {self._names[table]} = '{lock}' FOR UPDATE"  # noqa: S608

    async def look(self, holder: Any) -> Footprint:
        """What the transaction on this connection holds now. There is no other one."""
        rows = await self._db.fetch(LIST_LOCKS, holder.get_server_pid())
        found = {key: mode for number, key, mode in rows if number is None}
        numbers = [number for number, _, _ in rows if number is not None]
        if numbers:
            found |= {key: UPDATE for (key,) in await holder.fetch(self._new, numbers) if key not in self._known}
            found |= {key: max(_MODES[one] for one in modes) for key, modes in await self._db.fetch(self._locked)}
        return found


class Suspect(NamedTuple):
    """Two calls that may wait for each other: the second starts when the first has done `cut` statements, waits for
    `wanted`, and has `held` that the first needs. With `obstacle` both lock several rows in one statement."""

    first: str
    second: str
    cut: int
    wanted: str
    held: str
    obstacle: str = ""


class Step(NamedTuple):
    """One statement of a call: what was held before, and what it gains."""

    before: Footprint
    gained: Footprint


def steps_of(trace: Sequence[Footprint]) -> list[Step]:
    """The statements of a call."""
    return [
        Step(before, {lock: mode for lock, mode in after.items() if mode > before.get(lock, 0)})
        for before, after in pairwise(trace)
    ]


def _met(some: Footprint, others: Footprint) -> list[str]:
    return sorted(lock for lock in some.keys() & others.keys() if is_conflict(some[lock], others[lock]))


def find_suspects(first: str, second: str, calls: Mapping[str, Sequence[Step]]) -> Iterator[Suspect]:
    """All ways in which the second call may wait for the first, and the first then for the second. Of several cuts that
    stop the second call at the same place the earliest is given: then the first call has the most to do."""
    one, other = calls[first], calls[second]
    if not _met(one[-1].before | one[-1].gained, other[-1].before | other[-1].gained):
        return
    places = set()
    for cut, (held, _) in enumerate(one):
        for place, (before, gained) in enumerate(other):
            wanted = _met(gained, held)
            if wanted:
                has = before | {lock: mode for lock, mode in gained.items() if lock not in wanted}  # or a part of it
                needed = next((lock for step in one[cut:] for lock in _met(step.gained, has)), None)
                if needed is not None and place not in places:
                    places.add(place)
                    yield Suspect(first, second, cut, wanted[0], needed)
                break


def find_crowds(first: str, second: str, calls: Mapping[str, Sequence[Step]]) -> Iterator[Suspect]:
    """All rows at which two statements may meet that each lock several of the same rows, if nothing else has kept
    them apart before."""
    for cut, (held, gains) in enumerate(calls[first]):
        for before, gained in calls[second]:
            shared = _met(gains, gained)
            if len(shared) > 1 and not _met(held, before):
                rows = [lock for lock in shared if not lock.startswith("key:")]
                yield from (Suspect(first, second, cut, row, row, obstacle=row) for row in rows)
