"""What submits ask of the store, gathered over all requests: runs, each with its entry in the audit, in one write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onthedot.access.audit import Entry, noting, record_all
from onthedot.ids import RandomIds
from onthedot.model.errors import KeyConflict, OnTheDotError, RevisionConflict, UnknownJob
from onthedot.model.job import JobRecord
from onthedot.model.run import NewRun
from onthedot.operations.submit import insert_runs
from onthedot.server.together import Together
from onthedot.stores.protocol import Store

RUN = RandomIds().token()
"""Stands for the id of a run in what is said of it, until it has one. Nobody else knows it."""
MOST_KNOWN = 1000

Inserted = tuple[int, bool]
"""A run's id, and whether it was created now."""


class Wanted(NamedTuple):
    """A run that somebody asks for, and what is to be on record of that."""

    run: NewRun
    entry: Entry


class Gathered:
    """Of one application, on its store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], JobRecord] = {}
        self.runs: Together[Wanted, Inserted] = Together(self._insert)
        self.entries: Together[Entry, int] = Together(self._record)

    def known(self, name: str, namespace: str) -> JobRecord | None:
        """A job as it was when it was last read here. A run that is checked by it has to name its revision."""
        return self._known.get((namespace, name))

    async def read(self, name: str, namespace: str) -> JobRecord | None:
        """A job as it is now; from here on it is known."""
        record = await self._store.queries.get_job(name, namespace=namespace)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known.pop((namespace, name), None)
        if record is not None:
            self._known[namespace, name] = record
        return record

    async def _insert(self, some: Sequence[Wanted]) -> Sequence[Inserted | Exception]:
        """All in one write. If that is refused nothing of it is stored: one by one tells whose run it was."""
        try:
            return await self._write(some)
        except (KeyConflict, RevisionConflict, UnknownJob) as error:
            if len(some) == 1:
                return [error]
        return [await self._insert_one(one) for one in some]

    async def _insert_one(self, one: Wanted) -> Inserted | Exception:
        try:
            [inserted] = await self._write([one])
        except OnTheDotError as error:
            return error
        return inserted

    async def _write(self, some: Sequence[Wanted]) -> list[Inserted]:
        entries = noting([entry for _, entry in some], RUN)
        return await insert_runs(self._store, [run for run, _ in some], noting=entries)

    async def _record(self, entries: Sequence[Entry]) -> list[int]:
        return await record_all(self._store, entries)
