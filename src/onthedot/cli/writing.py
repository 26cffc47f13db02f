"""Open a store in order to change it, without a node: one write, which the nodes that run notice by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from onthedot.cli.reading import check_exists
from onthedot.stores.connect import open_store
from onthedot.stores.protocol import Store

T = TypeVar("T")


def write_store(url: str, write: Callable[[Store], Awaitable[T]]) -> T:
    """What `write` answers. The store must exist, with the newest schema: who runs a node decides when it changes."""
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
