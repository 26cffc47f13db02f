"""Opens a store for one command: to read it, or to write once without a node. Running nodes notice a write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from onthedot.model.addresses import is_server
from onthedot.stores.addresses import shown_url
from onthedot.stores.connect import open_store, sqlite_path
from onthedot.stores.protocol import Store

T = TypeVar("T")


def read_store(url: str, read: Callable[[Store], Awaitable[T]]) -> T:
    """Call `read` with the store, which must exist. Nothing in it is changed."""
    check_exists(url)
    return asyncio.run(_read(url, read))


def check_exists(url: str) -> None:
    """Refuse a store that does not exist, or that other processes cannot see."""
    if is_server(url):
        raise click.UsageError(
            f"store: expected the store itself, got a server, {shown_url(url)!r}; this cannot be asked over HTTP"
        )
    if url.startswith("memory:"):
        raise click.UsageError(
            "store: expected one that other processes can read, got 'memory:', which lives inside one; "
            "use sqlite:///FILE"
        )
    path = sqlite_path(url)
    if path is not None and not (path.exists() and path.stat().st_size):
        raise click.UsageError(
            f"store: expected a database at '{path}', found none; "
            f"make one with 'onthedot store migrate --db {path}', or name another with --db"
        )


async def _read(url: str, read: Callable[[Store], Awaitable[T]]) -> T:
    store = await open_store(url, read_only=True)
    try:
        return await read(store)
    finally:
        await store.close()


def write_store(url: str, write: Callable[[Store], Awaitable[T]]) -> T:
    """Call `write` with the store, which must exist and have the newest schema: whoever runs a node decides about
    migrations."""
    check_exists(url)
    return asyncio.run(_write(url, write))


async def _write(url: str, write: Callable[[Store], Awaitable[T]]) -> T:
    looked_at = await open_store(url, read_only=True)
    await looked_at.close()
    store = await open_store(url)
    try:
        return await write(store)
    finally:
        await store.close()
