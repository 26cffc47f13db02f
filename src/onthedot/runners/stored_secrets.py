"""Secrets kept in the store, sealed: documents of the kind `secret`, by namespace and name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.errors import OnTheDotError, UnknownSecret, did_you_mean
from onthedot.runners.secret_sealing import Keys, key_of
from onthedot.runners.secrets import check_name, check_value
from onthedot.stores.documents import Document, Documents

KIND = "secret"
_PAGE = 100
_TRIES = 10


class StoredSecret(NamedTuple):
    """What can be told of a stored secret: everything but its value."""

    namespace: str
    name: str
    key: str
    set_at: Micros


class StoredSecrets:
    """The secrets of a store. Only who has the keys can set and read them; anybody can list their names."""

    name = "the store"

    def __init__(self, store: Documents, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def get(self, namespace: str, name: str) -> str | None:
        """See `Provider`. `UnknownSecret` if it is there and its key is not here."""
        found = await self._store.get_document(KIND, _id(namespace, name))
        return None if found is None else self._keys.unseal(namespace, name, found.body)

    async def set(self, namespace: str, name: str, value: str) -> bool:
        """Store a value; whether there was one before. Of two who do so at once, one is last."""
        check_name(name)
        check_value(name, value)
        body = self._keys.seal(namespace, name, value)
        for _ in range(_TRIES):
            found = await self._store.get_document(KIND, _id(namespace, name))
            put = await self._store.put_document(
                KIND, _id(namespace, name), body, version=0 if found is None else found.version
            )
            if put.accepted:
                return found is not None
        raise _crowded(name)

    async def remove(self, namespace: str, name: str) -> None:
        """Forget a secret; `UnknownSecret` if there is none."""
        for _ in range(_TRIES):
            found = await self._store.get_document(KIND, _id(namespace, name))
            if found is None:
                known = [one.name for one in await self.list() if one.namespace == namespace]
                raise UnknownSecret(
                    f"secret {name}: expected one in namespace {namespace!r}, there is none{did_you_mean(name, known)}"
                )
            if await self._store.delete_document(KIND, found.id, version=found.version):
                return
        raise _crowded(name)

    async def list(self) -> list[StoredSecret]:
        """All of them, by namespace and name."""
        return [
            StoredSecret(*_names(document), key_of(document.body), document.written_at)
            async for document in self._documents()
        ]

    async def reseal(self) -> int:
        """Seal everything with the first key that is sealed with another one; how many were. A secret that somebody
        sets meanwhile is left to them: their key is as new."""
        changed = 0
        async for document in self._documents():
            if key_of(document.body) in self._keys.ids[:1]:
                continue
            namespace, name = _names(document)
            body = self._keys.seal(namespace, name, self._keys.unseal(namespace, name, document.body))
            put = await self._store.put_document(KIND, document.id, body, version=document.version)
            changed += put.accepted
        return changed

    async def _documents(self) -> AsyncIterator[Document]:
        after = ""
        while page := await self._store.list_documents(KIND, after=after, limit=_PAGE):
            for document in page:
                yield document
            after = page[-1].id


def _id(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _names(document: Document) -> tuple[str, str]:
    namespace, _, name = document.id.rpartition("/")
    return namespace, name


def _crowded(name: str) -> OnTheDotError:
    return OnTheDotError(f"secret {name}: expected to be alone with it, but others change it at this moment; try again")
