"""Arrays that are sent to the server as one text arrive unchanged."""

from __future__ import annotations

import asyncpg
import psycopg
import pytest

from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.connections import Session, connect, read_url
from onthedot.stores.sql.fragments import numbers, words
from onthedot.stores.sql.port import sql


@pytest.mark.parametrize(
    "values",
    [[], [""], ["a", "b"], ["NULL", "null"], ['say "so"', "back\\slash", "{a,b}", " x ", "a,b"], ["ä", "\n", "\t"]],
)
async def test_arrays_of_words_arrive_unchanged(store: PostgresStore, values: list[str]):
    assert await store.database.look(lambda tx: tx.value(sql("SELECT $1::text::text[]"), words(values))) == values


async def test_arrays_of_numbers_arrive_unchanged(store: PostgresStore):
    given = numbers([1, -2, 9_223_372_036_854_775_807, "NULL"])
    found = await store.database.look(lambda tx: tx.value(sql("SELECT $1::text::bigint[]"), given))
    assert found == [1, -2, 9_223_372_036_854_775_807, None]


@pytest.mark.parametrize(("kind", "times"), [("pg_catalog.int2", 1), ("public.mood", 2)])
async def test_a_process_looks_up_a_built_in_array_type_once(
    empty_url: str, monkeypatch: pytest.MonkeyPatch, kind: str, times: int
):
    """A type that belongs to a database is looked up on each connection."""
    asked = []
    ask = asyncpg.Connection._introspect_types  # type: ignore[attr-defined]

    async def introspect(self, typeoids, timeout):
        asked.append(typeoids)
        return await ask(self, typeoids, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", introspect)
    monkeypatch.setattr(Session, "_types", {})
    address = read_url(empty_url)
    with psycopg.connect(empty_url) as db:
        db.execute("DROP TYPE IF EXISTS public.mood; CREATE TYPE public.mood AS ENUM ('calm')")
    for _ in range(2):
        session = await connect(address.dsn, address)
        assert await session.fetchval(f"SELECT $1::{kind}[]", []) == []
        await session.close()
    assert len(asked) == times
