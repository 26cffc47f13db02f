"""A store on an empty database, and several stores on it, as several processes have them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from onthedot.stores.postgres import PostgresStore


@pytest.fixture
async def store(empty_url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(empty_url)
    yield store
    await store.close()


@pytest.fixture
async def stores(empty_url: str) -> AsyncIterator[list[PostgresStore]]:
    """Four nodes of a cluster, each with its own connections. None of their transactions may deadlock."""
    before = deadlocks(empty_url)
    stores = [await PostgresStore.open(empty_url) for _ in range(4)]
    yield stores
    for store in stores:
        await store.close()
    assert deadlocks(empty_url) == before


def deadlocks(url: str) -> int:
    """Returns how many deadlocks the server has ended in this database so far."""
    with psycopg.connect(url) as db:
        [[count]] = db.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(count)
