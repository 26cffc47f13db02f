"""Records the hints that a store gets from other processes, and waits for them."""

from __future__ import annotations

import asyncio
from typing import Protocol

from onthedot.stores.hints import BaseListener, Hints
from tests.stores.loops import look_until


class ListeningStore(Protocol):
    """A store with a listener."""

    hints: Hints

    @property
    def listener(self) -> BaseListener | None: ...


def record_hints(store: ListeningStore) -> list[str]:
    """Returns a list to which the kinds of all hints from now on are appended."""
    heard: list[str] = []
    store.hints.listen(lambda hint: heard.append(hint.kind))
    return heard


async def wait_for_hint(heard: list[str], kind: str) -> None:
    """Wait until a hint of this kind has arrived."""
    try:
        await look_until(lambda: kind in heard, f"a hint about {kind}")
    except AssertionError as error:
        raise AssertionError(f"expected a hint {kind}, got {heard}") from error


async def wait_listening(*stores: ListeningStore) -> None:
    """Wait until all of these stores listen."""
    for store in stores:
        assert store.listener is not None
        await asyncio.wait_for(store.listener.listening.wait(), 10)
