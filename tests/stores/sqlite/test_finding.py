"""Finding in SQLite: the contract in the smallest steps, and how much a page reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from onthedot.stores.sqlite import SqliteStore, finding
from onthedot.testing import contract


@pytest.mark.parametrize("check", [one for one in contract.checks() if one.slice == "finding"], ids=str)
@pytest.mark.parametrize(("scanned", "lines"), [(1, 0), (3, 2), (7, 20)])
async def test_pages_are_the_same_in_however_small_steps(
    check: contract.Check, scanned: int, lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(finding, "SCANNED", scanned)
    monkeypatch.setattr(finding, "LINES", lines)
    store = await SqliteStore.open(tmp_path / "otd.db")
    try:
        await check(contract.Workbench(store))
    finally:
        await store.close()
