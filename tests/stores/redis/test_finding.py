"""Finding in Redis: the contract in the smallest steps."""

from __future__ import annotations

import pytest

from onthedot.stores.redis import RedisStore, finding
from onthedot.testing import contract


@pytest.mark.parametrize("check", [one for one in contract.checks() if one.slice == "finding"], ids=str)
@pytest.mark.parametrize(("scanned", "rows"), [(1, 1), (6, 3)])
async def test_pages_are_the_same_in_however_small_steps(
    check: contract.Check, scanned: int, rows: int, store: RedisStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(finding, "SCANNED", scanned)
    monkeypatch.setattr(finding, "ROWS", rows)
    await check(contract.Workbench(store, contract.Capabilities(finds_attempts=False)))
