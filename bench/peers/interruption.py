"""Stops the bench on Ctrl-C or SIGTERM, so that all processes end and what was measured is printed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """A signal came. Nothing else may be measured."""


class Interruption:
    """A handler of signals. The first one cancels what runs; later ones, which `make` may pass on, do nothing.

    It raises nothing itself: an exception of a handler is lost if it hits a destructor.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._cancel: Callable[[], object] | None = None

    def __call__(self, *_: object) -> None:
        if not self.is_set:
            self.is_set = True
            if self._cancel is not None:
                self._cancel()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in a new event loop. Raises `Interrupted` if a signal came before its end."""
        return asyncio.run(self._guard(work))

    async def _guard(self, work: Coroutine[Any, Any, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            if self.is_set:
                work.close()
                raise Interrupted
            return await work
        except asyncio.CancelledError:
            raise Interrupted from None
        finally:
            self._cancel = None
