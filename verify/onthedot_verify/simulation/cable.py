"""The way between one node and the store: calls take time, get lost on the way there or on the way back.

    node ── on its way ──▶ store: done, and noted ── answer on its way ──▶ node
              │                                         │
              └── lost before: not done                 └── lost after: done, and the node does not know

A call on its way belongs to its node (frozen or dead, it is not sent) or, on a slow way, to the network: then it is
done although its caller has died. What comes back is a copy, as over any wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from copy import copy
from typing import Any

from onthedot.model.errors import StoreUnavailable
from onthedot.model.run import Lease
from onthedot.stores.hints import Hint, Hints
from onthedot.stores.values import Reserved
from onthedot.testing.store_wrapper import StoreWrapper
from onthedot_verify.simulation.chance import Chance
from onthedot_verify.simulation.faults import CALM, HELD_OPS, Weather
from onthedot_verify.simulation.loop import PROCESS, Process
from onthedot_verify.simulation.recorder import SENT, Recorder
from onthedot_verify.simulation.transactions import CableTransactions

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""Who caused what is happening, also when it happens without them."""

Strike = Callable[[str, str], bool]
"""Told the name of a call and "before" or "after"; whether something struck the node just now."""


class Cable(StoreWrapper):
    """A store as one boot of a node reaches it."""

    _store: Recorder

    def __init__(self, store: Recorder, process: Process, chance: Chance, strike: Strike) -> None:
        super().__init__(store)
        self.clock = None  # a store elsewhere: nodes know its clock by its answers only
        self.hints = Hints()
        self.weather: Weather = CALM
        self.broken: dict[str, float] = {}  # kind of fault → its amount, while it lasts
        self.calls = 0
        self._process = process
        self._chance = chance
        self._strike = strike
        given = store.transactions
        self.transactions = None if given is None else CableTransactions(given, self._call)

    def hear(self, hint: Hint) -> None:
        """Something changed in the store: a hint may arrive."""
        if self._process.alive and "cut" not in self.broken and self._chance.fraction() >= self.weather.hints_lost:
            context = copy_context()
            context.run(PROCESS.set, self._process)
            asyncio.get_running_loop().call_soon(self._deliver, hint, context=context)

    def _deliver(self, hint: Hint) -> None:
        self.hints.send(hint)

    async def _call(self, name: str, operation: Any, args: Any, kwargs: Any) -> Any:
        if not self._process.alive:
            raise StoreUnavailable("a dead process calls nobody")
        self.calls += 1
        SENT.set(self._store.clock.now())
        luck = self._chance.fraction()
        if self._strike(name, "before"):
            await asyncio.sleep(0)
        if "held" in self.broken and name in HELD_OPS:
            await asyncio.sleep(self.broken["held"])
        if "cut" in self.broken:
            await asyncio.sleep(0.001)
            raise StoreUnavailable("the cable is cut")
        if "late" in self.broken:
            return await self._late(operation, args, kwargs, luck * self.broken["late"])
        lost = self._lost(luck)
        if "slow" in self.broken:
            answer = await self._slow(operation, args, kwargs, luck, self.broken["slow"])
        else:
            answer = await self._quick(operation, args, kwargs, luck, lost)
        if self._strike(name, "after"):
            await asyncio.sleep(0)
        if lost == "after" or "deaf" in self.broken:
            raise StoreUnavailable("the answer was lost")
        return _copied(answer)

    def _lost(self, luck: float) -> str:
        probability = 0.33 if "flaky" in self.broken else self.weather.lost
        if luck >= probability:
            return ""
        return "before" if luck < probability / 2 else "after"

    async def _quick(self, operation: Any, args: Any, kwargs: Any, luck: float, lost: str) -> Any:
        """Most calls take no time at all; the others a little, on either side."""
        way = (1.0 - luck) / self.weather.slow if 1.0 - luck < self.weather.slow else 0.0
        if way:
            await asyncio.sleep(way * self.weather.latency)
        if lost == "before":
            raise StoreUnavailable("the call was lost")
        answer = await operation(*args, **kwargs)
        if way:
            await asyncio.sleep((1.0 - way) * self.weather.latency)
        return answer

    async def _slow(self, operation: Any, args: Any, kwargs: Any, luck: float, most: float) -> Any:
        """The call is with the network: it is done whatever becomes of its caller."""
        future = self._send(operation, args, kwargs, luck * most)
        answer = await future
        await asyncio.sleep((1.0 - luck) * most)
        return answer

    async def _late(self, operation: Any, args: Any, kwargs: Any, delay: float) -> Any:
        unheard = self._send(operation, args, kwargs, 0.01 + delay)
        await asyncio.wait([unheard], timeout=0.005)
        raise StoreUnavailable("no answer in time")

    def _send(self, operation: Any, args: Any, kwargs: Any, delay: float) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        async def travel() -> None:
            await asyncio.sleep(delay)
            try:
                done = await operation(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - whatever the store raises is the answer
                if not answer.done():
                    answer.set_exception(error)
                    answer.exception()  # seen, also when nobody waits for it any more
            else:
                if not answer.done():
                    answer.set_result(done)

        context = copy_context()
        context.run(PROCESS.set, None)
        task = loop.create_task(travel(), context=context)
        answer.add_done_callback(lambda _: task.done())  # keeps the task while somebody waits
        return answer


def _copied(answer: Any) -> Any:
    """Leases are objects that holders change: over a wire, nobody shares them."""
    if isinstance(answer, Reserved):
        answer.armed = [copy(lease) for lease in answer.armed]
        answer.held = [copy(lease) for lease in answer.held]
    elif isinstance(answer, list) and answer and isinstance(answer[0], Lease):
        return [copy(lease) for lease in answer]
    return answer
