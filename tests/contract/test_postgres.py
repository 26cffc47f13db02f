"""The PostgreSQL store keeps the contract, on its own server."""

from __future__ import annotations

import pytest

from onthedot.stores.postgres import PostgresStore
from onthedot.stores.sql import find, plan
from onthedot_verify import contract
from tests.stores.postgres.texts import TableOfTexts


@pytest.mark.parametrize("check", contract.checks(), ids=str)
async def test_contract(check: contract.Check, empty_url: str):
    store = await PostgresStore.open(empty_url)
    try:
        await check(contract.Workbench(store, contract.Capabilities(effects=TableOfTexts(empty_url))))
    finally:
        await store.close()


@pytest.mark.parametrize("check", [one for one in contract.checks() if one.slice == "queries"], ids=str)
@pytest.mark.parametrize(("scanned", "lines"), [(1, 0), (5, 2)])
async def test_pages_are_the_same_with_small_steps(
    check: contract.Check, scanned: int, lines: int, empty_url: str, monkeypatch: pytest.MonkeyPatch
):
    for module in (find, plan):
        monkeypatch.setattr(module, "SCANNED", scanned)
    monkeypatch.setattr(find, "LINES", lines)
    await test_contract(check, empty_url)
