"""Fixtures for tests on a PostgreSQL store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.servers.shared import SharedPostgres
from tests.stores.postgres.emptied import empty


@pytest.fixture(scope="session")
def migrated_url(postgres: SharedPostgres) -> Iterator[str]:
    """A database of this test process, with our tables in it."""
    from onthedot.stores.postgres import PostgresStore

    async def migrate() -> None:
        await (await PostgresStore.open(url)).close()

    url = postgres.create()
    asyncio.run(migrate())
    yield url
    postgres.drop(url)


@pytest.fixture
def empty_url(migrated_url: str) -> str:
    """The same database with empty tables."""
    empty(migrated_url)
    return migrated_url
