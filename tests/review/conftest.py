"""Provides a workbench on each kind of store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.sqlite import SqliteStore
from onthedot_verify.contract.workbench import Workbench


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workbench]:
    store: Store = MemoryStore()
    if request.param == "sqlite":
        store = await SqliteStore.open(tmp_path / "otd.db", inline=True)
    yield Workbench(store)
    await store.close()
