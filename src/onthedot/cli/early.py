"""Handles SIGTERM and SIGHUP before the node has started and after it has ended.

A node drains (`stopping.py`). Before there is one nothing runs and nothing is open: the process ends at once, as after
an ordinary stop. When the node has ended the process is about to end with the exit code that tells how: that stays.
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
