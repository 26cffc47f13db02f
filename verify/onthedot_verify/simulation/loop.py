"""`ClusterLoop`: one event loop in virtual time, in which processes can die and freeze.

Each callback belongs to a process. The process is a context variable, which tasks and callbacks inherit. **kill -9**:
the callbacks of a dead process vanish, so no `finally` runs (`task.cancel()` would run it). **SIGSTOP**: the callbacks
of a frozen process wait, in order, until it is thawed. Between processes the order of ready callbacks at one instant is
drawn from the seed. Within a process it stays first in, first out, as asyncio promises.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
from collections import deque
from contextvars import ContextVar
from typing import Any

from onthedot.simulate.virtual_loop import VirtualLoop
from onthedot_verify.simulation.chance import Chance

MOST_TURNS = 1_000_000  # at one instant of virtual time: more means an endless loop


class Process:
    """One boot of a node, as the loop sees it."""

    __slots__ = ("alive", "frozen", "name", "parked")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.parked: list[asyncio.Handle] = []


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Stuck(RuntimeError):
    """Virtual time stands still, because a callback repeats without waiting."""


class ClusterLoop(VirtualLoop):
    """A virtual loop that knows the process of each callback."""

    def __init__(self, chance: Chance) -> None:
        super().__init__()
        self._chance = chance
        self._turns = 0
        self.steps = 0
        self.buried: set[asyncio.Task[Any]] = set()  # the garbage collector would run their `finally` blocks
        self.trouble: list[str] = []
        self.set_exception_handler(self._note_trouble)

    def _note_trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        del loop
        self.trouble.append(f"{context.get('message')}: {context.get('exception')!r}")

    # ── life and death ───────────────────────────────────────────────────────────────────────────────────────

    def kill(self, process: Process) -> None:
        """End the process. None of its callbacks runs any more, not even to clean up."""
        self.buried = asyncio.all_tasks(self)  # all open tasks, those of earlier processes too
        process.alive = False
        process.frozen = False
        process.parked.clear()

    def freeze(self, process: Process) -> None:
        """SIGSTOP: its callbacks wait."""
        process.frozen = True

    def thaw(self, process: Process) -> None:
        """SIGCONT: callbacks that became due in the meantime run now, in order."""
        process.frozen = False
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        ready.extend(process.parked)
        process.parked.clear()

    def bury_all(self) -> None:
        """Close the remaining tasks at the end, silently. Stores must refuse their writes."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            try:
                _close(task.get_coro())
            except (RuntimeError, ValueError) as error:
                self.trouble.append(f"{task.get_name()} could not be closed: {error}")
        self.buried.clear()

    # ── turns of the loop ────────────────────────────────────────────────────────────────────────────────────

    def _run_once(self) -> None:
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        self._ring(ready)
        batch = [ready.popleft() for _ in range(len(ready))]
        self.steps += len(batch)
        self._turns += 1
        if self._turns > MOST_TURNS:
            raise Stuck(f"{MOST_TURNS} turns of the loop at {self.time()} s, no callback waits: {batch[:3]}")
        if len(batch) == 1:
            self._run(batch[0], batch[0]._context.get(PROCESS))  # type: ignore[attr-defined]
            return
        for handle, process in self._mixed(batch):
            self._run(handle, process)

    def _ring(self, ready: deque[asyncio.Handle]) -> None:
        """Move due timers to `ready`. If nothing is ready, jump to the next timer first."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
        if not ready:
            if not scheduled:
                raise RuntimeError("virtual time stands still: every task waits, and there is no timer")
            if scheduled[0].when() > self._virtual_time:
                self._turns = 0
                self._virtual_time = scheduled[0].when()
        while scheduled and scheduled[0].when() <= self._virtual_time:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            ready.append(handle)

    def _mixed(self, batch: list[asyncio.Handle]) -> list[tuple[asyncio.Handle, Process | None]]:
        owned = [(handle, handle._context.get(PROCESS)) for handle in batch]  # type: ignore[attr-defined]
        owners = [owner for _, owner in owned]
        if all(owner is owners[0] for owner in owners):
            return owned
        queues: dict[Process | None, deque[tuple[asyncio.Handle, Process | None]]] = {}
        for entry in owned:
            queues.setdefault(entry[1], deque()).append(entry)
        self._chance.shuffle(owners)
        return [queues[owner].popleft() for owner in owners]

    def _run(self, handle: asyncio.Handle, process: Process | None) -> None:
        if handle._cancelled:
            return
        if process is not None:
            if not process.alive:
                return
            if process.frozen:
                process.parked.append(handle)
                return
        handle._run()


def _close(coroutine: Any) -> None:
    """Close a coroutine. If it has not begun, close its coroutine arguments too, or Python warns about them."""
    if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        for given in inspect.getcoroutinelocals(coroutine).values():
            if inspect.iscoroutine(given):
                _close(given)
    coroutine.close()
