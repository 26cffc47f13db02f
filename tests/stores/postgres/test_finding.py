"""Finding in PostgreSQL: the contract in the smallest steps, and how much a page reads."""

from __future__ import annotations

import pytest

from onthedot.stores.postgres import PostgresStore, finding
from onthedot.testing import contract


@pytest.mark.parametrize("check", [one for one in contract.checks() if one.slice == "finding"], ids=str)
@pytest.mark.parametrize(("scanned", "lines"), [(1, 0), (5, 2)])
async def test_pages_are_the_same_in_however_small_steps(
    check: contract.Check, scanned: int, lines: int, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(finding, "SCANNED", scanned)
    monkeypatch.setattr(finding, "LINES", lines)
    await check(contract.Workbench(store))
