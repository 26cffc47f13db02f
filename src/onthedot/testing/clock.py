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
    """An event loop without threads, sockets or real time. Its time begins at zero.

    >>> loop = VirtualLoop()
    >>> run_virtual(asyncio.sleep(3600), loop)
    >>> loop.time()
    3600.0
    """

    def __init__(self) -> None:
        super().__init__()
        self._virtual_time = 0.0
        self._selector = _NoSelector(self)

    def time(self) -> float:
        """The seconds that have passed in it.

        >>> round(loop.time() / 60), "minutes"
        (60, 'minutes')
        """
        return self._virtual_time

    def jump(self) -> None:
        """Move to the next timer, exactly: adding up floats would stop short of it.

        >>> waiting = VirtualLoop()
        >>> timer = waiting.call_later(0.1, print)
        >>> waiting.jump()
        >>> waiting.time()
        0.1
        >>> waiting.close()
        """
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        self._virtual_time = max(self._virtual_time, scheduled[0].when())

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""


class VirtualClock:
    """A clock that begins at an instant and passes with a virtual loop. `step` sets it, as people set clocks.

    >>> from datetime import UTC
    >>> loop = VirtualLoop()
    >>> clock = VirtualClock(loop, datetime(2027, 1, 1, tzinfo=UTC))
    >>> run_virtual(asyncio.sleep(60), loop)
    >>> clock.now() - to_micros(datetime(2027, 1, 1, tzinfo=UTC))
    60000000
    """

    def __init__(self, loop: VirtualLoop, start: datetime) -> None:
        self._loop = loop
        self._start = to_micros(start)

    def now(self) -> Micros:
        """The instant by this clock, in microseconds since 1970.

        >>> from onthedot.clock import to_datetime
        >>> print(to_datetime(clock.now()))
        2027-01-01 00:01:00+00:00
        """
        return self._start + self.steady()

    def steady(self) -> Micros:
        """How much time has passed, in microseconds, whatever anybody has set the clock to.

        >>> clock.steady()
        60000000
        """
        return round(self._loop.time() * SECOND)

    def step(self, length: Micros) -> None:
        """Set the wall clock forward or back; the steady clock does not notice.

        >>> before, steady = clock.now(), clock.steady()
        >>> clock.step(-5 * SECOND)
        >>> clock.now() - before, clock.steady() - steady
        (-5000000, 0)
        """
        self._start += length


def run_virtual(main: Coroutine[Any, Any, T], loop: VirtualLoop | None = None) -> T:
    """Run a coroutine to its end in virtual time, like `asyncio.run`.

    >>> async def wait_a_day() -> str:
    ...     await asyncio.sleep(86_400)
    ...     return "that was quick"
    >>> run_virtual(wait_a_day())
    'that was quick'
    """
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
