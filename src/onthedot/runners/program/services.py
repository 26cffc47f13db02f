"""Provides the services that programs need: guard, filled tasks, file operations, spool, earlier runs.

A test can replace each of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from onthedot.batcher import Batcher
from onthedot.clock import Micros
from onthedot.model.run import Lease
from onthedot.model.task import Json, Level
from onthedot.output.output_store import Name
from onthedot.output.spool import Spool
from onthedot.runners.guard.protocol import Guard
from onthedot.runners.task_filler import Fill, as_written
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class Keeper(Protocol):
    """Keeps the output of attempts. Called in threads."""

    def log_of(self, lease: Lease) -> Path:
        """Return the file that records the output of an attempt while it runs. Its folder exists."""
        ...

    def hand_in(self, lease: Lease, artifacts: Sequence[tuple[str, Path]] = ()) -> None:
        """Take the record of an ended attempt, and copies of these files by name. Called before the outcome is
        reported."""
        ...


class ProgramServices:
    """What a `ProgramRunner` needs from elsewhere."""

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
        """Return the progress of an earlier run of the same job, and the time of its creation. None if there is no such
        run, or if it belongs to another job."""
        run, saved = await self._store.queries.get_run(run_id), await self._store.queries.get_checkpoint(run_id)
        if run is None or run.job_id != job_id:
            return None
        return None if saved is None else json.loads(saved.value), run.created_at


class SpoolKeeper:
    """Hands output to the node's spool, and tells the node."""

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
        """Hand in a record without artifacts."""
        await asyncio.to_thread(self.hand_in, lease)


def _name(lease: Lease) -> Name:
    return Name(lease.run_id, lease.attempt, lease.lease_id)


_OFFERED: tuple[Level, ...] = ("none", "user", "sandbox")  # from the weakest to the strongest


async def guard_of(settings: Settings) -> Guard | None:
    """Return the guards of this worker. None if this machine cannot guard programs: then the worker runs none. A thread
    probes which levels the machine offers."""
    from onthedot.runners.guard.client import Guards  # only where programs are run

    guards = await asyncio.to_thread(lambda: Guards(cgroups=settings.cgroups))
    return guards if guards.levels else None


def abilities(levels: frozenset[Level], least: Level) -> frozenset[str]:
    """Return the abilities of a worker, as `job.ability_of` names them. `levels`: the levels that its guard offers.
    `least`: the lowest level that its operator allows.

    >>> sorted(abilities(frozenset({"none", "user"}), "user"))
    ['command@user', 'steps@user']
    """
    enough = [level for level in _OFFERED[_OFFERED.index(least) :] if level in levels]
    return frozenset(
        kind if level == "none" else f"{kind}@{level}" for kind in ("command", "steps") for level in enough
    )


# ── file operations ─────────────────────────────────────────────────────────────────────────────────────────────────


T = TypeVar("T")

_Done = tuple[Any, Exception | None]
"""The result of an operation, or its error."""


class FileBatcher:
    """Batches short file operations onto a thread. Used on one event loop."""

    def __init__(self) -> None:
        self._batcher: Batcher[Callable[[], Any], _Done] = Batcher(_in_thread)

    async def do(self, work: Callable[[], T]) -> T:
        """Do one operation, and return its result or raise its error. If the caller is cancelled, the operation is
        still done in order, and its result is lost.

        >>> await FileBatcher().do(lambda: 6 * 7)
        42
        """
        value, error = await asyncio.shield(self._batcher.submit(work))
        if error is not None:
            raise error
        done: T = value
        return done


def _in_thread(works: Sequence[Callable[[], Any]]) -> Awaitable[Sequence[_Done]]:
    return asyncio.get_running_loop().run_in_executor(None, _do_all, works)


def _do_all(works: Sequence[Callable[[], Any]]) -> list[_Done]:
    return [_do(work) for work in works]


def _do(work: Callable[[], Any]) -> _Done:
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - raised for its caller
        return None, error
