"""A store on its own file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onthedot.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "otd.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path)
    yield store
    await store.close()
