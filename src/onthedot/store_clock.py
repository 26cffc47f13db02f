"""Computes the store's time on this node.

A store on this machine has this machine's clock. One elsewhere has its own, and stamps every answer; a node can be
wrong by half a round trip at most. From the answer on it counts with its steady clock, so that a wall clock which is
minutes off, or is set while we run, changes nothing.

    sent ────── half ────── store_now ────── half ────── received        error = half, and it grows as clocks drift
"""

from __future__ import annotations

from typing import NamedTuple

from onthedot.clock import MILLISECOND, SECOND, Clock, Micros
from onthedot.stores.protocol import Store

DRIFT = 500
"""Parts per million by which two clocks may drift apart: the rate at which a clock is slewed during a correction."""
TELL_BEYOND: Micros = 500 * MILLISECOND
"""If a node's own clock is further off than this, the node reports it: logs of several machines do not fit together."""
UNSURE_BEYOND: Micros = 5 * SECOND
"""A node with a larger uncertainty about the store's clock must not plan."""


class _Sample(NamedTuple):
    """At our steady instant `at`, the store's clock said `store`, `error` more or less."""

    at: Micros
    store: Micros
    error: Micros


class StoreClock:
    """The store's clock. `now` is the latest instant that it has certainly reached. So a wait by it never ends early,
    and late by at most the uncertainty. Before the first answer it is this machine's clock."""

    def __init__(self, own: Clock) -> None:
        self._own = own
        self._best: _Sample | None = None

    def note(self, sent: Micros, store_now: Micros) -> None:
        """Use the store's time in the answer to a call that was sent at this (steady) instant.

        The sample with the smallest error wins; the error of an old sample grows. A sample that contradicts the current
        one wins at once, because somebody has set the store's clock.
        """
        received = self._own.steady()
        fresh = _Sample((sent + received) // 2, store_now, (received - sent + 1) // 2)
        best = self._best
        if best is None or fresh.error <= _error(best, received) or _contradict(best, fresh):
            self._best = fresh

    def now(self) -> Micros:
        best = self._best
        if best is None:
            return self._own.now()
        steady = self._own.steady()
        return best.store + steady - best.at - _error(best, steady)

    def steady(self) -> Micros:
        return self._own.steady()

    @property
    def uncertainty(self) -> Micros:
        """How far `now` may be behind the store's clock, half of it in the mean."""
        return 2 * _error(self._best, self._own.steady()) if self._best else 0

    @property
    def offset(self) -> Micros:
        """How far this machine's own clock is ahead of the store's."""
        best = self._best
        return self._own.now() - (best.store + self._own.steady() - best.at) if best else 0


async def clock_of(store: Store, own: Clock) -> Clock:
    """The store's clock, for a caller that is no node: this machine's if it is the same, or one that asks the store."""
    if store.clock is not None:
        return store.clock
    clock, sent = StoreClock(own), own.steady()
    clock.note(sent, await store.tell_time())
    return clock


def _error(sample: _Sample, steady: Micros) -> Micros:
    return sample.error + abs(steady - sample.at) * DRIFT // 1_000_000


def _contradict(old: _Sample, new: _Sample) -> bool:
    return abs(old.store + new.at - old.at - new.store) > _error(old, new.at) + new.error
