"""Caches job definitions: each revision is parsed once and shared by every lease."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.errors import StoreUnusable
from onthedot.model.job import JobRecord, JobState
from onthedot.model.job_json import Unreadable, decode
from onthedot.stores.sql.port import Tx, sql, wanted_pairs

KEPT_RECORDS = 10_000


class Revision(NamedTuple):
    """A stored definition."""

    job_id: int
    revision: int
    job_created_at: Micros
    created_at: Micros
    definition: str


FIND_REVISIONS = sql(
    f"""
    SELECT v.job_id, v.revision, j.created_at, v.created_at, v.definition
    FROM {wanted_pairs("job_id bigint", "revision integer")}
    <<CROSS>> JOIN job_revisions v ON v.job_id = wanted.job_id AND v.revision = wanted.revision
    <<CROSS>> JOIN jobs j ON j.id = v.job_id
    """,  # noqa: S608 - constants
    Revision,
)


Key = tuple[int, int]
"""A job and a revision of it."""


class Records:
    """Definitions by job and revision. The number is bounded: the oldest is dropped first."""

    def __init__(self) -> None:
        self._kept: dict[Key, JobRecord] = {}
        self._lock = threading.Lock()  # SQLite's two threads share them

    async def load(self, tx: Tx, wanted: Iterable[tuple[int, int, str]]) -> dict[Key, JobRecord]:
        """Return the readable ones of these revisions (job, revision, the job's state)."""
        found = await self._load(tx, wanted)
        return {key: record for key, record in found.items() if isinstance(record, JobRecord)}

    async def get(self, tx: Tx, job_id: int, revision: int, state: str) -> JobRecord:
        """Return one revision. Raise `StoreUnusable` if its definition cannot be read."""
        [record] = (await self._load(tx, [(job_id, revision, state)])).values()
        if isinstance(record, StoreUnusable):
            raise record
        return record

    async def _load(self, tx: Tx, wanted: Iterable[tuple[int, int, str]]) -> dict[Key, JobRecord | StoreUnusable]:
        """Return these revisions, or their errors. One statement reads all that are not cached."""
        found: dict[Key, JobRecord | StoreUnusable] = {}
        missing: dict[Key, str] = {}
        for job_id, revision, state in wanted:
            record = self._kept.get((job_id, revision))
            if record is not None and record.state == state:
                found[job_id, revision] = record
            else:
                missing[job_id, revision] = state
        if missing:
            rows = await tx.rows(FIND_REVISIONS, [job_id for job_id, _ in missing], [number for _, number in missing])
            stored = {(row.job_id, row.revision): row for row in rows}
            parsed = {key: _parsed(key, state, stored.get(key)) for key, state in missing.items()}
            self._keep({key: record for key, record in parsed.items() if isinstance(record, JobRecord)})
            found |= parsed
        return found

    def _keep(self, records: dict[Key, JobRecord]) -> None:
        with self._lock:
            self._kept |= records
            while len(self._kept) > KEPT_RECORDS:
                del self._kept[next(iter(self._kept))]

    def forget(self) -> None:
        """Drop all records: a revision that was read but not committed may return with another definition."""
        with self._lock:
            self._kept.clear()


def _parsed(key: Key, state: str, row: Revision | None) -> JobRecord | StoreUnusable:
    job_id, revision = key
    if row is None:
        return StoreUnusable(f"job {job_id}: expected its revision {revision}, which is missing; put the job again")
    try:
        job = decode(row.definition)
        return JobRecord(job_id, revision, job, JobState(state), row.job_created_at, row.created_at)
    except (Unreadable, ValueError) as error:
        return StoreUnusable(f"job {job_id}, revision {revision}: {error}; put the job again")
