"""A clock that only a test moves."""

from __future__ import annotations

from onthedot.clock import SECOND, Micros

START: Micros = 1_800_000_000 * SECOND


class ManualClock:
    def __init__(self, at: Micros = START) -> None:
        self.at = at

    def now(self) -> Micros:
        return self.at

    def steady(self) -> Micros:
        return self.at - START + 7 * SECOND

    def turn(self, seconds: float) -> None:
        self.at += round(seconds * SECOND)
