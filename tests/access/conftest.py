"""Two stores over the same records, as two servers have them: what one writes, the other reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onthedot.stores.connect import open_store
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from tests.access.clocks import Turned


@pytest.fixture
def clock() -> Turned:
    return Turned()


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
