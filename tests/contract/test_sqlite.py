"""The SQLite store keeps the contract, on a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from onthedot.stores.sql import find, plan
from onthedot.stores.sqlite import SqliteStore
from onthedot_verify import contract

pytestmark = pytest.mark.slow  # it creates and migrates hundreds of files


@pytest.mark.parametrize("check", contract.checks(), ids=str)
async def test_contract(check: contract.Check, tmp_path: Path):
    store = await SqliteStore.open(tmp_path / "otd.db")
    try:
        await check(contract.Workbench(store))
    finally:
        await store.close()


@pytest.mark.parametrize("check", [one for one in contract.checks() if one.slice == "queries"], ids=str)
@pytest.mark.parametrize(("scanned", "lines"), [(1, 0), (3, 2), (7, 20)])
async def test_pages_are_the_same_with_small_steps(
    check: contract.Check, scanned: int, lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for module in (find, plan):
        monkeypatch.setattr(module, "SCANNED", scanned)
    monkeypatch.setattr(find, "LINES", lines)
    await test_contract(check, tmp_path)
