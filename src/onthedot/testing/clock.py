"""Virtual time: an event loop that never waits, and a clock that reads it.

When every task sleeps, the loop's time jumps to the next timer. A day passes in seconds, and always in the same way:
nothing in it depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime
from typing import Any, TypeVar

from onthedot.clock import SECOND, Micros, to_micros

T = TypeVar("T")


class _NoSelector:
    """There is no outside world to wait for: waiting is jumping to the next timer."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("virtual time stands still: every task waits for something that no timer will bring")
        if timeout > 0:
            self._loop.jump()
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without threads, sockets or real time. Its time begins at zero."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_time = 0.0
        self._selector = _NoSelector(self)

    def time(self) -> float:
        return self._virtual_time

    def jump(self) -> None:
        """Move to the next timer, exactly: adding up floats would stop short of it."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        self._virtual_time = max(self._virtual_time, scheduled[0].when())

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""


class VirtualClock:
    """A clock that begins at an instant and passes with a virtual loop. `step` sets it, as people set clocks."""

    def __init__(self, loop: VirtualLoop, start: datetime) -> None:
        self._loop = loop
        self._start = to_micros(start)

    def now(self) -> Micros:
        return self._start + self.steady()

    def steady(self) -> Micros:
        return round(self._loop.time() * SECOND)

    def step(self, length: Micros) -> None:
        """Set the wall clock forward or back; the steady clock does not notice."""
        self._start += length


def run_virtual(main: Coroutine[Any, Any, T], loop: VirtualLoop | None = None) -> T:
    """Run a coroutine to its end in virtual time, like `asyncio.run`."""
    loop = loop or VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.wait(pending))
        loop.close()
