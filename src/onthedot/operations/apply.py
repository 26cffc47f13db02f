"""Applies a set of jobs from a source, such as a file, or computes what that would change.

Each job that was applied has a mark, a document that names its source: so a source removes only its own jobs, and only
if the caller requests it. A pause made by hand stays, unless the source says `paused`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from onthedot.access.audit_recorder import Recorder
from onthedot.clock import Clock, Micros
from onthedot.define.check import check_job, missing_parents, parents_first
from onthedot.define.differences import Difference, compare
from onthedot.model.errors import DefinitionError, SourceConflict
from onthedot.model.job import Job, JobRecord, job_name
from onthedot.operations.put_job import put_job
from onthedot.rules.pauses import pause_after, pause_of
from onthedot.settings import Settings
from onthedot.stores.protocol import Store

KIND = "applied"
"""The kind of the marks: `applied/<namespace>/<name>`."""

_SOURCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}")
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What `apply` did, or would do. Jobs go by their names, `namespace/name` where that is not `default`."""

    source: str
    differences: tuple[Difference, ...]
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # earlier source of taken-over jobs
    paused: tuple[str, ...] = ()  # jobs that are paused, and stay paused
    warnings: Mapping[str, str] = field(default_factory=dict)  # by name: a parent is not stored
    refused: tuple[str, ...] = ()  # jobs of another source that are not taken over: nothing is written for them
    left: tuple[str, ...] = ()  # stored jobs that the source no longer has, and that the caller did not ask to remove
    dry_run: bool = False

    @property
    def changes(self) -> int:
        """The number of jobs that changed, or would change."""
        return sum(one.kind != "unchanged" for one in self.differences)


class Review:
    """Reviews each change of an apply. This class allows everything. A front door that knows its caller has
    a subclass.
    """

    def sees(self, record: JobRecord) -> bool:
        """Return whether the caller may see a job that this source no longer has."""
        del record
        return True

    def look(self, job: Job, before: JobRecord | None) -> Job:
        """Return the definition to store in place of `before`. Raise an error to refuse it."""
        del before
        return job

    def look_at_removal(self, record: JobRecord) -> None:
        """Raise an error to refuse the removal of a job."""

    async def compare(self, old: Mapping[str, Job], new: Mapping[str, Job], now: Micros) -> list[Difference]:
        """Return what differs. This takes a moment for each job."""
        return compare(old, new, now=now)

    async def done(self, before: JobRecord | None, after: JobRecord | None) -> None:
        """Called after each change is written, before the next one."""

    async def pause_changed(self, verb: str, job: Job) -> None:
        """Called for each pause that the source began (`jobs.pause`) or ended (`jobs.resume`)."""


class Recorded(Review):
    """Allows everything, and records it in the audit as an action of this process. Without a recorder it records
    nothing.
    """

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder

    async def done(self, before: JobRecord | None, after: JobRecord | None) -> None:
        if self._recorder is not None:
            was, is_ = (None if record is None else record.job for record in (before, after))
            await self._recorder.replaced(was, is_)

    async def pause_changed(self, verb: str, job: Job) -> None:
        if self._recorder is not None:
            await self._recorder.changed(verb, job)


class _Mark(NamedTuple):
    source: str
    version: int


class _Found(NamedTuple):
    """The stored versions of the applied jobs, and the other stored jobs of the same source."""

    records: dict[str, JobRecord]
    marks: dict[str, _Mark]
    gone: dict[str, JobRecord]


async def apply_jobs(
    store: Store,
    jobs: Iterable[Job],
    *,
    source: str,
    prune: bool,
    dry_run: bool,
    take_over: bool = False,
    clock: Clock,
    settings: Settings,
    review: Review | None = None,
) -> Applied:
    """See `Verbs.apply`. Everything is checked before anything is written; then each job is one write."""
    review = review or Review()
    ordered = checked(jobs, source)
    found = await _look(store, ordered, source, review)
    ordered = [review.look(job, found.records.get(job_name(job))) for job in ordered]
    for record in found.gone.values() if prune else ():
        review.look_at_removal(record)
    names = {job_name(job) for job in ordered}
    old = {key: record.job for key, record in found.records.items() if key in names}
    old |= {key: record.job for key, record in found.gone.items()} if prune else {}
    now = clock.now()
    pauses = {key: pause_of(_of(found, key)) for key in old}
    after = {job_name(job): pause_after(job.paused, pauses.get(job_name(job)), now) for job in ordered}
    old = {key: replace(job, paused=pauses[key]) for key, job in old.items()}
    new = {job_name(job): replace(job, paused=after[job_name(job)]) for job in ordered}
    differences = await review.compare(_shown(old), _shown(new), now)
    elsewhere = {
        shown(key): found.marks[key].source if key in found.marks else ""
        for key in names & found.records.keys()
        if key not in found.marks or found.marks[key].source != source
    }
    refused = () if take_over else tuple(sorted(name for name, other in elsewhere.items() if other))
    if refused and not dry_run:
        raise SourceConflict([_conflict(name, elsewhere[name]) for name in refused], subject=source)
    applied = Applied(
        source=source,
        differences=tuple(differences),
        elsewhere=elsewhere,
        refused=refused,
        warnings=await _warnings(store, ordered, found.gone if prune else {}),
        paused=tuple(sorted(shown(key) for key, pause in pauses.items() if pause and after.get(key, pause) == pause)),
        left=() if prune else tuple(sorted(map(shown, found.gone))),
        dry_run=dry_run,
    )
    if not dry_run:
        await _write(store, ordered, found, source, clock, settings, review)
        await _remove(store, found if prune else found._replace(gone={}), review)
    return applied


