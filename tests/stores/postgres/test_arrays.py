"""What goes to the server as one text comes there as the array it was."""

from __future__ import annotations

import pytest

from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.arrays import numbers, words


@pytest.mark.parametrize(
    "values",
    [[], [""], ["a", "b"], ["NULL", "null"], ['say "so"', "back\\slash", "{a,b}", " x ", "a,b"], ["ä", "\n", "\t"]],
)
async def test_words_arrive_as_they_were(store: PostgresStore, values: list[str]):
    assert await store.read(lambda tx: tx.value("SELECT $1::text::text[]", words(values))) == values


async def test_numbers_arrive_as_they_were(store: PostgresStore):
    given = numbers([1, -2, 9_223_372_036_854_775_807, "NULL"])
    found = await store.read(lambda tx: tx.value("SELECT $1::text::bigint[]", given))
    assert found == [1, -2, 9_223_372_036_854_775_807, None]
