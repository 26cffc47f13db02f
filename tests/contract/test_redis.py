"""The Redis store keeps the contract, on a Valkey server of its own.

Once more with steps of one run: what is decided about many must come out the same, however many steps it takes.
"""

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


@pytest.mark.parametrize("check", contract.checks(), ids=str)
async def test_contract_in_steps_of_one_run(check: contract.Check, valkey_url: str):
    store = await RedisStore.open(valkey_url)
    store.rows = 1
    try:
        await check(contract.Workbench(store))
    finally:
        await store.close()
