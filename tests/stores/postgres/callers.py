"""Connections of a program, of every kind within which runs can be submitted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.orm import Session


@dataclass
class Caller:
    """A connection with an open transaction. After a commit or rollback it has the next one."""

    connection: Any
    do: Callable[[str], Awaitable[Any]]  # executes a statement of the program
    commit: Callable[[], Awaitable[Any]]
    rollback: Callable[[], Awaitable[Any]]


def in_thread(work: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Makes a coroutine function of a blocking function."""

    async def ask(*given: Any) -> Any:
        return await asyncio.to_thread(work, *given)

    return ask


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Caller]:
    db = await asyncpg.connect(url, statement_cache_size=0)
    await db.execute("BEGIN")
    yield Caller(db, db.execute, lambda: db.execute("COMMIT; BEGIN"), lambda: db.execute("ROLLBACK; BEGIN"))
    await db.close()


@asynccontextmanager
async def by_asyncpg_pool(url: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(url, min_size=1, statement_cache_size=0) as pool, pool.acquire() as db:
        await db.execute("BEGIN")
        yield Caller(db, db.execute, lambda: db.execute("COMMIT; BEGIN"), lambda: db.execute("ROLLBACK; BEGIN"))
        await db.execute("ROLLBACK")


@asynccontextmanager
async def by_psycopg(url: str) -> AsyncIterator[Caller]:
    with psycopg.connect(url, prepare_threshold=None) as db:
        yield Caller(db, in_thread(db.execute), in_thread(db.commit), in_thread(db.rollback))


@asynccontextmanager
async def by_async_psycopg(url: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(url, prepare_threshold=None) as db:
        yield Caller(db, db.execute, db.commit, db.rollback)


def engine(url: str) -> sqlalchemy.Engine:
    target = sqlalchemy.make_url(url).set(drivername="postgresql+psycopg")
    return sqlalchemy.create_engine(target, poolclass=sqlalchemy.NullPool, connect_args={"prepare_threshold": None})


@asynccontextmanager
async def by_sqlalchemy(url: str) -> AsyncIterator[Caller]:
    with engine(url).connect() as db:
        yield Caller(
            db, in_thread(lambda text: db.execute(sqlalchemy.text(text))), in_thread(db.commit), in_thread(db.rollback)
        )


@asynccontextmanager
async def by_sqlalchemy_session(url: str) -> AsyncIterator[Caller]:
    with Session(engine(url)) as db:
        yield Caller(
            db, in_thread(lambda text: db.execute(sqlalchemy.text(text))), in_thread(db.commit), in_thread(db.rollback)
        )


def async_engine(url: str, driver: str) -> Any:
    from sqlalchemy.ext.asyncio import create_async_engine

    options = {"asyncpg": {"statement_cache_size": 0, "prepared_statement_cache_size": 0}}
    target = sqlalchemy.make_url(url).set(drivername=f"postgresql+{driver}")
    return create_async_engine(
        target, poolclass=sqlalchemy.NullPool, connect_args=options.get(driver, {"prepare_threshold": None})
    )


@asynccontextmanager
async def by_async_sqlalchemy(url: str) -> AsyncIterator[Caller]:
    async with async_engine(url, "asyncpg").connect() as db:
        yield Caller(db, lambda text: db.execute(sqlalchemy.text(text)), db.commit, db.rollback)


@asynccontextmanager
async def by_async_sqlalchemy_session(url: str) -> AsyncIterator[Caller]:
    made = async_engine(url, "psycopg")
    from sqlalchemy.ext.asyncio import AsyncSession

    async with AsyncSession(made) as db:
        yield Caller(db, lambda text: db.execute(sqlalchemy.text(text)), db.commit, db.rollback)


KINDS = {
    "asyncpg": by_asyncpg,
    "asyncpg-pool": by_asyncpg_pool,
    "psycopg": by_psycopg,
    "psycopg-async": by_async_psycopg,
    "sqlalchemy": by_sqlalchemy,
    "sqlalchemy-session": by_sqlalchemy_session,
    "sqlalchemy-async": by_async_sqlalchemy,
    "sqlalchemy-async-session": by_async_sqlalchemy_session,
}
