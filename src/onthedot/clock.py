"""The clock. Only this module (with `ids`) may read the machine's time.

An **instant** inside onthedot is an `int`: microseconds since 1970-01-01 UTC (`Micros`). Stores, heaps and leases
compare plain integers, which sort, survive JSON and SQL exactly, and cost a tenth of a datetime on the hot path.
Schedules and people use aware datetimes; `to_datetime` and `to_micros` convert.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

Micros = int

SECOND: Micros = 1_000_000
MILLISECOND: Micros = 1_000

NEVER: Micros = 2**62
"""Later than every instant, and still an integer that SQL and arithmetic can carry."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MICROSECOND = timedelta(microseconds=1)

# Linux counts suspended time in CLOCK_BOOTTIME only; elsewhere the monotonic clock is the nearest thing.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """The source of time, passed as one object, so that tests and the simulator can set it."""

    def now(self) -> Micros:
        """Return the wall clock's time. It may step in either direction when somebody sets the clock."""
        ...

    def steady(self) -> Micros:
        """Return the time of a clock that only goes forward, and that counts time spent suspended. Its zero has no
        meaning.
        """
        ...


class SystemClock:
    """This machine's clocks."""

    def now(self) -> Micros:
        return time.time_ns() // 1_000

    def steady(self) -> Micros:
        return time.clock_gettime_ns(_STEADY) // 1_000


def to_micros(instant: datetime) -> Micros:
    """Return an aware datetime as microseconds since the epoch, exactly.

    >>> to_micros(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    if instant.tzinfo is None:
        raise ValueError(f"expected a datetime with a time zone, got {instant!r}; add tzinfo=…")
    return (instant - _EPOCH) // _ONE_MICROSECOND


def to_datetime(instant: Micros) -> datetime:
    """Return microseconds since the epoch as an aware datetime in UTC.

    >>> to_datetime(1_000_000).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    return _EPOCH + timedelta(microseconds=instant)
