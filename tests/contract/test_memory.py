"""The memory store keeps the contract."""

from __future__ import annotations

import pytest

from onthedot.stores.memory import MemoryStore, Statements
from onthedot_verify import contract


class NotedStatements:
    """The statements of handlers, as effects."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def write(self, connection: Statements, text: str) -> None:
        await connection.execute(text)

    async def read(self) -> list[str]:
        return [statement.sql for statement in self._store.statements]


@pytest.mark.parametrize("check", contract.checks(), ids=str)
async def test_contract(check: contract.Check):
    store = MemoryStore()
    await check(contract.Workbench(store, contract.Capabilities(effects=NotedStatements(store))))
    await store.close()
