"""Stores documents, and lists that only grow."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.stores.documents import Document, Entry, Places, PutDocument, check_document, check_entries, judge
from onthedot.stores.sql.port import Contended, Now, Tx, sql
from onthedot.stores.values import most

_DOCUMENT = "SELECT kind, id, version, body, written_at FROM documents WHERE kind = $1 AND id "
FIND = sql(_DOCUMENT + "= $2", Document)
HOLD = sql(_DOCUMENT + "= $2 [[FOR UPDATE]]", Document)
LIST = sql(_DOCUMENT + "> $2 ORDER BY id LIMIT $3", Document)

CREATE = sql("""
INSERT INTO documents (kind, id, version, body, written_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (kind, id) DO NOTHING
""")

REPLACE = sql("UPDATE documents SET version = $3, body = $4, written_at = $5 WHERE kind = $1 AND id = $2")
DELETE = sql("DELETE FROM documents WHERE kind = $1 AND id = $2")
FIND_KEYS = sql("SELECT key, number FROM entries <<INDEXED BY entries_key>> WHERE kind = $1 AND key {in2}")
FIND_LAST = sql("SELECT coalesce(max(number), 0) FROM entries WHERE kind = $1")

APPEND = sql(
    "INSERT INTO entries (kind, number, key, body, written_at) VALUES ($1, $2, $3, $4, $5)",
    arrays="text bigint text text bigint",
)

LIST_APPENDED = sql(
    "SELECT kind, number, body, written_at FROM entries WHERE kind = $1 AND number > $2 ORDER BY number LIMIT $3", Entry
)


async def get_document(tx: Tx, kind: str, id: str) -> Document | None:
    return await tx.row(FIND, kind, id)


async def put_document(tx: Tx, kind: str, id: str, body: str, *, version: int, now: Now = None) -> PutDocument:
    check_document(kind, id, body)
    found = await tx.row(HOLD, kind, id)
    answer = judge(found, body, version)
    if answer is not None:
        return answer
    [number] = await tx.numbers("document", 1)
    write = CREATE if found is None else REPLACE
    if not await tx.do(write, kind, id, number, body, await tx.clock(now)):
        raise Contended(f"document {kind!r}, {id!r}")  # another transaction has created it meanwhile
    return PutDocument(True, number)


async def list_documents(tx: Tx, kind: str, *, after: str = "", limit: int | None = None) -> list[Document]:
    return await tx.rows(LIST, kind, after, most(limit))


async def delete_document(tx: Tx, kind: str, id: str, *, version: int) -> bool:
    found = await tx.row(HOLD, kind, id)
    if found is not None and found.version == version:
        await tx.do(DELETE, kind, id)
    return found is None or found.version == version


def lock_of(kind: str) -> str:
    """Return the key that a transaction holds while it appends. So no smaller number is committed after a larger
    one."""
    return f"entries:{kind}"


async def append_documents(
    tx: Tx, kind: str, bodies: Sequence[str], *, keys: Sequence[str] = (), now: Now = None
) -> list[int]:
    check_entries(kind, bodies, keys)
    await tx.lock_keys([lock_of(kind)])
    return await append_entries(tx, kind, bodies, keys, await tx.clock(now))


async def append_entries(tx: Tx, kind: str, bodies: Sequence[str], keys: Sequence[str], now: Micros) -> list[int]:
    """Add texts to a list whose lock is held, each key once. Return their numbers."""
    named = [key for key in keys if key]
    known: dict[str, int] = dict(await tx.rows(FIND_KEYS, kind, named)) if named else {}
    places = Places(keys or [""] * len(bodies), known, await tx.value(FIND_LAST, kind))
    if places.fresh:
        await tx.each(APPEND, [(kind, number, key, bodies[place], now) for place, number, key in places.fresh])
    return places.numbers


async def list_appended(tx: Tx, kind: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
    return await tx.rows(LIST_APPENDED, kind, after, most(limit))
