"""Runs ticks in a loop. A service is `async def tick(now) -> delay`; everything else about looping is here.

Production, the test harness and the simulator all run the same ticks through this loop. If the store is unavailable,
the tick is repeated with back-off and jitter. Any other error is a bug: it ends the loop, and is raised to its caller.
A scheduler whose planner has died silently is worse than one that is down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from onthedot.clock import MILLISECOND, SECOND, Clock, Micros
from onthedot.ids import Ids
from onthedot.model.errors import StoreUnavailable

_FIRST_BACKOFF = 50 * MILLISECOND
_LONGEST_BACKOFF = 5 * SECOND

OnTrouble = Callable[[str, Exception, Micros], None]
"""Called with the name of a service, its error, and the delay until it tries again."""


class Service:
    """One duty of a node: its `tick` is called again and again, at the right moments."""

    name: str

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Tick now, or, during a tick, once more right after it."""
        self._woken.set()

    async def tick(self, now: Micros) -> Micros | None:
        """Do the work that is due now. Return the delay until the next call (None: wait for `wake`)."""
        raise NotImplementedError


class _Driver:
    """Calls one service's tick until it is stopped."""

    def __init__(self, service: Service, clock: Clock, ids: Ids, on_trouble: OnTrouble) -> None:
        self.service = service
        self._clock = clock
        self._ids = ids
        self._on_trouble = on_trouble
        self._woken = service._woken
        self._stopping = False
        self._troubles = 0

    def stop(self) -> None:
        """Stop ticking. A running tick ends first."""
        self._stopping = True
        self._woken.set()

    async def run(self) -> None:
        """Tick until `stop` is called."""
        while not self._stopping:
            self._woken.clear()
            delay = await self._tick()
            if not self._stopping:
                await self._pause(delay)

    async def _tick(self) -> Micros | None:
        try:
            delay: Micros | None = await self.service.tick(self._clock.now())
        except StoreUnavailable as error:
            self._troubles += 1
            longest = min(_FIRST_BACKOFF << min(self._troubles, 10), _LONGEST_BACKOFF)
            again_in = _FIRST_BACKOFF + round(longest * self._ids.fraction())
            self._on_trouble(self.service.name, error, again_in)
            return again_in
        self._troubles = 0
        return delay

    async def _pause(self, delay: Micros | None) -> None:
        if delay is not None and delay <= 0:
            await asyncio.sleep(0)  # other services get their turn even if this one always has work
            return
        timer = None
        if delay is not None:
            timer = asyncio.get_running_loop().call_later(delay / SECOND, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            if timer is not None:
                timer.cancel()


class Loop:
    """Ticks all services of a node."""

    def __init__(self, clock: Clock, ids: Ids, on_trouble: OnTrouble) -> None:
        self._clock = clock
        self._ids = ids
        self._on_trouble = on_trouble
        self._drivers: dict[Service, _Driver] = {}
        self._tasks: dict[_Driver, asyncio.Task[None]] = {}

    def add(self, service: Service) -> None:
        """Tick this service too, from `start` on."""
        self._drivers[service] = _Driver(service, self._clock, self._ids, self._on_trouble)

    def wake(self, name: str) -> None:
        """Let the service of this name tick now."""
        for service in self._drivers:
            if service.name == name:
                service.wake()

    def start(self) -> None:
        """Begin ticking."""
        for driver in self._drivers.values():
            self._tasks[driver] = asyncio.create_task(driver.run(), name=f"onthedot {driver.service.name}")

    async def stop(self, *services: Service) -> None:
        """Let these services (default: all) end their ticks and stop. Raise the error that broke one of them."""
        stopping = [self._drivers[service] for service in services] or list(self._tasks)
        for driver in stopping:
            driver.stop()
        tasks = [self._tasks.pop(driver) for driver in stopping if driver in self._tasks]
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def abandon(self) -> None:
        """Cancel every service in the middle of its tick."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def broken(self) -> BaseException:
        """Wait until a service breaks, and return its error."""
        while self._tasks:
            done, _ = await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is not None:
                    return error
            self._tasks = {driver: task for driver, task in self._tasks.items() if not task.done()}
        return await asyncio.Future()  # all are stopped: no service can break any more
