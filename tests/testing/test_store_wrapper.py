"""A store wrapper sees every call to the store, its queries and its documents."""

from __future__ import annotations

import pytest

from onthedot.model.errors import StoreUnavailable
from onthedot.stores.memory import MemoryStore
from onthedot.testing.store_wrapper import LosingStore, StoreWrapper


class Counting(StoreWrapper):
    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.calls: list[str] = []

    async def _call(self, name, operation, args, kwargs):
        self.calls.append(name)
        return await super()._call(name, operation, args, kwargs)


async def test_every_call_passes_through_the_wrapper():
    memory = MemoryStore()
    store = Counting(memory)
    await store.tell_time()
    assert await store.queries.list_jobs() == []
    assert (await store.documents.put_document("note", "a", "{}", version=0)).accepted
    assert store.calls == ["tell_time", "list_jobs", "put_document"]
    assert store.hints is memory.hints


async def test_the_answer_of_any_call_can_be_lost():
    store = LosingStore(MemoryStore())
    for part, operation, arguments in (
        (store, "tell_time", {}),
        (store.queries, "list_jobs", {}),
        (store.documents, "list_documents", {"kind": "note"}),
    ):
        store.lose(operation, 1)
        with pytest.raises(StoreUnavailable, match=f"the answer to '{operation}' was lost"):
            await getattr(part, operation)(**arguments)
        await getattr(part, operation)(**arguments)
