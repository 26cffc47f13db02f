"""Plays a scenario: one node in virtual time, whose handlers take their time and do nothing else."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from onthedot.clock import SECOND, Micros, to_datetime
from onthedot.define.check import parents_first
from onthedot.ids import SeededIds
from onthedot.model.events import Events
from onthedot.model.job import Call, Job
from onthedot.runners.registry import Registry
from onthedot.simulate.results import Tally
from onthedot.simulate.scenario import Scenario
from onthedot.simulate.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from onthedot.simulate.virtual_node import VirtualEngine, alone, quiet
from onthedot.stores.connect import open_store

STEP: Micros = 6 * 3_600 * SECOND
"""How much virtual time passes between two reports of the progress."""

LOOKAHEAD: Micros = 3_600 * SECOND
"""Many slots in one pass of the planner, and few passes: half the time that five minutes would take."""

JUST_BEFORE: Micros = SECOND
"""A slot at the very beginning counts, one at the end does not, nor does one at the instant at which the node dies."""

OnWay = Callable[[Micros], None]
"""Called with the instant up to which everything has happened."""


def play(scenario: Scenario, tally: Tally, on_way: OnWay = lambda _: None) -> None:
    """Play a scenario to its end. The tally gets every event."""
    loop = VirtualLoop()
    collects = gc.isenabled()
    gc.disable()  # a tenth of the time
    try:
        run_virtual(_Player(scenario, tally, on_way, loop).run(), loop)
    finally:
        if collects:
            gc.enable()


class _Player:
    def __init__(self, scenario: Scenario, tally: Tally, on_way: OnWay, loop: VirtualLoop) -> None:
        self._scenario = scenario
        self._tally = tally
        self._on_way = on_way
        self._loop = loop
        self._clock = VirtualClock(loop, to_datetime(scenario.start - JUST_BEFORE))
        self._ids = SeededIds("simulate")
        self._jobs = [_without_code(job) for job in parents_first(scenario.jobs.values())]
        self._registry = Registry()
        for job in scenario.jobs.values():
            self._registry.add(job.name, _taking(scenario.duration(job)))
        self._trouble: BaseException | None = None
        loop.set_exception_handler(self._note)

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception):
            self._trouble = self._trouble or error
        else:
            loop.default_exception_handler(context)

    async def run(self) -> None:
        """Start a node, stop it for each outage, and start the next one."""
        store = await open_store("memory:", clock=self._clock)
        scenario = self._scenario
        settings = alone(scenario.settings, self._jobs)
        for outage in [*sorted(scenario.outages), None]:
            engine = VirtualEngine(
                store, self._registry, quiet(settings, lookahead=LOOKAHEAD), Events([self._tally.take]), self._clock,
                self._ids,
            )  # fmt: skip
            await engine.start(self._jobs, self._loop)
            for service, ttl in (("leadership", settings.term_ttl), ("reaper", settings.node_ttl)):
                self._loop.call_later((ttl + 1_000) / SECOND, engine.wake, service)  # recovers its runs
            broken = asyncio.create_task(engine.broken())
            await self._pass((scenario.end if outage is None else outage.start) - JUST_BEFORE, broken)
            broken.cancel()
            await engine.die(scenario.settings)
            self._tally.node_died()
            if outage is not None:
                await self._sleep_until(outage.end)

    async def _pass(self, until: Micros, broken: asyncio.Task[BaseException]) -> None:
        while (now := self._clock.now()) < until:
            step = asyncio.create_task(self._sleep_until(min(until, now + STEP)))
            await asyncio.wait({step, broken}, return_when=asyncio.FIRST_COMPLETED)
            step.cancel()
            if broken.done():
                raise broken.result()
            if self._trouble is not None:
                raise self._trouble
            self._on_way(self._clock.now())
        await self._loop.settled()

    async def _sleep_until(self, instant: Micros) -> None:
        await asyncio.sleep(max(0, instant - self._clock.now()) / SECOND)


def _without_code(job: Job) -> Job:
    """The same job, with a handler that takes time and does nothing else."""
    return replace(job, task=Call(handler=job.name), isolation="none")


def _taking(duration: Micros) -> Callable[..., Any]:
    async def take(**_: Any) -> None:
        await asyncio.sleep(duration / SECOND)

    return take
