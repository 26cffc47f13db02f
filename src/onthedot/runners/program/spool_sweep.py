"""Sweep the spool: the workspaces of runs that did not succeed are kept for a while, and not for ever."""

from __future__ import annotations

import asyncio

from onthedot.clock import SECOND, Clock, Micros
from onthedot.loop import Service
from onthedot.runners.program.runner import ProgramRunner
from onthedot.runners.program.workspace import sweep
from onthedot.settings import Settings

_EVERY: Micros = 600 * SECOND


class Sweeping(Service):
    """Removes what nobody has used for `keep_workspaces`. Does nothing on a node that runs no programs."""

    name = "sweeping"

    def __init__(self, settings: Settings, clock: Clock) -> None:
        super().__init__()
        self._settings = settings
        self._clock = clock
        self._runner: ProgramRunner | None = None

    def open(self, runner: ProgramRunner) -> None:
        """From here on this node runs programs."""
        self._runner = runner

    async def tick(self, now: Micros) -> Micros | None:
        """One sweep."""
        del now  # files bear the time of this machine, not of the store
        if self._runner is None:
            return None
        await asyncio.to_thread(
            sweep,
            self._runner.spool,
            now=self._clock.now(),
            keep=self._settings.keep_workspaces,
            in_use=self._runner.places(),
        )
        return _EVERY
