"""Where a worker's neighbours for programs come from: its guard, what fills in a task, and who keeps its output.

One place for each, so that a test can put something else there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from onthedot.clock import Micros
from onthedot.model.run import Lease
from onthedot.model.task import Json
from onthedot.output.output_store import Name
from onthedot.output.spool import Spool
from onthedot.runners.program.file_batcher import FileBatcher
from onthedot.runners.program.protocol import Guard
from onthedot.runners.task_filler import Fill, as_written
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class Keeper(Protocol):
    """Who keeps what attempts leave behind. Called in threads."""

    def log_of(self, lease: Lease) -> Path:
        """Where an attempt's programs are recorded while it runs; the folder is there."""
        ...

    def hand_in(self, lease: Lease, artifacts: Sequence[tuple[str, Path]] = ()) -> None:
        """An attempt has ended, and its outcome is not told yet: take its record, and copies of these files with what
        they are called."""
        ...


class ProgramServices:
    """What a runner of programs needs from elsewhere. The guard is there from its start on."""

    def __init__(
        self, guard: Guard, store: Store, spool: Path, fill: Fill = as_written, keeper: Keeper | None = None
    ) -> None:
        self.guard = guard
        self.spool = spool
        self.fill = fill
        self.keeper = keeper
        self.files = FileBatcher()
        self._store = store

    async def earlier_run(self, run_id: int, job_id: int) -> tuple[Json, Micros] | None:
        """How far an earlier run of the same job has come, and when it was created; None: there is no such run. What a
        run of another job has left belongs to somebody else."""
        run, saved = await self._store.queries.get_run(run_id), await self._store.queries.get_checkpoint(run_id)
        if run is None or run.job_id != job_id:
            return None
        return None if saved is None else json.loads(saved.value), run.created_at


class SpoolKeeper:
    """The node's spool, as runners see it."""

    def __init__(self, spool: Spool, handed_in: Callable[[], None]) -> None:
        self._spool = spool
        self._handed_in = handed_in

    def log_of(self, lease: Lease) -> Path:
        """See `Keeper`."""
        return self._spool.log_of(_name(lease))

    def hand_in(self, lease: Lease, artifacts: Sequence[tuple[str, Path]] = ()) -> None:
        """See `Keeper`."""
        if self._spool.hand_in(_name(lease), artifacts):
            self._handed_in()

    path = log_of

    async def keep(self, lease: Lease) -> None:
        """It is complete, and has no artifacts."""
        await asyncio.to_thread(self.hand_in, lease)


def _name(lease: Lease) -> Name:
    return Name(lease.run_id, lease.attempt, lease.lease_id)


async def guard_of(settings: Settings) -> Guard | None:
    """The guards of this worker; None where programs cannot be guarded, and so are not run. In a thread: what the
    machine offers is tried out."""
    from onthedot.runners.guard.client import Guards  # not where no programs are run

    guards = await asyncio.to_thread(lambda: Guards(cgroups=settings.cgroups))
    return guards if guards.levels else None
