"""Hints: what a store tells whoever sleeps. Losing or doubling every one of them costs latency only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from onthedot.clock import Micros

HintKind = Literal["runs", "schedules", "beats", "terms", "ends"]
"""What there may be to do: runs to take, schedules to plan, a reason to beat now (cancels and drains come back with the
beat, and the leader hears who lives), terms to win, runs that have ended."""


class Hint(NamedTuple):
    """Something changed that a sleeping service may want to know. Losing every hint costs latency only."""

    kind: HintKind
    ready_at: Micros


class Loss(NamedTuple):
    """A store has come back without writes that it had acknowledged: `kept` of `acknowledged` are there. No hint, but
    told in the same way. `epoch` counts how often its server was started again, or was another one."""

    kept: int
    acknowledged: int
    epoch: int


class Hints:
    """Who wants to be told. Called on the loop that made the change, after its commit."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Hint], None]] = []
        self._mourners: list[Callable[[Loss], None]] = []

    def listen(self, listener: Callable[[Hint], None]) -> None:
        self._listeners.append(listener)

    def clear(self) -> None:
        """Tell nobody any more."""
        self._listeners.clear()
        self._mourners.clear()

    def listen_for_loss(self, listener: Callable[[Loss], None]) -> None:
        """Be told of what the store has lost, on whatever thread that is noticed."""
        self._mourners.append(listener)

    def tell_loss(self, loss: Loss) -> None:
        for mourner in self._mourners:
            mourner(loss)

    def send(self, hint: Hint) -> None:
        for listener in self._listeners:
            listener(hint)
