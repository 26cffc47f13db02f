"""An engine on the test's own loop, bound to a scheduler: its verbs work as in the application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from onthedot.clock import Clock
from onthedot.model.job import Job
from onthedot.node.engine import Engine
from onthedot.node.engine_thread import EngineThread
from onthedot.scheduler import Scheduler

T = TypeVar("T")


class BoundEngine(EngineThread):
    """Replaces the engine's thread of a scheduler. Here the engine has no thread: it shares this loop."""

    def __init__(self, engine: Engine, scheduler: Scheduler, clock: Clock, stop: Callable[[], Awaitable[None]]) -> None:
        super().__init__(
            engine.store, scheduler.registry, scheduler.settings, engine.events, clock, scheduler._ids
        )  # fmt: skip
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._stop = stop
        self.ended = self._loop.create_future()
        self._jobs: dict[str, Job] = {}

    async def on_engine(self, work: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
        """Run the work here at once. From another loop (a thread of the application) run it as in production."""
        if asyncio.get_running_loop() is self._loop and self._engine is not None:
            return await work(self._engine)
        return await super().on_engine(work)

    async def stop(self) -> None:
        """Stop the node of the harness, because the application stops its scheduler."""
        await self._stop()

    def bind(self, scheduler: Scheduler) -> None:
        """Make the scheduler count as running."""
        self._jobs = dict(scheduler.jobs)
        scheduler._thread = self

    def unbind(self, scheduler: Scheduler) -> None:
        """Restore the scheduler to its state before `bind`."""
        if scheduler._thread is self:
            scheduler._thread = None
            scheduler.jobs.clear()  # jobs that were put meanwhile stay in the harness's store
            scheduler.jobs.update(self._jobs)
        if not self.ended.done():
            self.ended.set_result(None)
