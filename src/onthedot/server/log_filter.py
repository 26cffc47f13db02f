"""Logs repeated errors once a minute, because any client can cause thousands per second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("onthedot.server")

EVERY = 60.0
"""Seconds between two records of the same error."""
_MOST = 1_000  # different ones that are remembered


class OnceAMinute(logging.Filter):
    """Passes the first of equal warnings and errors, and after a minute the next one with the count of those between.
    Errors are equal if they have the same type and were raised at the same line. Other records are equal if their
    text is the same without its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[object, tuple[float, int]] = {}  # when it was passed last, and how many came since

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it."""
        if record.levelno < logging.WARNING:
            return True
        key = _key(record)
        at, held = self._seen.get(key, (None, 0))
        if at is not None and 0 <= record.created - at < EVERY:
            self._seen[key] = at, held + 1
            return False
        if len(self._seen) >= _MOST:
            self._seen.clear()
        self._seen[key] = record.created, 0
        if held:
            record.msg, record.args = f"{record.getMessage()} (and {held} more like this since the last one)", ()
        return True


def _key(record: logging.LogRecord) -> object:
    error, trace = record.exc_info[1:] if record.exc_info else (None, None)
    if error is None:
        return record.levelno, record.msg
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return type(error), trace and (trace.tb_frame.f_code.co_filename, trace.tb_lineno)


@contextmanager
def repeats_filtered() -> Iterator[None]:
    """Filter what the server logs and what the running loop reports, until the context ends."""
    once = OnceAMinute()
    logger.addFilter(once)
    asyncio.get_running_loop().set_exception_handler(_report)
    try:
        yield
    finally:
        logger.removeFilter(once)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    del loop
    logger.error(str(context.get("message", "error in the event loop")), exc_info=context.get("exception"))
