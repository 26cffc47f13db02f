"""Giving way: a busy application loop must not starve the engine's thread.

A thread of its own does not protect the engine by itself. A loop that is always busy with turns of about a
millisecond drops the interpreter's lock for moments too short for another thread to take it: the engine was
measured to wait for seconds. So the engine pulses, and a small callback on the application's loop looks: when the
pulse is overdue, it lets go of the interpreter until the engine has had its turn, 5 ms at most.
"""

from __future__ import annotations

import asyncio
import threading

from onthedot.clock import MILLISECOND, SECOND, Clock, Micros

_CALM: Micros = 50 * MILLISECOND  # between two looks while nobody is late: some 0.1 % of a core
_BUSY: Micros = 5 * MILLISECOND
_LATE: Micros = 1 * MILLISECOND
_LONGEST_TURN = 5 * MILLISECOND / SECOND


class GiveWay:
    """The engine's pulse, and the application loop's courtesy."""

    def __init__(self, application_loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._application_loop = application_loop
        self._clock = clock
        self._turn = threading.Event()
        self._pulse_due: Micros = 0
        self._look_due: Micros = 0
        self._period = _CALM
        self._pulse_timer: asyncio.TimerHandle | None = None
        self._stopped = False

    # ── on the engine's loop ─────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Begin to pulse, and to be looked after."""
        self.pulse()
        self._application_loop.call_soon_threadsafe(self._look_later)

    def stop(self) -> None:
        """Pulse no more; the next look is the last."""
        self._stopped = True
        if self._pulse_timer is not None:
            self._pulse_timer.cancel()

    def pulse(self) -> None:
        """The engine is awake."""
        self._turn.set()
        self._pulse_due = self._clock.steady() + self._period
        self._pulse_timer = asyncio.get_running_loop().call_later(self._period / SECOND, self.pulse)

    # ── on the application's loop ────────────────────────────────────────────────────────────────────────────

    def _look_later(self) -> None:
        self._look_due = self._clock.steady() + self._period
        self._application_loop.call_later(self._period / SECOND, self.look)

    def look(self) -> bool:
        """Let the engine go first if it is late; whether it was."""
        if self._stopped:
            return False
        now = self._clock.steady()
        overdue = now > self._pulse_due + _LATE
        if overdue:
            self._turn.clear()
            self._turn.wait(_LONGEST_TURN)  # what lets go of the interpreter's lock
        crowded = overdue or now > self._look_due + _LATE
        self._period = _BUSY if crowded else _CALM
        self._look_later()
        return overdue
