"""What a store hears from other processes, and waiting for it."""

from __future__ import annotations

import asyncio
from typing import Protocol

from onthedot.stores.hints import BaseListener, Hints
from tests.stores.loops import look_until


class Hearing(Protocol):
    """A store that listens."""

    hints: Hints

    @property
    def listener(self) -> BaseListener | None: ...


def heard_by(store: Hearing) -> list[str]:
    """The kinds of hints that it is told from now on."""
    heard: list[str] = []
    store.hints.listen(lambda hint: heard.append(hint.kind))
    return heard


async def until(heard: list[str], kind: str) -> None:
    """Wait until this kind was heard."""
    try:
        await look_until(lambda: kind in heard, f"a hint about {kind}")
    except AssertionError as error:
        raise AssertionError(f"expected to hear {kind}, heard {heard}") from error


async def listening(*stores: Hearing) -> None:
    """Wait until all of them listen."""
    for store in stores:
        assert store.listener is not None
        await asyncio.wait_for(store.listener.listening.wait(), 10)
