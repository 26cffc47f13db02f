"""Where a worker's neighbours for programs come from: its guard, what fills in a task, and who keeps its output.

One place for each, so that a test can put something else there.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

from onthedot.clock import Micros
from onthedot.run import Lease
from onthedot.settings import Settings
from onthedot.stores.base import Store
from onthedot.task import Command, Json, Steps
from onthedot.work.programs import Guard

Filled = tuple[Command | Steps, tuple[str, ...]]
"""A task with nothing left to be filled in, and the secret values that are in it."""


class Keeper(Protocol):
    """Who keeps what attempts leave behind. Called in threads."""

    def log_of(self, lease: Lease) -> Path:
        """Where an attempt's programs are recorded while it runs; the folder is there."""
        ...

    def hand_in(self, lease: Lease, artifacts: Sequence[tuple[str, Path]] = ()) -> None:
        """An attempt has ended, and its outcome is not told yet: take its record, and copies of these files with what
        they are called."""
        ...


class Neighbours:
    """What a runner of programs needs from elsewhere. The guard is there from its start on."""

    def __init__(self, guard: Guard, store: Store) -> None:
        self.guard = guard
        self.keeper: Keeper | None = None
        self.fill: Callable[[Lease], Awaitable[Filled]] = as_written
        self._store = store

    async def checkpoint_of(self, run_id: int) -> tuple[Json, Micros]:
        """How far an earlier run has come, and when it was created (0: it is forgotten)."""
        run, saved = await self._store.get_run(run_id), await self._store.get_checkpoint(run_id)
        return None if saved is None else json.loads(saved.value), 0 if run is None else run.created_at


async def as_written(lease: Lease) -> Filled:
    """The task as its definition has it."""
    task = lease.record.job.task
    if not isinstance(task, Command | Steps):
        raise AssertionError(f"a task for another runner: {task!r}")
    return task, ()


async def guard_of(settings: Settings) -> Guard | None:
    """A guard for this worker; None where programs cannot be guarded, and so are not run."""
    del settings
    return None


async def neighbours_of(store: Store, settings: Settings) -> Neighbours | None:
    """All of them, as these settings want them; None: this machine runs no programs."""
    guard = await guard_of(settings)
    return None if guard is None else Neighbours(guard, store)
