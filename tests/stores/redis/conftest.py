"""A store on an empty server, and several stores on it, as several processes have them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from onthedot.stores.redis import RedisStore


@pytest.fixture
async def store(valkey_url: str) -> AsyncIterator[RedisStore]:
    store = await RedisStore.open(valkey_url)
    yield store
    await store.close()


@pytest.fixture
async def stores(valkey_url: str) -> AsyncIterator[list[RedisStore]]:
    """Four nodes of a cluster, each with its own connections."""
    stores = [await RedisStore.open(valkey_url) for _ in range(4)]
    yield stores
    for store in stores:
        await store.close()
