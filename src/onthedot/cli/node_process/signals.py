"""Handles SIGINT, SIGTERM and SIGHUP before, during and after the node.

    before the node has started   SIGTERM and SIGHUP exit at once, with 0: there is nothing to drain
    while it runs                 the first signal drains, the second stops now, the third kills the process
    after it has ended            the process exits with its code

SIGHUP only ever drains: a closing terminal may send it twice, and systemd can send it right after SIGTERM. Under
`nohup` it stays ignored.
"""

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
    """Handle SIGTERM and SIGHUP until the node installs its own handler."""
    signal.signal(signal.SIGTERM, _on_signal)
    if hears_hangup():
        signal.signal(signal.SIGHUP, _on_signal)


def hears_hangup() -> bool:
    """Return whether SIGHUP is handled: `nohup` ignores it."""
    return signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


@contextmanager
def node_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Use the node's handler for SIGINT, SIGTERM and SIGHUP. From here on only the node ends the process."""
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
    """Return whether a signal has no effect: SIGHUP starts a drain, and never speeds it up."""
    return draining and number == signal.SIGHUP


def _on_signal(number: int, frame: FrameType | None) -> None:
    del frame
    if _begun:
        signal.signal(number, signal.SIG_DFL)  # the next one kills the process
        return
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(0)


class StopSignals:
    """Remembers whether signals have asked the node to stop, and how urgently.

    It uses plain signal handlers, not the event loop's: they also run while user code blocks the loop.
    """

    def __init__(self, hurry: Callable[[], None]) -> None:
        import asyncio  # not at the top: `install` is called before anything else is imported

        self.hurried = False
        self._hurry = hurry
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()
        self._draining = False

    async def asked(self) -> None:
        """Wait until the node is asked to stop."""
        await self._asked.wait()

    def drain(self) -> None:
        """Ask for a drain, from any thread. The next signal then stops now."""
        self._draining = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._asked.set)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Handle signals inside of this context."""
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
