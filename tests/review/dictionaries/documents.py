"""Documents, in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from onthedot.clock import Micros
from onthedot.stores.documents import Document, Entry, PutDocument, check_document, check_entries, judge
from tests.review.dictionaries.tables import Tables


class Documents(Tables):
    """See `DocumentsSlice`."""

    async def get_document(self, kind: str, id: str) -> Document | None:
        return self.documents.get((kind, id))

    async def put_document(
        self, kind: str, id: str, body: str, *, version: int, now: Micros | None = None
    ) -> PutDocument:
        check_document(kind, id, body)
        answer = judge(self.documents.get((kind, id)), body, version)
        if answer is not None:
            return answer
        self.last_version += 1
        self.documents[kind, id] = Document(kind, id, self.last_version, body, self.read_clock(now))
        return PutDocument(True, self.last_version)

    async def list_documents(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Document]:
        found = (document for document in self.documents.values() if document.kind == kind and document.id > after)
        return sorted(found)[:limit]

    async def delete_document(self, kind: str, id: str, *, version: int) -> bool:
        found = self.documents.get((kind, id))
        if found is not None and found.version == version:
            del self.documents[kind, id]
        return found is None or found.version == version

    async def append_documents(
        self, kind: str, bodies: Sequence[str], *, keys: Sequence[str] = (), now: Micros | None = None
    ) -> list[int]:
        check_entries(kind, bodies, keys)
        return self.append(kind, bodies, keys, self.read_clock(now))

    async def list_appended(self, kind: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        return list(islice((entry for entry in self.entries.get(kind, ()) if entry.number > after), limit))