async def _warnings(store: Store, jobs: list[Job], removed: Mapping[str, JobRecord]) -> dict[str, str]:
    """Return warnings about jobs that run after a job which is neither applied nor stored, or which is removed now."""
    known = {job_name(job) for job in jobs}
    wanted = {(job.namespace, parent) for job in jobs if job.after for parent in job.after.parents}
    for namespace, parent in sorted(wanted):
        key = f"{namespace}/{parent}"
        if (
            key not in known
            and key not in removed
            and await store.queries.get_job(parent, namespace=namespace) is not None
        ):
            known.add(key)
    told = {shown(job_name(job)): missing_parents(job, known) for job in jobs}
    return {name: text for name, text in told.items() if text}


def _conflict(name: str, source: str) -> str:
    return (
        f"job {name!r} is stored from {source}; nothing was written; give one of the two another name, or take it over "
        "with take_over ('onthedot apply FILE --take-over')"
    )


def shown(key: str) -> str:
    """Return a job's name as people know it.

    >>> shown("default/report"), shown("night/report")
    ('report', 'night/report')
    """
    return key.removeprefix("default/")


def _shown(jobs: Mapping[str, Job]) -> dict[str, Job]:
    return {shown(key): job for key, job in jobs.items()}


def _of(found: _Found, key: str) -> JobRecord:
    return found.records[key] if key in found.records else found.gone[key]


def checked(jobs: Iterable[Job], source: str) -> list[Job]:
    """Return the jobs in the order in which they can be stored. Raise every problem of all jobs at once."""
    problems: list[str] = []
    if not _SOURCE.fullmatch(source):
        problems.append(f"source: expected letters, digits and any of _.:/-, at most 200 of them, got {source!r}")
    given = list(jobs)
    for job in given:
        try:
            check_job(job)
        except DefinitionError as error:
            problems += [f"job {job.name!r}: {problem}" for problem in error.problems]
    counted = Counter(map(job_name, given))
    problems += [f"job {shown(key)!r}: expected it once, got it {n} times" for key, n in counted.items() if n > 1]
    if problems:
        raise DefinitionError(problems)
    return parents_first(given)


async def _look(store: Store, jobs: list[Job], source: str, review: Review) -> _Found:
    marks = await _marks(store)
    records: dict[str, JobRecord] = {}
    for job in jobs:
        record = await store.queries.get_job(job.name, namespace=job.namespace)
        if record is not None:
            records[job_name(job)] = record
    names = {job_name(job) for job in jobs}
    gone: dict[str, JobRecord] = {}
    for key, mark in marks.items():
        if mark.source == source and key not in names:
            namespace, _, name = key.partition("/")
            record = await store.queries.get_job(name, namespace=namespace)
            if record is not None and review.sees(record):
                gone[key] = record
    return _Found(records, marks, gone)


async def _marks(store: Store) -> dict[str, _Mark]:
    marks: dict[str, _Mark] = {}
    after = ""
    while some := await store.documents.list_documents(KIND, after=after, limit=_PAGE):
        marks |= {one.id: _Mark(json.loads(one.body)["source"], one.version) for one in some}
        after = some[-1].id
    return marks


async def _write(
    store: Store, jobs: list[Job], found: _Found, source: str, clock: Clock, settings: Settings, review: Review
) -> None:
    for job in jobs:
        key = job_name(job)
        before = found.records.get(key)
        read = 0 if before is None else before.revision
        put = await put_job(store, job, clock=clock, settings=settings, revision=read)
        if put.change != "unchanged":
            await review.done(before, put.record)
        if put.pause:
            await review.pause_changed(f"jobs.{put.pause}", put.record.job)
        mark = found.marks.get(key)
        if mark is None or mark.source != source:
            body = json.dumps({"source": source})
            await store.documents.put_document(KIND, key, body, version=0 if mark is None else mark.version)


async def _remove(store: Store, found: _Found, review: Review) -> None:
    for key, record in found.gone.items():
        await store.delete_job(record.id, expected=record.revision)
        await review.done(record, None)
        await store.documents.delete_document(KIND, key, version=found.marks[key].version)
