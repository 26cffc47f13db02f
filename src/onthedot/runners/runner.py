"""The base of all runners: their interface, the host that they serve, and how an attempt gets exactly one outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from onthedot.clock import Clock
from onthedot.model.verdict import Outcome
from onthedot.runners.attempt import Attempt
from onthedot.runners.registry import Registry
from onthedot.settings import Settings

T = TypeVar("T")

Report = Callable[[list[Attempt]], None]
"""Receives attempts after an event. Called on the engine's loop."""


def _ignore(attempts: list[Attempt]) -> None:
    del attempts


@dataclass(frozen=True, slots=True)
class Host:
    """The node that runners work for: its loop, settings and handlers, and its callbacks about attempts."""

    engine_loop: asyncio.AbstractEventLoop
    clock: Clock
    settings: Settings
    registry: Registry
    ended: Report  # each attempt once, with its outcome
    started: Report | None = None  # None: not reported
    stuck: Report = _ignore  # it has its outcome, but its function still runs and keeps the seat
    freed: Report = _ignore  # a stuck one's function has returned


class Runner(Protocol):
    """Executes attempts of one kind. `start` and `stop` are called on the engine's thread."""

    def start(self, attempts: list[Attempt]) -> None:
        """Start these attempts now, or as soon as seats are free. Each is reported exactly once as ended."""
        ...

    def stop(self, attempts: list[Attempt]) -> None:
        """End these attempts early with the outcome in `stop_as`, if they still run and can be ended."""
        ...

    def close(self) -> None:
        """Release threads and connections."""
        ...


class BaseRunner:
    """Base of all runners. Holds what they need from their host."""

    def __init__(self, host: Host) -> None:
        self._engine_loop = host.engine_loop
        self._clock = host.clock
        self._registry = host.registry
        self._seats = host.settings.seats
        self._result_bytes = host.settings.result_bytes
        self._tell_ended = host.ended
        self._tell_started = host.started
        self._tell_stuck = host.stuck
        self._tell_freed = host.freed

    def _tell(self, callback: Callable[[T], None], argument: T) -> None:
        """Call this on the engine's loop, from any thread. Does nothing once the loop is closed."""
        if not self._engine_loop.is_closed():
            self._engine_loop.call_soon_threadsafe(callback, argument)


class OffLoopRunner(BaseRunner):
    """Base of runners whose attempts run on other threads than the engine's.

    An attempt's function, its time-out and a stop may come at the same time. The first one decides the outcome.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._deciding = threading.Lock()

    def _decide(self, attempt: Attempt, outcome: Outcome) -> bool:
        """Give the attempt this outcome, unless it has one already. Returns whether this call decided it."""
        with self._deciding:
            if attempt.outcome is not None:
                return False
            attempt.outcome = outcome
            attempt.ended_at = self._clock.now()
        self._tell(self._tell_ended, [attempt])
        return True
