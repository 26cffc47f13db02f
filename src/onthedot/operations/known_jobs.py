"""Remembers the jobs that this process has submitted runs of, so that most submits read nothing.

A run that was checked against a remembered job names the job's id and revision. The write compares both: it raises
`RevisionConflict` for an edited job and `UnknownJob` for a deleted one, even if another job has the name now. Then the
caller reads the job again. A pause needs no check here, because the write itself sees it.
"""

from __future__ import annotations

from onthedot.model.job import JobRecord
from onthedot.stores.protocol import Store

MOST_KNOWN = 1000


class KnownJobs:
    """The jobs of one open store, by namespace and name, as they were last read for a submit."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: dict[tuple[str, str], JobRecord] = {}

    def get(self, name: str, namespace: str) -> JobRecord | None:
        """Return a job as it was last read here. A run that is checked against it must name its revision."""
        return self._known.get((namespace, name))

    async def read(self, name: str, namespace: str) -> JobRecord | None:
        """Read a job from the store, and keep it for `get`."""
        record = await self.store.queries.get_job(name, namespace=namespace)
        self.keep(name, namespace, record)
        return record

    def keep(self, name: str, namespace: str, record: JobRecord | None) -> None:
        """Keep a job that was just read from the store; None: there is no such job."""
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known.pop((namespace, name), None)
        if record is not None:
            self._known[namespace, name] = record
