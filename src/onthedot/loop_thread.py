"""Runs coroutines from threads that have no event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def ping_loop(loop: asyncio.AbstractEventLoop | None, answer: Callable[[], None]) -> None:
    """Call this function on an event loop, from any thread. If the loop does not run, call it here at once."""
    if loop is None or loop.is_closed():
        answer()
        return
    try:
        loop.call_soon_threadsafe(answer)
    except RuntimeError:  # closed in between
        answer()


class LoopThread:
    """A thread with an event loop, and the way to it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="onthedot loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this work on the thread's loop, and wait for its result. If the wait is interrupted, the work is
        cancelled.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # an error of the work, or Ctrl-C here: then nobody waits for it any more
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread, after all work is done."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
