"""The memory store keeps the contract."""

from __future__ import annotations

import pytest

from onthedot.stores.memory import MemoryStore
from onthedot.testing import contract


@pytest.mark.parametrize("check", contract.checks(), ids=str)
async def test_contract(check: contract.Check):
    store = MemoryStore()
    await check(contract.Workbench(store))
    await store.close()
