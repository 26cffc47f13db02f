"""Another event loop, on a thread of its own: as the handlers of a program have one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

PATIENCE = 30.0


class OtherLoop:
    """Runs until it is stopped, which leaves it open, and ends everything that is its own when it is closed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="other loop")
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there, and wait here."""
        return await asyncio.wait_for(asyncio.wrap_future(self.begin(work)), PATIENCE)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def block(self, until: threading.Event) -> None:
        """Give it something that leaves it no time."""
        blocked = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wait() -> None:
            loop.call_soon_threadsafe(blocked.set)
            until.wait(PATIENCE)

        self.loop.call_soon_threadsafe(wait)
        await asyncio.wait_for(blocked.wait(), PATIENCE)

    async def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        await asyncio.to_thread(self._thread.join, PATIENCE)

    async def close(self) -> None:
        """As `asyncio.run` ends: generators first."""
        await self.stop()
        await asyncio.to_thread(self.end)

    def end(self) -> None:
        """When it is stopped. Blocks."""
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.loop.is_closed():
            await self.close()


async def look_until(found: Callable[[], object], what: str) -> None:
    """Look again and again: for what a server notices in its own time."""
    give_up_at = time.monotonic() + PATIENCE
    while time.monotonic() < give_up_at:
        if found():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"waited in vain for {what}")
