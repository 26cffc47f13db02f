"""One outcome for one attempt, whoever comes first: its function, its time-out, or somebody who stops it.

For runners whose attempts run on other threads than the engine's.
"""

from __future__ import annotations

import asyncio
import threading

from onthedot.clock import Clock
from onthedot.model.verdict import Outcome
from onthedot.runners.attempt import Attempt, Ended


class Deciding:
    """What such a runner decides with, and whom it tells."""

    _deciding: threading.Lock
    _clock: Clock
    _engine_loop: asyncio.AbstractEventLoop
    _tell_ended: Ended

    def _decide(self, attempt: Attempt, outcome: Outcome) -> bool:
        """Give the attempt its outcome, unless it has one already."""
        with self._deciding:
            if attempt.outcome is not None:
                return False
            attempt.outcome = outcome
            attempt.ended_at = self._clock.now()
        self._tell(self._tell_ended, [attempt])
        return True

    def _tell(self, callback: object, *arguments: object) -> None:
        if not self._engine_loop.is_closed():
            self._engine_loop.call_soon_threadsafe(callback, *arguments)  # type: ignore[arg-type]
