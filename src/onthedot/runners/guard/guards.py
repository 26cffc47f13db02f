"""A worker's guards: one, and a second one when more programs want to start than one can start in time.

To start a program is to wait until it has become one, and on a busy machine a new session waits for its turn: several
milliseconds in which a guard can start no other. So what comes at once is shared by two. Each is the parent of its own
programs, and knows nothing of the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.model.task import Level
from onthedot.runners.guard.client import GuardClient
from onthedot.runners.guard.probing import probe
from onthedot.runners.program.protocol import Program, ProgramEnd, Said

MOST = 2
"""A guard takes some 16 MB, and no machine gains much by a third."""
AT_ONCE = 3
"""So many may wait to be started before another guard is asked."""


class Guards:
    """See `Guard`. A guard has a process from its first program on."""

    def __init__(self, *, cgroups: Sequence[str] = (), offers: frozenset[Level] | None = None) -> None:
        self.levels = probe() if offers is None else offers
        self._guards = [GuardClient(cgroups=cgroups, offers=self.levels) for _ in range(MOST)]

    @property
    def pids(self) -> list[int]:
        """The guards' processes that there are now."""
        return [guard.pid for guard in self._guards if guard.pid is not None]

    async def run(self, program: Program, said: Said | None = None) -> ProgramEnd:
        return await self._next().run(program, said)

    def _next(self) -> GuardClient:
        """The first one that is not held up; if all are, the one that is least."""
        free = (guard for guard in self._guards if guard.starting < AT_ONCE)
        return next(free, min(self._guards, key=lambda guard: guard.starting))

    def renew(self, until: Micros) -> None:
        for guard in self._guards:
            guard.renew(until)

    async def close(self) -> None:
        await asyncio.gather(*(guard.close() for guard in self._guards))
