"""The pytest fixture `otd_harness`: makes harnesses for a test, and runs the test in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from onthedot.model.errors import StateError
from onthedot.scheduler import Scheduler
from onthedot.simulate.virtual_loop import VirtualLoop, run_virtual
from onthedot.testing.harness import Harness, JobLike

T = TypeVar("T")

MIDNIGHT = "2026-01-01T00:00+00:00"


class Harnesses:
    """Makes harnesses for one test: `harness = await otd_harness(sched, at="2026-03-28T12:00+01:00")`.

    >>> import onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job(schedule=otd.cron("0 3 * * *", tz="Europe/Berlin"))
    ... async def nightly() -> None: ...
    >>> async def test_it_runs_at_three_also_when_clocks_change(otd_harness):
    ...     harness = await otd_harness(sched, at="2026-03-28T12:00+01:00")
    ...     await harness.advance("2 days")
    ...     assert [start.hour for start in harness.starts(nightly, tz="Europe/Berlin")] == [3, 3]
    """

    def __init__(self) -> None:
        self._open: list[Harness] = []
        self._loop: VirtualLoop | None = None  # once there is something to do before the test, or after it
        self._fixtures = {"otd_harness"}

    def __call__(
        self,
        scheduler: Scheduler,
        at: datetime | str = MIDNIGHT,
        *,
        only: Iterable[JobLike] | None = None,
        seed: int | str = 1,
        quiet: bool = True,
    ) -> Coroutine[Any, Any, Harness]:
        """The scheduler's own jobs on a memory store with a virtual clock that stands at `at`: a node that is running.

        `only`: some of its jobs, by name or function. `seed` decides what is left to chance, such as jitter.
        `quiet=False`: with all the beats and polls of production, which takes ten seconds for a day.
        """
        if not isinstance(scheduler, Scheduler):
            raise TypeError(f"otd_harness: expected your Scheduler, got {type(scheduler).__name__}")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if not isinstance(loop, VirtualLoop):
            raise StateError(
                "otd_harness: expected to be called in a test that is a coroutine, which the plugin runs in virtual "
                "time; write 'async def test_…(otd_harness)'"
            )
        harness = Harness(at, seed=seed, quiet=quiet)
        self._open.append(harness)
        return self._start(harness, scheduler, only)

    async def _start(self, harness: Harness, scheduler: Scheduler, only: Iterable[JobLike] | None) -> Harness:
        await harness.start(scheduler, only)
        return harness

    def run(self, test: Callable[..., Coroutine[Any, Any, None]], arguments: Mapping[str, Any]) -> None:
        """Run a test to its end, in virtual time; its schedulers are as they were before.

        >>> otd_harness = Harnesses()
        >>> otd_harness.run(test_it_runs_at_three_also_when_clocks_change, {"otd_harness": otd_harness})
        """
        if self._loop is None:
            run_virtual(self._run(test, arguments))
        else:
            self._loop.run_until_complete(self._run(test, arguments))

    def makes(self, fixture: str, needs: Iterable[str]) -> bool:
        """Whether a coroutine that is a fixture belongs here: it needs a harness, or another one that does.

        >>> otd_harness = Harnesses()
        >>> otd_harness.makes("database", ["tmp_path"])
        False
        >>> otd_harness.makes("shop", ["otd_harness"]), otd_harness.makes("order", ["shop"])
        (True, True)
        """
        if self._fixtures.isdisjoint(needs):
            return False
        self._fixtures.add(fixture)
        return True

    def wait(self, part: Awaitable[T]) -> T:
        """Do something before the test, or after it, in its virtual time.

        >>> otd_harness = Harnesses()
        >>> otd_harness.wait(asyncio.sleep(3_600, "an hour later"))
        'an hour later'
        >>> otd_harness.close()
        """
        if self._loop is None:
            self._loop = VirtualLoop()
        return self._loop.run_until_complete(_finish(part))

    def close(self) -> None:
        """End the test: close everything that it used.

        >>> otd_harness = Harnesses()
        >>> async def shop(otd_harness):  # a fixture
        ...     return await otd_harness(sched, at="2026-06-01T12:00Z")
        >>> harness = otd_harness.wait(shop(otd_harness))
        >>> otd_harness.close()
        """
        loop, self._loop = self._loop, None
        if loop is not None:
            run_virtual(self._close(), loop)

    def report(self) -> str:
        """Return what happened in the harnesses of this test; empty if it had no harness. A test that fails shows it.

        >>> otd_harness = Harnesses()
        >>> otd_harness.run(test_it_runs_at_three_also_when_clocks_change, {"otd_harness": otd_harness})
        >>> "2026-03-29 01:00:00.000  finished   nightly" in otd_harness.report()
        True
        """
        return "\n\n".join(harness.event_log.report() for harness in self._open)

    async def _run(self, test: Callable[..., Coroutine[Any, Any, None]], arguments: Mapping[str, Any]) -> None:
        try:
            await test(**arguments)
        finally:
            await self._close()

    async def _close(self) -> None:
        for harness in reversed(self._open):
            harness.close()


async def _finish(part: Awaitable[T]) -> T:
    return await part
