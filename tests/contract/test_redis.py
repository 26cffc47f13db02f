"""The Redis store keeps the contract, on a Valkey server of its own."""

from __future__ import annotations

import pytest

from onthedot.stores.redis import RedisStore
from onthedot.testing import contract


@pytest.mark.parametrize("check", contract.checks(), ids=str)
async def test_contract(check: contract.Check, valkey_url: str):
    store = await RedisStore.open(valkey_url)
    try:
        await check(contract.Workbench(store))
    finally:
        await store.close()
