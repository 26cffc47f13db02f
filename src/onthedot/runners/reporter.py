"""The reporter: writes the checkpoints, progress and logs of running attempts to the store.

A checkpoint is written at once, and the handler waits for it. Progress and log lines are collected in the attempt
(`runners/notes.py`) and written about every second, and before the attempt's verdict, because that ends its lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

from onthedot.clock import SECOND, Clock, Micros
from onthedot.loop import Service
from onthedot.model.errors import LeaseLost, StoreUnavailable
from onthedot.model.events import Events, RunProgressed
from onthedot.model.run import Checkpoint, Lease
from onthedot.runners.notes import Notes
from onthedot.runners.transactions import Completion, TransactionBlock, Transactor
from onthedot.settings import Settings
from onthedot.stores.protocol import Store
from onthedot.stores.values import Note

WRITE_EVERY: Micros = 1 * SECOND
"""Least time between two writes of progress and logs."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between two tries to reach the store


class StoreReporter(Service):
    """Receives notes on any thread, and writes them on the engine's thread."""

    name = "reporter"

    def __init__(self, store: Store, settings: Settings, clock: Clock, events: Events | None = None) -> None:
        super().__init__()
        self._store = store
        self._transactor = Transactor(store, clock, lambda lease_id: self.write([lease_id]))
        self._settings = settings
        self._clock = clock
        self._events = events or Events()
        self._noted: dict[str, Notes] = {}  # unwritten notes, by lease id
        self._writing = asyncio.Lock()
        self._written_at: Micros = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """Write notes on the running loop from now on."""
        self._loop = self._transactor.loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Write nothing more, because the node has stopped."""
        self._loop = self._transactor.loop = None

    # ── on any thread ────────────────────────────────────────────────────────────────────────────────────────

    def checkpoint(self, lease: Lease, checkpoint: Checkpoint) -> Future[None]:
        """See `context.Reporter`."""
        loop = self._loop
        if loop is None or loop.is_closed():
            raise LeaseLost(
                f"run {lease.run_id}: its node has stopped; another attempt continues from its last checkpoint"
            )
        return asyncio.run_coroutine_threadsafe(self._save(lease, checkpoint), loop)

    def noted(self, notes: Notes) -> None:
        """See `context.Reporter`."""
        loop = self._loop
        if loop is not None and not loop.is_closed():  # else the node has stopped
            loop.call_soon_threadsafe(self._note, notes)

    def now(self) -> Micros:
        """See `context.Reporter`."""
        return self._clock.now()

    @property
    def result_bytes(self) -> int:
        """See `context.Reporter`."""
        return self._settings.result_bytes

    def transaction(self, completion: Completion) -> TransactionBlock:
        """See `context.Reporter`."""
        return TransactionBlock(self._transactor, completion)

    def transaction_blocking(self, completion: Completion) -> AbstractContextManager[Any]:
        """See `context.Reporter`."""
        return self._transactor.blocking(completion)

    # ── on the engine's thread ───────────────────────────────────────────────────────────────────────────────

    async def _save(self, lease: Lease, checkpoint: Checkpoint) -> None:
        """Save a checkpoint. Retry until the store answers. A repeat changes nothing, because the same revision is the
        same checkpoint."""
        pause = _FIRST_PAUSE
        while True:
            try:
                [accepted] = await self._store.checkpoint([(lease, checkpoint)])
            except StoreUnavailable:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            if accepted:
                return
            raise LeaseLost(
                f"run {lease.run_id}: attempt {lease.attempt} has lost its lease, and nothing was written; end it, "
                "somebody else goes on"
            )

    def _note(self, notes: Notes) -> None:
        self._noted[notes.lease.lease_id] = notes
        self.wake()

    async def tick(self, now: Micros) -> Micros | None:
        """Write new notes, at most once a second."""
        if not self._noted:
            return None
        since = now - self._written_at
        if 0 <= since < WRITE_EVERY:
            return WRITE_EVERY - since
        self._written_at = now
        await self.write(list(self._noted)[: self._settings.batch])
        return WRITE_EVERY if self._noted else None

    async def write(self, lease_ids: Sequence[str]) -> None:
        """Write the new notes of these attempts. The store refuses notes of attempts that have lost their lease."""
        if not self._noted and not self._writing.locked():
            return
        async with self._writing:  # if a running write fails, the next one writes its notes
            taken = [self._noted.pop(lease_id) for lease_id in lease_ids if lease_id in self._noted]
            try:
                if taken:
                    notes = [noted.take() for noted in taken]
                    accepted = await self._store.note(notes)
                    self._tell([note for note, kept in zip(notes, accepted, strict=True) if kept])
            except StoreUnavailable:
                self._noted.update((noted.lease.lease_id, noted) for noted in taken)
                raise

    def _tell(self, notes: Sequence[Note]) -> None:
        """Emit an event for each note with progress."""
        for note in notes if self._events.wanted else ():
            if note.progress is not None:
                self._events.emit(RunProgressed(note.lease, note.progress))
