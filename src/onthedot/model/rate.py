"""Computes the earliest start of a run under a rate limit. Integers only, and the same in every store.

`most` starts in `per` microseconds lie T = per/most apart, and up to `burst` of them may come at once. For each key one
value is kept, its **tat** (theoretical arrival time): when the next start would come if all were evenly spaced. A start
at t may lie (burst − 1) × T before it at the most, and moves it to max(t, tat) + T. This is the generic cell rate
algorithm. It gives the promise: **in any w microseconds fewer than w/T + burst starts**, in whichever order they were
asked for, because n starts move the tat by n × T, and none comes more than (burst − 1) × T before it.

A start is the later of the instant at which the attempt is armed and of its due instant: armed ahead, it starts when it
is due. Instants of arming may lie closer together.

T need not be whole. A tat keeps its fraction, so nothing is lost over time, and an instant that is handed out is
rounded up: seen in whole microseconds the promise holds exactly.
"""

from __future__ import annotations

from typing import NamedTuple

from onthedot.clock import SECOND, Micros, to_datetime

LAST: Micros = 253_000_000_000 * SECOND
"""The last instant that a rate gives out, in the year 9987. A run that would have to start later never starts, and can
still be shown."""


class RateGate(NamedTuple):
    """A rate that a run must pass to start. `key` lets `most` runs start in `per`, and up to `burst` at once."""

    key: str
    most: int
    per: Micros
    burst: int = 1


class Tat(NamedTuple):
    """The time of the next start if all starts were evenly spaced: `whole` + `part`/`parts` microseconds."""

    whole: Micros
    part: int = 0
    parts: int = 1


def next_start(
    gate: RateGate, tat: Tat | None, *, start: Micros, granted_at: Micros | None = None
) -> tuple[Micros, Tat | None]:
    """Return the first instant from `start` on at which a run may start, and the new tat (None: unchanged).

    A run that was `granted` an instant has been counted already, and starts at that instant, or later within `grace`.
    After that, its grant is void and it must ask again. So many late runs do not start at once.
    """
    if granted_at is not None and start <= granted_at + grace(gate):
        return max(start, granted_at), None
    ahead = 0 if tat is None else max(0, _ahead(tat, start, gate.most))
    wait = max(0, ahead - (gate.burst - 1) * gate.per)
    whole, part = divmod(ahead + gate.per, gate.most)
    return min(start + _round_up(wait, gate.most), LAST), Tat(min(start + whole, LAST), part, gate.most)


def grace(gate: RateGate) -> Micros:
    """Return how long after its instant a granted run may still start: T, and at least a second.

    >>> grace(RateGate("r", 10, per=60 * SECOND))
    6000000
    """
    return max(SECOND, _round_up(gate.per, gate.most))


def wait_reason(gate: RateGate, until: Micros) -> str:
    """Return text that explains why a run waits that was granted an instant.

    >>> wait_reason(RateGate("rate:name:mail:", 1, SECOND), 0)
    'waits at rate:name:mail:, starts at 1970-01-01T00:00:00+00:00'
    """
    return f"waits at {gate.key}, starts at {to_datetime(until).isoformat()}"


def _ahead(tat: Tat, start: Micros, most: int) -> int:
    """Return how far the tat is after `start`, in 1/most µs. Then T is `per`. A tat of another rate is rounded up."""
    return (tat.whole - start) * most + _round_up(tat.part * most, tat.parts)


def _round_up(number: int, parts: int) -> int:
    return -(-number // parts)
