"""`NodeClock`: a node's own clock, which can be set wrong or run too fast."""

from __future__ import annotations

from onthedot.clock import Clock, Micros


class NodeClock:
    """The store's clock as a node sees it: `skew` µs off. Its steady clock runs `drift` parts per million too fast."""

    def __init__(self, true: Clock) -> None:
        self._true = true
        self._since = true.steady()
        self._gained_before: Micros = 0
        self._drift = 0.0
        self.skew: Micros = 0

    def drift(self, ppm: float) -> None:
        """Run this much too fast from now on."""
        self._gained_before = self._gained()
        self._since = self._true.steady()
        self._drift = ppm / 1_000_000

    def _gained(self) -> Micros:
        return self._gained_before + round((self._true.steady() - self._since) * self._drift)

    def now(self) -> Micros:
        return self._true.now() + self.skew

    def steady(self) -> Micros:
        return self._true.steady() + self._gained()
