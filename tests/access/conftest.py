"""Fixtures: a manual clock, and two stores over the same records, as two servers have them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onthedot.stores.connect import open_store
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from tests.access.clocks import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory:"
        case "postgres":
            empty: str = request.getfixturevalue("empty_url")
            return empty
        case "redis":
            valkey: str = request.getfixturevalue("valkey_url")
            return valkey
        case _:
            return f"sqlite:///{tmp_path / 'otd.db'}"


@pytest.fixture
async def stores(url: str) -> AsyncIterator[tuple[Store, Store]]:
    if url == "memory:":
        store = MemoryStore()
        yield store, store
        return
    one, other = await open_store(url), await open_store(url)
    yield one, other
    await one.close()
    await other.close()
