"""Stores documents and append-only lists in Redis."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.stores.documents import Document, Entry, PutDocument, check_document, check_entries
from onthedot.stores.redis.rows import entry_fields
from onthedot.stores.redis.server import RedisServer
from onthedot.stores.values import most


class RedisDocuments:
    """See `stores.documents.Documents`."""

    def __init__(self, redis: RedisServer) -> None:
        self.redis = redis

    async def get_document(self, kind: str, id: str) -> Document | None:
        found = await self.redis.read("get_document", kind=kind, id=id)
        return None if found is None else Document(kind, id, *found)

    async def put_document(
        self, kind: str, id: str, body: str, *, version: int, now: Micros | None = None
    ) -> PutDocument:
        check_document(kind, id, body)
        accepted, current = await self.redis.write(
            "put_document", now=now, kind=kind, id=id, body=body, version=version
        )
        return PutDocument(bool(accepted), current)

    async def list_documents(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Document]:
        rows = await self.redis.read("list_documents", kind=kind, after=after, limit=most(limit))
        return [Document(kind, *row) for row in rows]

    async def delete_document(self, kind: str, id: str, *, version: int) -> bool:
        return bool(await self.redis.write("delete_document", kind=kind, id=id, version=version))

    async def append_documents(
        self, kind: str, bodies: Sequence[str], *, keys: Sequence[str] = (), now: Micros | None = None
    ) -> list[int]:
        check_entries(kind, bodies, keys)
        entries = entry_fields(bodies, keys)
        return [
            int(number) for number in await self.redis.write("append_documents", now=now, kind=kind, entries=entries)
        ]

    async def list_appended(self, kind: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        rows = await self.redis.read("list_appended", kind=kind, after=after, limit=most(limit))
        return [Entry(kind, *row) for row in rows]
