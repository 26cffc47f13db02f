"""Virtual time: an event loop that never waits, and a clock that reads it.

When every task sleeps, the loop's time jumps to the next timer. A day passes in seconds, and always in the same way:
nothing in it depends on how fast the machine is. While a thread works for the loop (a plain function, `to_thread`) time
stands still: what such a thread does takes no virtual time at all.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, TypeVar

from onthedot.clock import SECOND, Micros, to_micros

T = TypeVar("T")


class _NoSelector:
    """A selector without sockets: the loop waits only for threads, or jumps to the next timer."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout == 0 or self._loop._wait_for_threads() or self._loop._tell_settled():
            return []
        if timeout is None:
            raise RuntimeError("virtual time stands still: every task waits for something that no timer will bring")
        self._loop.jump()
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without sockets or real time. Its time begins at zero.

    >>> loop = VirtualLoop()
    >>> run_virtual(asyncio.sleep(3600), loop)
    >>> loop.time()
    3600.0
    """

    def __init__(self) -> None:
        super().__init__()
        self._virtual_time = 0.0
        self._selector = _NoSelector(self)
        self._threads = 0  # how many threads work for this loop now
        self._called = threading.Event()  # by one of them
        self._settling: list[asyncio.Future[None]] = []

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

    # ── nothing more to do at this instant ───────────────────────────────────────────────────────────────────

    async def settled(self) -> None:
        """Wait until everything that can be done at this instant is done, and only a timer could bring more.

        >>> done: list[str] = []
        >>> async def main() -> None:
        ...     loop = asyncio.get_running_loop()
        ...     loop.call_soon(loop.call_soon, done.append, "soon")
        ...     loop.call_later(1, done.append, "later")
        ...     await loop.settled()
        ...     print(done)
        >>> run_virtual(main())
        ['soon']
        """
        settled = self.create_future()
        self._settling.append(settled)
        await settled

    def _tell_settled(self) -> bool:
        """Nothing is left to do. Returns whether a caller waited for that."""
        settling, self._settling = self._settling, []
        for settled in settling:
            if not settled.done():
                settled.set_result(None)
        return bool(settling)

    # ── threads ──────────────────────────────────────────────────────────────────────────────────────────────

    def hold(self) -> None:
        """A thread begins to work for this loop: time stands still until `release`.

        >>> async def main() -> None:
        ...     loop = asyncio.get_running_loop()
        ...     loop.hold()
        ...     threading.Timer(0.01, loop.call_soon_threadsafe, [loop.release]).start()
        ...     await asyncio.sleep(60)
        ...     print(loop.time())
        >>> run_virtual(main())
        60.0
        """
        self._threads += 1

    def release(self) -> None:
        """A thread's work is done, and the loop knows what came of it.

        >>> loop = VirtualLoop()
        >>> loop.hold()
        >>> loop.release()
        >>> run_virtual(asyncio.sleep(1), loop)
        """
        self._threads -= 1

    def _wait_for_threads(self) -> bool:
        """If threads are at work, wait in real time for a call from one of them. Return whether there were any."""
        if not self._threads:
            return False
        self._called.wait()
        self._called.clear()
        return True

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call a function in a thread, as `asyncio.to_thread` does; it takes no virtual time.

        >>> run_virtual(asyncio.to_thread(sum, [1, 2, 3]))
        6
        """
        future = super().run_in_executor(executor, func, *args)
        self.hold()
        future.add_done_callback(lambda _: self.release())
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        self._called.set()


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
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.hold()  # the last threads end in real time
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
