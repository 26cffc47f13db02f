"""What a store has for each event loop: connections belong to the loop that they were made on.

A program's handlers may ask on another loop than the engine's. Each loop gets a home when it first asks, and closes it
at its own end at the latest.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from onthedot.errors import StateError

CLOSE_PATIENCE = 2.0
"""How long a store that is closed waits for other loops to close what is theirs, in seconds."""


class Home(ABC):
    """What belongs to one event loop."""

    def __init__(self) -> None:
        self._end = self._last()

    @abstractmethod
    async def leave(self) -> None:
        """Let go of everything. Called once, on this loop."""

    async def enter(self) -> None:
        """Be closed with the loop, at the latest: it ends its generators before it is closed itself."""
        await anext(self._end)

    async def _last(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.leave()

    async def close(self) -> None:
        """Leave, if that was not done yet."""
        await self._end.aclose()


H = TypeVar("H", bound=Home)


class Homes(Generic[H]):
    """The homes of one store, by loop. `shown` is the store's address, for people."""

    def __init__(self, make: Callable[[], H], shown: str) -> None:
        self._make = make
        self._shown = shown
        self._homes: dict[AbstractEventLoop, H] = {}
        self._closed = False

    async def here(self) -> H:
        """What belongs to the loop that this is called on. `StateError` when the store was closed."""
        loop = asyncio.get_running_loop()
        home = self._homes.get(loop)
        if home is not None:
            return home
        if self._closed:
            raise StateError(f"{self._shown}: expected an open store, but it was closed; open it again")
        for old in [one for one in list(self._homes) if one.is_closed()]:
            self._homes.pop(old, None)  # another loop may do the same at this moment
        home = self._homes[loop] = self._make()
        await home.enter()
        return home

    async def close(self) -> None:
        """Close them all, each on its own loop; those of other loops are waited for, but not for ever. Twice is fine.

        A loop that does not run, or has no time now, closes what is its own when it ends."""
        self._closed = True
        homes, self._homes = self._homes, {}
        here = homes.pop(asyncio.get_running_loop(), None)
        elsewhere = [_close_on(loop, home) for loop, home in homes.items() if loop.is_running()]
        if here is not None:
            await here.close()
        asked = [asyncio.wrap_future(closing) for closing in elsewhere if closing is not None]
        if asked:
            done, _ = await asyncio.wait(asked, timeout=CLOSE_PATIENCE)
            for closing in done:
                if not closing.cancelled():  # its loop ended meanwhile, and with it what was its own
                    closing.result()


def _close_on(loop: AbstractEventLoop, home: Home) -> Future[None] | None:
    """Ask another loop to close a home; None if it has ended at this moment."""
    closing = home.close()
    try:
        return asyncio.run_coroutine_threadsafe(closing, loop)
    except RuntimeError:
        closing.close()
        return None
