"""Listening for the hints of other processes: connect, pass on what comes, connect anew when the server is lost.

A hint that is lost costs latency only, because everybody who sleeps looks again by itself. How a driver hears, it says.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import suppress
from typing import ClassVar, get_args

from onthedot.ids import RandomIds
from onthedot.stores.hints import Hint, HintKind, Hints

KINDS: tuple[HintKind, ...] = get_args(HintKind)

ALIVE_EVERY = 5.0
"""How often a listener sees whether its server is still there, in seconds."""

LONGEST_PAUSE = 5.0
"""How long it waits between two attempts to connect, at the most, in seconds."""


class BaseListener(ABC):
    """Passes on the hints of other processes, on the loop that has started it. Connects anew when it has to."""

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
        """Pass on what another process has told; what it told itself it knows."""
        if sender != self._sender:
            self._send([kind for kind in KINDS if kind in kinds])

    def _send(self, kinds: Collection[HintKind]) -> None:
        for kind in kinds:
            self._hints.send(Hint(kind, 0))

    async def close(self) -> None:
        """End listening. A library can swallow a cancellation while it connects: it is told until it has ended."""
        if self._task is None:
            return
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.05)
        if not self._task.cancelled():
            self._task.result()  # it ends by itself only if there is a bug: then that is told
