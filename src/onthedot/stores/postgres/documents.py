"""Documents, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from onthedot.clock import Micros
from onthedot.stores.base import Document, Entry, PutDocument
from onthedot.stores.documents import check_document, check_entries, judge
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

APPEND = """
INSERT INTO entries (kind, number, key, body, written_at)
SELECT $1, last.number + fresh.place, fresh.key, fresh.body, $4
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS fresh (key, body, place),
     (SELECT coalesce(max(number), 0) AS number FROM entries WHERE kind = $1) last
RETURNING number
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

    async def list_documents(self, kind: str, *, after: str = "", limit: int = 100) -> list[Document]:
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
        entries = check_entries(kind, bodies, keys)

        async def work(tx: Transaction) -> list[int]:
            # One at a time: a number that is committed has no smaller one to come.
            await tx.lock_keys([f"entries:{kind}"])
            keys = [key for _, key in entries if key]
            known: dict[str, int] = dict(await tx.rows(FIND_KEYS, kind, keys)) if keys else {}
            fresh = dict(_fresh(entries, known))
            names, texts = [key or None for _, key in fresh.values()], [body for body, _ in fresh.values()]
            rows = await tx.rows(APPEND, kind, names, texts, await tx.clock(now)) if fresh else []
            numbers = dict(zip(fresh, sorted(number for (number,) in rows), strict=True))
            known |= {entries[place][1]: number for place, number in numbers.items()}
            return [numbers[place] if place in numbers else known[key] for place, (_, key) in enumerate(entries)]

        return await self.write(work)

    async def list_appended(self, kind: str, *, after: int = 0, limit: int = 100) -> list[Entry]:
        return [Entry(*row) for row in await self.read(lambda tx: tx.rows(LIST_APPENDED, kind, after, limit))]


def _fresh(entries: Sequence[tuple[str, str]], known: Mapping[str, int]) -> Iterator[tuple[int, tuple[str, str]]]:
    """The entries that are to be written, with their places among all: each key once, and no key that is there."""
    seen = set(known)
    for place, (body, key) in enumerate(entries):
        if key not in seen:
            yield place, (body, key)
        if key:
            seen.add(key)
