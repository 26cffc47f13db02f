"""What submits ask of the store, gathered over all requests: which job is meant, a run of it, an entry in the audit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from onthedot.access.audit import Entry, record_all
from onthedot.errors import KeyConflict, OnTheDotError, UnknownJob
from onthedot.job import JobRecord
from onthedot.plan.asking import insert_runs
from onthedot.run import NewRun
from onthedot.server.together import Together
from onthedot.stores.base import Store

Named = tuple[str, str]
"""A job's namespace and its name."""
Inserted = tuple[int, bool]
"""A run's id, and whether it was created now."""


class Gathered:
    """Of one application, on its store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.jobs: Together[Named, JobRecord | None] = Together(self._find)
        self.runs: Together[NewRun, Inserted] = Together(self._insert)
        self.entries: Together[Entry, int] = Together(self._record)

    async def _find(self, names: Sequence[Named]) -> list[JobRecord | Exception | None]:
        """Each job is read once, however many ask for it."""
        different = list(dict.fromkeys(names))
        found = await asyncio.gather(*map(self._find_one, different))
        known = dict(zip(different, found, strict=True))
        return [known[name] for name in names]

    async def _find_one(self, named: Named) -> JobRecord | Exception | None:
        namespace, name = named
        try:
            return await self._store.get_job(name, namespace=namespace)
        except OnTheDotError as error:
            return error

    async def _insert(self, runs: Sequence[NewRun]) -> Sequence[Inserted | Exception]:
        """All in one write. If that is refused nothing of it is stored: one by one tells whose run it was."""
        try:
            return await insert_runs(self._store, runs)
        except (KeyConflict, UnknownJob) as error:
            if len(runs) == 1:
                return [error]
        return [await self._insert_one(run) for run in runs]

    async def _insert_one(self, run: NewRun) -> Inserted | Exception:
        try:
            [inserted] = await insert_runs(self._store, [run])
        except OnTheDotError as error:
            return error
        return inserted

    async def _record(self, entries: Sequence[Entry]) -> list[int]:
        return await record_all(self._store, entries)
