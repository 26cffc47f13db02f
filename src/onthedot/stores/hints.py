"""Sends hints, which wake sleeping services, and listens for hints of other processes.

A lost or repeated hint costs only latency, because every sleeping service also polls.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import ClassVar, Literal, NamedTuple, get_args

from onthedot.clock import Micros
from onthedot.ids import RandomIds

HintKind = Literal["runs", "schedules", "beats", "terms", "ends"]
"""The reason to wake a service. runs: there are runs to take. schedules: there are schedules to plan. beats: the node
sends a heartbeat now, and receives cancellations and drains with its answer. terms: there are terms to win. ends: runs
have ended."""

KINDS: tuple[HintKind, ...] = get_args(HintKind)

ALIVE_EVERY = 5.0
"""The time between two checks of a listener that its server is still available, in seconds."""

LONGEST_PAUSE = 5.0
"""The longest time between two attempts to connect, in seconds."""


class Hint(NamedTuple):
    """Tells sleeping services that something has changed."""

    kind: HintKind
    ready_at: Micros


class Loss(NamedTuple):
    """A store has lost writes that it had acknowledged: `kept` of `acknowledged` remain. A loss is not a hint, but is
    sent in the same way. `epoch` counts restarts and replacements of the server."""

    kept: int
    acknowledged: int
    epoch: int


class Hints:
    """The subscribers of a store. They are called after the commit of a change, each on the event loop from which it
    subscribed. If the change was made on that loop, they are called at once."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Callable[[Hint], None], asyncio.AbstractEventLoop | None]] = []
        self._mourners: list[Callable[[Loss], None]] = []

    def listen(self, listener: Callable[[Hint], None]) -> None:
        self._listeners.append((listener, _running_loop()))

    def forget(self, listener: Callable[[Hint], None], mourner: Callable[[Loss], None]) -> None:
        """Remove one listener of hints, and one of losses. The others stay."""
        self._listeners = [one for one in self._listeners if one[0] != listener]
        self._mourners = [one for one in self._mourners if one != mourner]

    def listen_for_loss(self, listener: Callable[[Loss], None]) -> None:
        """Call this listener when the store has lost writes. It is called on the thread that detects the loss."""
        self._mourners.append(listener)

    def tell_loss(self, loss: Loss) -> None:
        for mourner in self._mourners:
            mourner(loss)

    def send(self, hint: Hint) -> None:
        here = _running_loop()
        for listener, loop in self._listeners:
            if loop is None or loop is here:
                listener(hint)
            else:
                with suppress(RuntimeError):  # the loop was closed: nobody is waiting any more
                    loop.call_soon_threadsafe(listener, hint)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread. None if no loop runs."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class BaseListener(ABC):
    """Forwards the hints of other processes, on the event loop that started it. It reconnects when necessary."""

    trouble: ClassVar[tuple[type[Exception], ...]]
    """The errors of the server, or of the connection to it."""

    def __init__(self, sender: str, hints: Hints) -> None:
        self._sender = sender
        self._hints = hints
        self._ids = RandomIds()
        self._task: asyncio.Task[None] | None = None
        self.listening = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        pause, again = 0.1, False
        while True:
            with suppress(*self.trouble):
                await self._listen_once(missed=again)
                pause = 0.1
            self.listening.clear()
            again = True
            await asyncio.sleep(pause * (0.5 + self._ids.fraction()))
            pause = min(LONGEST_PAUSE, pause * 2)

    @abstractmethod
    async def _listen_once(self, *, missed: bool) -> None:
        """Connect, call `_is_listening`, and call `_heard` for each hint, until the connection is lost."""

    def _is_listening(self, *, missed: bool) -> None:
        """Note that the connection is open. `missed`: hints may have been lost before, so wake every service once."""
        self.listening.set()
        if missed:
            self._send(KINDS)

    def _heard(self, sender: str, kinds: Collection[str]) -> None:
        """Forward hints of another process. This process knows its own."""
        if sender != self._sender:
            self._send([kind for kind in KINDS if kind in kinds])

    def _send(self, kinds: Collection[HintKind]) -> None:
        for kind in kinds:
            self._hints.send(Hint(kind, 0))

    async def close(self) -> None:
        """Stop listening. A library can swallow a cancellation while it connects. So the task is cancelled until it has
        ended."""
        if self._task is None:
            return
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.05)
        if not self._task.cancelled():
            self._task.result()  # it ends by itself only if there is a bug: then that is told
