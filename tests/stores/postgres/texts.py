"""A table for handlers to write to: in the database of the store, outside of its schema."""

from __future__ import annotations

import asyncpg
import psycopg

CREATE = """
CREATE TABLE IF NOT EXISTS public.texts (number bigint GENERATED ALWAYS AS IDENTITY, text text NOT NULL);
TRUNCATE public.texts
"""


class TableOfTexts:
    """See `Effects`. Texts are read in the order of the commits, as far as the checks depend on it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._seen: list[str] = []
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(CREATE)

    async def write(self, connection: asyncpg.Connection[asyncpg.Record], text: str) -> None:
        await connection.execute("INSERT INTO texts (text) VALUES ($1)", text)

    async def read(self) -> list[str]:
        with psycopg.connect(self._url, autocommit=True) as db:
            found = [text for (text,) in db.execute("SELECT text FROM texts ORDER BY number")]
        self._seen += [text for text in found if text not in self._seen]
        return [text for text in self._seen if text in found]
