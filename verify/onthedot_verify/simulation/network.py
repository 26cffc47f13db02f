"""The network between a node and the store: calls take time, and calls or answers get lost.

    node ── call on its way ──▶ store: done and recorded ── answer on its way ──▶ node
                  │                                              │
                  └── lost before: not done                      └── lost after: done, unknown to the node

A call belongs to its node: if the node is frozen or dead, the call is not sent. With the faults `slow` and `late` it
belongs to the network: it is done even if its caller has died. Answers are copies, as over any network.
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
from onthedot_verify.simulation.transactions import NetworkTransactions

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""The process that caused the current callback, even if it has died."""

Strike = Callable[[str, str], bool]
"""Takes the name of a call and "before" or "after". Returns whether a fault struck the node now."""


class NetworkStore(StoreWrapper):
    """The store as one boot of a node reaches it."""

    _store: Recorder

    def __init__(self, store: Recorder, process: Process, chance: Chance, strike: Strike) -> None:
        super().__init__(store)
        self.clock = None  # as for a server: nodes know its clock only from its answers
        self.hints = Hints()
        self.weather: Weather = CALM
        self.broken: dict[str, float] = {}  # kind of fault → its amount, while it lasts
        self.calls = 0
        self._process = process
        self._chance = chance
        self._strike = strike
        given = store.transactions
        self.transactions = None if given is None else NetworkTransactions(given, self._call)

    def hear(self, hint: Hint) -> None:
        """Deliver a hint of the store, unless it gets lost."""
        if self._process.alive and "cut" not in self.broken and self._chance.fraction() >= self.weather.hints_lost:
            context = copy_context()
            context.run(PROCESS.set, self._process)
            asyncio.get_running_loop().call_soon(self._deliver, hint, context=context)

    def _deliver(self, hint: Hint) -> None:
        self.hints.send(hint)

    async def _call(self, name: str, operation: Any, args: Any, kwargs: Any) -> Any:
        if not self._process.alive:
            raise StoreUnavailable("the process is dead")
        self.calls += 1
        SENT.set(self._store.clock.now())
        luck = self._chance.fraction()
        if self._strike(name, "before"):
            await asyncio.sleep(0)
        if "held" in self.broken and name in HELD_OPS:
            await asyncio.sleep(self.broken["held"])
        if "cut" in self.broken:
            await asyncio.sleep(0.001)
            raise StoreUnavailable("the network is down")
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
        """Most calls take no time. The others take a little in each direction."""
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
        """The call belongs to the network: it is done whatever happens to its caller."""
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
            except Exception as error:  # noqa: BLE001 - the store's error is the answer
                if not answer.done():
                    answer.set_exception(error)
                    answer.exception()  # marks it as retrieved, because the caller may be gone
            else:
                if not answer.done():
                    answer.set_result(done)

        context = copy_context()
        context.run(PROCESS.set, None)
        task = loop.create_task(travel(), context=context)
        answer.add_done_callback(lambda _: task.done())  # keeps a reference to the task
        return answer


def _copied(answer: Any) -> Any:
    """Copy leases, because their holders change them and a network shares no objects."""
    if isinstance(answer, Reserved):
        answer.armed = [copy(lease) for lease in answer.armed]
        answer.held = [copy(lease) for lease in answer.held]
    elif isinstance(answer, list) and answer and isinstance(answer[0], Lease):
        return [copy(lease) for lease in answer]
    return answer
