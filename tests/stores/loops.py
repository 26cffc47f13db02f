"""Another event loop on its own thread, such as the one on which a program's handlers run."""

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
    """Runs until `stop`, which leaves the loop open. `close` also ends its generators."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="other loop")
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this on the other loop, and wait for it here."""
        return await asyncio.wait_for(asyncio.wrap_future(self.begin(work)), PATIENCE)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def block(self, until: threading.Event) -> None:
        """Block the other loop until the event is set."""
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
        """Stop, and end as `asyncio.run` does: generators first."""
        await self.stop()
        await asyncio.to_thread(self.end)

    def end(self) -> None:
        """Close the stopped loop. Blocks the caller."""
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
    """Poll: a server notices some things only after a while."""
    give_up_at = time.monotonic() + PATIENCE
    while time.monotonic() < give_up_at:
        if found():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"expected in time: {what}")
