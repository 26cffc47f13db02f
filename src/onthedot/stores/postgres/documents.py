"""Documents, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.stores.base import Document, Entry, PutDocument
from onthedot.stores.documents import Places, check_document, check_entries, judge
from onthedot.stores.postgres.failures import Contended
from onthedot.stores.postgres.tables import Tables, take_numbers
from onthedot.stores.postgres.transaction import Transaction

FIND = "SELECT kind, id, version, body, written_at FROM documents WHERE kind = $1 AND id = $2"

# Until the end of the transaction nobody else changes it.
HOLD = f"{FIND} FOR UPDATE"

CREATE = """
INSERT INTO documents (kind, id, version, body, written_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (kind, id) DO NOTHING
"""

REPLACE = "UPDATE documents SET version = $3, body = $4, written_at = $5 WHERE kind = $1 AND id = $2"

LIST = """
SELECT kind, id, version, body, written_at FROM documents WHERE kind = $1 AND id > $2 ORDER BY id LIMIT $3
"""

DELETE = "DELETE FROM documents WHERE kind = $1 AND id = $2"

FIND_KEYS = "SELECT key, number FROM entries WHERE kind = $1 AND key = ANY($2)"

FIND_LAST = "SELECT coalesce(max(number), 0) FROM entries WHERE kind = $1"

APPEND = """
INSERT INTO entries (kind, number, key, body, written_at)
SELECT $1, fresh.number, fresh.key, fresh.body, $5
FROM unnest($2::bigint[], $3::text[], $4::text[]) AS fresh (number, key, body)
"""

LIST_APPENDED = """
SELECT kind, number, body, written_at FROM entries WHERE kind = $1 AND number > $2 ORDER BY number LIMIT $3
"""


class Documents(Tables):
    """See `DocumentsSlice`."""

    async def get_document(self, kind: str, id: str) -> Document | None:
        row = await self.read(lambda tx: tx.row(FIND, kind, id))
        return None if row is None else Document(*row)

    async def put_document(
        self, kind: str, id: str, body: str, *, version: int, now: Micros | None = None
    ) -> PutDocument:
        check_document(kind, id, body)

        async def work(tx: Transaction) -> PutDocument:
            row = await tx.row(HOLD, kind, id)
            answer = judge(None if row is None else Document(*row), body, version)
            if answer is not None:
                return answer
            [number] = await take_numbers(tx, "document_versions", 1)
            values = (kind, id, number, body, await tx.clock(now))
            if not await tx.do(REPLACE if row is not None else CREATE, *values):
                raise Contended(f"document {kind!r}, {id!r}")  # created by somebody else since we looked
            return PutDocument(True, number)

        return await self.write(work)

    async def list_documents(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Document]:
        return [Document(*row) for row in await self.read(lambda tx: tx.rows(LIST, kind, after, limit))]

    async def delete_document(self, kind: str, id: str, *, version: int) -> bool:
        async def work(tx: Transaction) -> bool:
            row = await tx.row(HOLD, kind, id)
            if row is None:
                return True
            if Document(*row).version != version:
                return False
            await tx.do(DELETE, kind, id)
            return True

        return await self.write(work)

    async def append_documents(
        self, kind: str, bodies: Sequence[str], *, keys: Sequence[str] = (), now: Micros | None = None
    ) -> list[int]:
        check_entries(kind, bodies, keys)

        async def work(tx: Transaction) -> list[int]:
            await tx.lock_keys([lock_of(kind)])
            return await append_entries(tx, kind, bodies, keys, await tx.clock(now))

        return await self.write(work)

    async def list_appended(self, kind: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        return [Entry(*row) for row in await self.read(lambda tx: tx.rows(LIST_APPENDED, kind, after, limit))]


def lock_of(kind: str) -> str:
    """Who appends holds this: one at a time, because a number that is committed has no smaller one to come."""
    return f"entries:{kind}"


async def append_entries(
    tx: Transaction, kind: str, bodies: Sequence[str], keys: Sequence[str], now: Micros
) -> list[int]:
    """Add texts to a list whose lock is held, each key once; their numbers."""
    named = [key for key in keys if key]
    known: dict[str, int] = dict(await tx.rows(FIND_KEYS, kind, named)) if named else {}
    places = Places(keys or [""] * len(bodies), known, await tx.value(FIND_LAST, kind))
    if places.fresh:
        fresh, numbers, names = zip(*places.fresh, strict=True)
        await tx.do(APPEND, kind, numbers, names, [bodies[place] for place in fresh], now)
    return places.numbers
