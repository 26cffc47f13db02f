"""Handles SIGINT, SIGTERM and SIGHUP: before the node has started, while it runs, and after it has ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)
STOPPED = "stopped before the node had started"

_begun = False


def install() -> None:
    """Handle both until the node installs its own handler."""
    signal.signal(signal.SIGTERM, _on_signal)
    if hears_hangup():
        signal.signal(signal.SIGHUP, _on_signal)


def hears_hangup() -> bool:
    """Whether SIGHUP means something here: `nohup` has it ignored."""
    return signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


@contextmanager
def node_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """The node's own handler for Ctrl-C, SIGTERM and SIGHUP meanwhile. From here on the process ends by itself."""
    global _begun
    numbers = (*STOPS, signal.SIGHUP) if hears_hangup() else STOPS
    before = {number: signal.signal(number, handler) for number in numbers}
    _begun = True
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def is_ignored(number: int, *, draining: bool) -> bool:
    """Whether a signal changes nothing: SIGHUP drains, however often it comes, and never hurries."""
    return draining and number == signal.SIGHUP


def _on_signal(number: int, frame: FrameType | None) -> None:
    del frame
    if _begun:
        signal.signal(number, signal.SIG_DFL)  # a second one ends it
        return
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(0)


class Stopping:
    """Whether the node was asked to stop, and how urgently.

    Plain signal handlers instead of the event loop's: they also run while a sample of user code blocks the loop, so
    that the second and the third signal always have their effect.
    """

    def __init__(self, hurry: Callable[[], None]) -> None:
        import asyncio  # not at the top: `install` is called before anything else is imported

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
        with node_signals(self._on_signal):
            yield

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if not self._draining:
            self.drain()
            return
        if is_ignored(number, draining=True):
            return
        self.hurried = True
        self._hurry()
        for other in STOPS:
            signal.signal(other, signal.SIG_DFL)
