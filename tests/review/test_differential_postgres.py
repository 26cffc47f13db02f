"""The dictionaries and PostgreSQL say and show the same: both driven by the same random calls."""

from __future__ import annotations

import pytest

from onthedot.stores.postgres import PostgresStore
from onthedot.stores.sql.port import sql
from tests.review.test_differential import Machine, walk
from tests.review.test_places import crowd
from tests.review.twins import Twin, Twins
from tests.stores.postgres.emptied import empty


class PostgresTwin(Twin):
    def __init__(self, store: PostgresStore) -> None:
        super().__init__(store)
        self._postgres = store

    async def gates(self) -> tuple[dict[str, set[str]], dict[str, str]]:
        held: dict[str, set[str]] = {}
        for key, run_id in await self._rows("SELECT key, run_id FROM gate_holders"):
            held.setdefault(key, set()).add(self.names[run_id])
        blocked = await self._rows("SELECT blocked_on, id FROM runs WHERE blocked_on IS NOT NULL")
        return held, {self.names[run_id]: key for key, run_id in blocked}

    async def _rows(self, statement: str) -> list[tuple[str, int]]:
        return await self._postgres.database.look(lambda tx: tx.rows(sql(statement)))


class PostgresTwins(Twins):
    def __init__(self, url: str) -> None:
        self._url = url
        super().__init__()

    def other(self) -> Twin:
        empty(self._url)
        return PostgresTwin(self.do(PostgresStore.open(self._url)))


@pytest.mark.slow
@pytest.mark.timeout(600)  # a failure is worth the time it takes to find its shortest form
def test_dictionaries_and_postgres_do_the_same(migrated_url: str):
    class OnThisServer(Machine):
        def make_twins(self) -> Twins:
            return PostgresTwins(migrated_url)

    walk(OnThisServer, 6)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dictionaries_and_postgres_do_the_same_at_full_limits(migrated_url: str):
    crowd(lambda: PostgresTwins(migrated_url), 2)
