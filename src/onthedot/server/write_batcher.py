"""Batches the writes of all requests: runs, each with its entry in the audit, and entries alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastapi import Request

from onthedot.access.audit import Entry, noting, record_all
from onthedot.batcher import Batcher
from onthedot.ids import RandomIds
from onthedot.model.errors import KeyConflict, OnTheDotError, RevisionConflict, UnknownJob
from onthedot.model.run import NewRun
from onthedot.operations.submit import insert_runs
from onthedot.stores.protocol import Store

RUN = RandomIds().token()
"""Stands in an audit entry for the id of a run that has none yet. No caller can know it."""

Inserted = tuple[int, bool]
"""A run's id, and whether it was created now."""


class AuditedRun(NamedTuple):
    """A run to store, and its entry in the audit."""

    run: NewRun
    entry: Entry


class WriteBatcher:
    """The batched writes of one application."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.runs: Batcher[AuditedRun, Inserted] = Batcher(self._insert)
        self.entries: Batcher[Entry, int] = Batcher(self._record)

    async def _insert(self, runs: Sequence[AuditedRun]) -> Sequence[Inserted | Exception]:
        """Store all in one write. If the store refuses it, nothing is stored: then store them one by one."""
        try:
            return await self._write(runs)
        except (KeyConflict, RevisionConflict, UnknownJob) as error:
            if len(runs) == 1:
                return [error]
        return [await self._insert_one(one) for one in runs]

    async def _insert_one(self, one: AuditedRun) -> Inserted | Exception:
        try:
            [inserted] = await self._write([one])
        except OnTheDotError as error:
            return error
        return inserted

    async def _write(self, runs: Sequence[AuditedRun]) -> list[Inserted]:
        entries = noting([entry for _, entry in runs], RUN)
        return await insert_runs(self._store, [run for run, _ in runs], noting=entries)

    async def _record(self, entries: Sequence[Entry]) -> list[int]:
        return await record_all(self._store, entries)


def writes_of(request: Request) -> WriteBatcher:
    """The batched writes of the application that got this request."""
    writes: WriteBatcher = request.app.state.writes
    return writes
