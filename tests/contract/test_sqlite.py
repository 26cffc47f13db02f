"""The SQLite store keeps the contract, on a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import contract


@pytest.mark.parametrize("check", contract.checks(), ids=str)
async def test_contract(check: contract.Check, tmp_path: Path):
    store = await SqliteStore.open(tmp_path / "otd.db")
    try:
        await check(contract.Workbench(store))
    finally:
        await store.close()
