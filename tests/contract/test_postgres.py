"""The PostgreSQL store keeps the contract, on a server of its own."""

from __future__ import annotations

import pytest

from onthedot.stores.postgres import PostgresStore
from onthedot.testing import contract
from tests.stores.postgres.texts import TableOfTexts


@pytest.mark.parametrize("check", contract.checks(), ids=str)
async def test_contract(check: contract.Check, empty_url: str):
    store = await PostgresStore.open(empty_url)
    try:
        await check(contract.Workbench(store, contract.Capabilities(effects=TableOfTexts(empty_url))))
    finally:
        await store.close()
