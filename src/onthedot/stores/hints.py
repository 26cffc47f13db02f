"""Sends hints, which wake sleeping services, and listens for hints of other processes.

Losing or doubling every one of them costs latency only, because everybody who sleeps looks again by itself.
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
"""What there may be to do: runs to take, schedules to plan, a reason to beat now (cancels and drains come back with the
beat, and the leader hears who lives), terms to win, runs that have ended."""

KINDS: tuple[HintKind, ...] = get_args(HintKind)

ALIVE_EVERY = 5.0
"""How often a listener sees whether its server is still there, in seconds."""

LONGEST_PAUSE = 5.0
"""How long it waits between two attempts to connect, at the most, in seconds."""


class Hint(NamedTuple):
    """Something changed that a sleeping service may want to know."""

    kind: HintKind
    ready_at: Micros


class Loss(NamedTuple):
    """A store has come back without writes that it had acknowledged: `kept` of `acknowledged` remain. It is no hint,
    but sent in the same way. `epoch` counts restarts and replacements of the server."""

    kept: int
    acknowledged: int
    epoch: int


class Hints:
    """The subscribers of a store. They are called after the commit of a change, each on the loop that it listens from:
    at once if the change was made on that loop."""

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
        """Call this listener when the store has lost writes, on the thread that notices."""
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
    """The loop of this thread; None outside of any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class BaseListener(ABC):
    """Passes on the hints of other processes, on the loop that started it. Reconnects when it has to."""

    trouble: ClassVar[tuple[type[Exception], ...]]
    """What the server, or the way to it, can go wrong with."""

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
        """Connect, call `_is_listening`, and `_heard` with what comes, until the connection is lost."""

    def _is_listening(self, *, missed: bool) -> None:
        """The connection is made. What came before that is missed: then everybody looks once."""
        self.listening.set()
        if missed:
            self._send(KINDS)

    def _heard(self, sender: str, kinds: Collection[str]) -> None:
        """Pass on hints of another process. This process knows its own."""
        if sender != self._sender:
            self._send([kind for kind in KINDS if kind in kinds])

    def _send(self, kinds: Collection[HintKind]) -> None:
        for kind in kinds:
            self._hints.send(Hint(kind, 0))

    async def close(self) -> None:
        """Stop listening. A library can swallow a cancellation while it connects, so it is cancelled until the task has
        ended."""
        if self._task is None:
            return
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.05)
        if not self._task.cancelled():
            self._task.result()  # it ends by itself only if there is a bug: then that is told
