"""What Ctrl-C and SIGTERM mean: the first drains, the second stops now, a third ends the process on the spot.

SIGHUP drains, however often it comes: a terminal that closes may send it twice, and systemd sends it right behind
SIGTERM if it is told to. Under `nohup` it is ignored, and stays so.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from onthedot.cli import early


class Stopping:
    """Whether the node was asked to stop, and how urgently.

    Plain signal handlers instead of the event loop's: they also run while a sample of user code blocks the loop, so
    that the second and the third signal always have their effect.
    """

    def __init__(self, hurry: Callable[[], None]) -> None:
        self.hurried = False
        self._hurry = hurry
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()
        self._draining = False

    async def asked(self) -> None:
        """Wait until somebody wants the node to stop."""
        await self._asked.wait()

    def drain(self) -> None:
        """Ask for an orderly stop, from any thread. The next signal then stops now."""
        self._draining = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._asked.set)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Listen to the signals meanwhile."""
        with early.node_signals(self._on_signal):
            yield

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if not self._draining:
            self.drain()
            return
        if early.is_ignored(number, draining=True):
            return
        self.hurried = True
        self._hurry()
        for other in early.STOPS:
            signal.signal(other, signal.SIG_DFL)
