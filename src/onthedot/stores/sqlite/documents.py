"""Documents, in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.stores.base import Document, Entry, PutDocument
from onthedot.stores.documents import Places, check_document, check_entries, judge
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.tables import Tables, take_numbers
from onthedot.stores.values import most

FIND = "SELECT kind, id, version, body, written_at FROM documents WHERE kind = ? AND id = ?"

PUT = """
INSERT INTO documents (kind, id, version, body, written_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (kind, id) DO UPDATE
SET version = excluded.version, body = excluded.body, written_at = excluded.written_at
"""

LIST = """
SELECT kind, id, version, body, written_at FROM documents WHERE kind = ? AND id > ? ORDER BY id LIMIT ?
"""

DELETE = "DELETE FROM documents WHERE kind = ? AND id = ?"

FIND_KEYS = """
SELECT e.key, e.number FROM json_each(?) wanted CROSS JOIN entries e INDEXED BY entries_key ON e.key = wanted.value
WHERE e.kind = ? AND e.key IS NOT NULL
"""

FIND_LAST = "SELECT coalesce(max(number), 0) FROM entries WHERE kind = ?"

APPEND = "INSERT INTO entries (kind, number, key, body, written_at) VALUES (?, ?, ?, ?, ?)"

LIST_APPENDED = """
SELECT kind, number, body, written_at FROM entries WHERE kind = ? AND number > ? ORDER BY number LIMIT ?
"""


class Documents(Tables):
    """See `DocumentsSlice`."""

    async def get_document(self, kind: str, id: str) -> Document | None:
        return await self.read(lambda tx: _find(tx.db, kind, id))

    async def put_document(
        self, kind: str, id: str, body: str, *, version: int, now: Micros | None = None
    ) -> PutDocument:
        check_document(kind, id, body)

        def work(tx: Transaction) -> PutDocument:
            answer = judge(_find(tx.db, kind, id), body, version)
            if answer is not None:
                return answer
            [number] = take_numbers(tx.db, "document", 1)
            tx.db.execute(PUT, (kind, id, number, body, self.read_clock(now)))
            return PutDocument(True, number)

        return await self.write(work)

    async def list_documents(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Document]:
        rows = await self.read(lambda tx: tx.db.execute(LIST, (kind, after, most(limit))).fetchall())
        return [Document(*row) for row in rows]

    async def delete_document(self, kind: str, id: str, *, version: int) -> bool:
        def work(tx: Transaction) -> bool:
            found = _find(tx.db, kind, id)
            if found is not None and found.version == version:
                tx.db.execute(DELETE, (kind, id))
            return found is None or found.version == version

        return await self.write(work)

    async def append_documents(
        self, kind: str, bodies: Sequence[str], *, keys: Sequence[str] = (), now: Micros | None = None
    ) -> list[int]:
        check_entries(kind, bodies, keys)
        return await self.write(lambda tx: append_entries(tx.db, kind, bodies, keys, self.read_clock(now)))

    async def list_appended(self, kind: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        rows = await self.read(lambda tx: tx.db.execute(LIST_APPENDED, (kind, after, most(limit))).fetchall())
        return [Entry(*row) for row in rows]


def append_entries(
    db: sqlite3.Connection, kind: str, bodies: Sequence[str], keys: Sequence[str], now: Micros
) -> list[int]:
    """Add texts to a list, each key once; their numbers."""
    known = dict(db.execute(FIND_KEYS, (json.dumps(keys), kind)).fetchall()) if keys else {}
    [last] = db.execute(FIND_LAST, (kind,)).fetchone()
    places = Places(keys or [""] * len(bodies), known, last)
    db.executemany(APPEND, [(kind, number, key, bodies[place], now) for place, number, key in places.fresh])
    return places.numbers


def _find(db: sqlite3.Connection, kind: str, id: str) -> Document | None:
    row = db.execute(FIND, (kind, id)).fetchone()
    return None if row is None else Document(*row)
