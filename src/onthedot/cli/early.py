"""Handles SIGTERM and SIGHUP before the node has started and after it has ended.

A node drains (`stopping.py`). Before there is one nothing runs and nothing is open: the process ends at once, as after
an ordinary stop. When the node has ended the process is about to end with the exit code that tells how: that stays.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

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


def node_begins() -> None:
    """From here on the process ends by itself."""
    global _begun
    _begun = True


def _on_signal(number: int, frame: FrameType | None) -> None:
    del frame
    if _begun:
        signal.signal(number, signal.SIG_DFL)  # a second one ends it
        return
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(0)
