"""Moves output from the spool to the output store, and removes it there when its run is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from onthedot.clock import MILLISECOND, SECOND, Micros
from onthedot.loop import Service
from onthedot.model.errors import OutputUnavailable
from onthedot.model.events import Events, OutputNotKept, OutputsLost, OutputsPruned
from onthedot.model.retention import DAY, HOUR
from onthedot.node.leadership import Leadership
from onthedot.output.output_store import OutputStore
from onthedot.output.spool import Spool
from onthedot.rules.retention import SETTLED
from onthedot.stores.protocol import Store

T = TypeVar("T")

BATCH = 16
"""How many attempts one tick handles."""
LOOK_EVERY: Micros = 5 * SECOND
"""The delay between two checks of the spool, if nothing wakes the service."""
ADOPT_EVERY: Micros = 60 * SECOND
"""The delay between two searches for records that a killed process has left."""
MEASURE_EVERY: Micros = 10 * SECOND
"""The delay between two checks of how much output waits, while the output store is unavailable."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1 * SECOND, 5 * 60 * SECOND

PRUNE_EVERY: Micros = HOUR
BREATH: Micros = 200 * MILLISECOND
"""The delay between two groups of runs."""
ENOUGH = 3
"""A round ends when so many groups in a row had nothing to remove: runs go in about the order of their ids. Once a day
a round goes through all groups."""


class Patience:
    """Waits for an output store until `give_up`: a frozen one must not hold up a node that stops."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()
        self._over = False

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the work. Raise `OutputUnavailable` after `give_up`."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        if self._over:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            asking = asyncio.current_task()
            if self._over and asking is not None and not asking.cancelling():
                raise OutputUnavailable("the output store has not answered, and the node stops") from None
            raise
        finally:
            self._under_way.discard(task)

    def give_up(self) -> None:
        """End the current wait, and wait no more."""
        self._over = True
        for task in self._under_way:
            task.cancel()


class OutputKeeper(Service):
    """Moves the output of ended attempts from this machine's spool to the output store, and retries failed moves.
    No error here affects a job. While the output store is unavailable, at most `most` bytes wait. Beyond that the
    oldest output is lost, and an event reports it.
    """

    name = "output keeper"

    def __init__(
        self,
        store: Store,
        spool: Spool,
        outputs: OutputStore,
        events: Events,
        wall: Callable[[], Micros],
        patience: Patience | None = None,
        *,
        most: int = 10 << 30,
    ) -> None:
        super().__init__()
        self._patience = patience or Patience()
        self._most = most
        self._measure_at: Micros = 0
        self._store = store
        self.spool = spool
        self._outputs = outputs
        self._events = events
        self._wall = wall
        self._pause: Micros = 0  # above zero while the output store cannot be used
        self._adopt_at: Micros = 0

    async def tick(self, now: Micros) -> Micros:
        """Store the output of a few attempts. The next tick continues."""
        if not self.spool.is_used:
            return LOOK_EVERY
        if now >= self._adopt_at:
            self._adopt_at = now + ADOPT_EVERY
            await self._adopt()
        waiting = await asyncio.to_thread(self.spool.waiting, BATCH)
        kept = 0
        for name, log, artifacts in waiting:
            try:
                await self._patience.wait(self._outputs.keep(name, log, artifacts))
            except FileNotFoundError:
                continue  # another process of this machine has stored it meanwhile
            except (OutputUnavailable, OSError) as error:
                self._pause = min(2 * self._pause, _LONGEST_PAUSE) or _FIRST_PAUSE
                self._events.emit(OutputNotKept(name.run_id, name.attempt, str(error), self._pause))
                await self._bound(now)
                return self._pause
            await asyncio.to_thread(self.spool.forget, name)
            kept += 1
        self._pause = 0
        return 0 if kept and len(waiting) == BATCH else LOOK_EVERY

    async def _bound(self, now: Micros) -> None:
        if now < self._measure_at:
            return
        self._measure_at = now + MEASURE_EVERY
        dropped, lost = await asyncio.to_thread(self.spool.drop_oldest, self._most)
        if dropped:
            self._events.emit(OutputsLost(dropped, lost))

    async def keep_last(self, now: Micros) -> None:
        """Store all output that waits, until something fails. The node stops."""
        while await self.tick(now) == 0:
            continue

    async def _adopt(self) -> None:
        """Submit records that nobody has submitted, if their attempts have ended in the store. A run that the store
        does not know may belong to another store with the same spool. Its records must be unchanged for a day.
        """
        now = self._wall()
        for name, written_at in await asyncio.to_thread(self.spool.left, 10 * BATCH, before=now - ADOPT_EVERY):
            ended = await self._store.queries.list_attempts(name.run_id)
            known = any((attempt.attempt, attempt.lease_id) == (name.attempt, name.lease_id) for attempt in ended)
            if known or (written_at < now - DAY and await self._store.queries.get_run(name.run_id) is None):
                await asyncio.to_thread(self.spool.hand_in, name)


class OutputPruner(Service):
    """Removes the output of runs that the store has removed, while this node is the leader: a thousand runs per tick,
    smallest ids first. New output stays for an hour, even if the store does not know its run.
    """

    name = "output pruner"

    def __init__(
        self,
        store: Store,
        leadership: Leadership,
        outputs: OutputStore,
        events: Events,
        wall: Callable[[], Micros],
        patience: Patience | None = None,
    ) -> None:
        super().__init__()
        self._patience = patience or Patience()
        self._store = store
        self._leadership = leadership
        self._outputs = outputs
        self._events = events
        self._wall = wall
        self._groups: list[str] = []  # what is left of the round, the next one last
        self._untouched = 0
        self._full_at: Micros = 0
        self._full = False

    async def tick(self, now: Micros) -> Micros:
        """Handle one group. After the last group of a round, wait a while before the next round."""
        if self._leadership.term is None:
            self._groups = []
            return PRUNE_EVERY // 60
        try:
            if not self._groups:
                await self._begin(now)
            if self._groups:
                await self._prune(self._groups.pop())
        except OutputUnavailable as error:
            self._groups = []
            self._events.emit(OutputNotKept(0, 0, str(error), PRUNE_EVERY))
            return PRUNE_EVERY
        if self._untouched >= ENOUGH and not self._full:
            self._groups = []
        return BREATH if self._groups else PRUNE_EVERY

    async def _begin(self, now: Micros) -> None:
        self._groups = (await self._patience.wait(self._outputs.groups()))[::-1]
        self._untouched = 0
        self._full = now >= self._full_at
        if self._full:
            self._full_at = now + DAY

    async def _prune(self, group: str) -> None:
        found = await self._patience.wait(self._outputs.of_group(group))
        old = [each for each in found if each.since <= self._wall() - SETTLED]
        ids = sorted({each.run_id for each in old})
        known = {run.id for run in await self._store.queries.get_runs(ids)} if ids else set()
        going = [each for each in old if each.run_id not in known]
        await self._patience.wait(self._outputs.forget([each.path for each in going]))
        self._untouched = 0 if going else self._untouched + 1
        if going:
            self._events.emit(OutputsPruned(len({each.run_id for each in going})))
