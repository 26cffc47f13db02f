"""Defines `store.queries`, the reads for people and services. Nothing here writes.

Lists that can be long have filters and pages. A page has the items that were found, and the place where the next page
begins (None: there is no next page). **A short or empty page may have a next one**, because no call reads more than
about `SCANNED` rows. So a caller reads until there is no next page.

**What the pages show**: every job, finished run and attempt that exists all the time, exactly once. A live run may
appear twice if it ends. If its due instant moves (a retry, a rate, an edit), it may appear twice or not at all. The
same holds for items that are added meanwhile.

Namespaces and owners also keep permissions: the query compares them exactly, and an empty tuple of namespaces finds
nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, get_type_hints

from onthedot.clock import Micros
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Job, JobRecord, JobState
from onthedot.model.retention import Crowded, DailyCount, Mark
from onthedot.model.run import LIVE, TERMINAL, AttemptRecord, Checkpoint, RunRecord, RunState, SkipRecord, WaitReason
from onthedot.model.window import ScheduleState
from onthedot.stores import values
from onthedot.stores.values import LAST_MARK, Term, most

SCANNED = 10_000
"""One call reads at most about this number of rows that do not match. It takes some hundredths of a second."""

PAGE = 10_000
"""The number of items of a list that are read at once, whatever the limit is."""

FIRST, LAST = -(2**53), 2**53
"""Instants before and after all others. Stores that count in doubles are exact up to these values."""


# ── what is asked ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Selects jobs. None: any. Deleted jobs are never selected: `get_jobs_by_id` returns them."""

    namespaces: tuple[str, ...] | None = None
    owner: str | None = None
    states: frozenset[JobState] | None = None
    queue: str | None = None
    label: str | None = None  # one of the labels that a worker must offer
    name_contains: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Selects runs. None: any. The owner and the labels are those that the job has now.

    `since` and `until` (exclusive) compare the instant by which the list is ordered: the due instant of live runs, and
    the end of finished ones."""

    namespaces: tuple[str, ...] | None = None
    owner: str | None = None
    job: str | None = None  # the job's name; it selects every job that ever had this name
    job_id: int | None = None
    states: frozenset[RunState] | None = None
    queue: str | None = None
    label: str | None = None  # one of the labels that a worker must offer
    node: str | None = None  # the current or last node
    since: Micros | None = None
    until: Micros | None = None

    @property
    def live_states(self) -> frozenset[RunState]:
        """The selected states that live runs have."""
        return LIVE if self.states is None else self.states & LIVE

    @property
    def ended_states(self) -> frozenset[RunState]:
        """The selected states that finished runs have."""
        return TERMINAL if self.states is None else self.states & TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFilter:
    """Selects finished attempts. None: any. `since` and `until` (exclusive) compare their ends."""

    namespaces: tuple[str, ...] | None = None
    owner: str | None = None
    node: str | None = None
    run_id: int | None = None
    since: Micros | None = None
    until: Micros | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipFilter:
    """Selects ranges of skipped slots. None: any. `since` and `until` (exclusive) select the ranges that have a slot in
    this period, or that begin before it and end after it."""

    namespaces: tuple[str, ...] | None = None
    owner: str | None = None  # the current owner of the job
    job: str | None = None  # the job's name; it selects every job that ever had this name
    since: Micros | None = None
    until: Micros | None = None


# ── where a page begins ──────────────────────────────────────────────────────────────────────────────────────


class JobCursor(NamedTuple):
    """The place after the job of this name."""

    namespace: str
    name: str


class RunCursor(NamedTuple):
    """The place after this run: a live one by its due instant, or a finished one by its end."""

    ended: bool
    at: Micros
    id: int


class AttemptCursor(NamedTuple):
    """The place after this attempt."""

    ended_at: Micros
    run_id: int
    attempt: int


class SkipCursor(NamedTuple):
    """The place after this range of skipped slots. Its number grows with each record."""

    id: int


Cursor = JobCursor | RunCursor | AttemptCursor | SkipCursor
C = TypeVar("C", bound=Cursor)

FIRST_JOB = JobCursor("", "")
FIRST_LIVE = RunCursor(False, FIRST, 0)
FIRST_ENDED = RunCursor(True, LAST, 0)
FIRST_ATTEMPT = AttemptCursor(LAST, 0, 0)
FIRST_SKIP = SkipCursor(LAST)

_SUM = 6  # bytes of the check sum: against accidents and curiosity, not against anybody who reads this file


def encode_cursor(cursor: Cursor) -> str:
    """Return a cursor as text that a URL can carry. The text contains nothing that its reader may not know.

    >>> decode_cursor(encode_cursor(RunCursor(True, 1_767_225_600_000_000, 7)), RunCursor)
    RunCursor(ended=True, at=1767225600000000, id=7)
    """
    said = json.dumps([type(cursor).__name__, *cursor], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(hashlib.blake2s(said, digest_size=_SUM).digest() + said).decode().rstrip("=")


def decode_cursor(text: str, kind: type[C]) -> C:
    """Return the cursor of this text. Raises `DefinitionError` if the text was changed, or is a cursor of another kind.

    >>> decode_cursor("x", RunCursor)
    Traceback (most recent call last):
    onthedot.model.errors.DefinitionError: cursor: expected one from an earlier answer, got 'x'; begin without one
    """
    wrong = DefinitionError(f"cursor: expected one from an earlier answer, got {text[:80]!r}; begin without one")
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        _, *values = json.loads(raw[_SUM:])
        cursor: C = kind(*values)
        same = encode_cursor(cursor) == text  # with its check sum; the last letter has bits that nobody reads
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong from error
    fit = [type(one) for one in values] == list(get_type_hints(kind).values())
    if not (same and fit) or any(type(one) is int and abs(one) > LAST for one in values):
        raise wrong  # whoever reads this file can make the sum of anything
    return cursor


# ── what is answered ─────────────────────────────────────────────────────────────────────────────────────────

T = TypeVar("T")
P = TypeVar("P", bound=tuple[Any, ...])


class Page(NamedTuple, Generic[T, P]):
    """The items that were found, and the place where the next page begins (None: there is no next page)."""

    items: list[T]
    next: P | None


JobPage = Page[JobRecord, JobCursor]
RunPage = Page[RunRecord, RunCursor]
AttemptPage = Page[AttemptRecord, AttemptCursor]
SkipPage = Page[SkipRecord, SkipCursor]


class Revision(NamedTuple):
    """One definition that a job had, and the time at which it was written."""

    revision: int
    job: Job
    written_at: Micros


# ── from what a driver has scanned to pages, and to lists ────────────────────────────────────────────────────


class Scan(NamedTuple, Generic[T, P]):
    """The items that matched, in order, at most as many as were requested. `reached` is the place up to which the store
    has looked, if it stopped before the end. It is None if the store has looked at everything, or has found enough."""

    items: list[T]
    reached: P | None = None


RunScan = Scan[RunRecord, RunCursor]
JobScan = Scan[JobRecord, JobCursor]
AttemptScan = Scan[AttemptRecord, AttemptCursor]
SkipScan = Scan[tuple[int, SkipRecord], SkipCursor]


def cursor_of(run: RunRecord) -> RunCursor:
    """Return the place of a run in the list."""
    return RunCursor(False, run.due_at, run.id) if run.ended_at is None else RunCursor(True, run.ended_at, run.id)


def job_cursor(record: JobRecord) -> JobCursor:
    """Return the place of a job in the list."""
    return JobCursor(record.job.namespace, record.job.name)


def attempt_cursor(attempt: AttemptRecord) -> AttemptCursor:
    """Return the place of an attempt in the list."""
    return AttemptCursor(attempt.ended_at, attempt.run_id, attempt.attempt)


def _page(scan: Scan[T, P], limit: int, cursor: Callable[[T], P]) -> Page[T, P]:
    """Return a page, from a scan for one item more than the page may have."""
    items, reached = scan
    return Page(items[:limit], cursor(items[limit - 1]) if len(items) > limit else reached)


async def _all(
    find: Callable[..., Awaitable[Page[T, Any]]], wanted: object, limit: int | None, key: Callable[[T], object]
) -> list[T]:
    """Read page after page, at most `limit` items. An item that moves between two pages is listed once, in its last
    state."""
    found: dict[object, T] = {}
    place = None
    while len(found) < most(limit):
        some, place = await find(wanted, after=place, limit=min(PAGE, most(limit) - len(found)))
        for one in some:
            found.pop(key(one), None)
            found[key(one)] = one
        if place is None:
            break
    return list(found.values())


class FindsJobs(Protocol):
    """Lists jobs in pages."""

    async def find_jobs(self, wanted: JobFilter, *, after: JobCursor | None = None, limit: int = 100) -> JobPage:
        """Return jobs, ordered by namespace and name."""
        ...


async def all_jobs(store: FindsJobs, wanted: JobFilter, limit: int | None = None) -> list[JobRecord]:
    """Read jobs page after page, at most `limit` (None: all)."""
    return await _all(store.find_jobs, wanted, limit, lambda record: record.id)


async def all_runs(store: Queries, wanted: RunFilter, limit: int | None = None) -> list[RunRecord]:
    """Read runs page after page, at most `limit` (None: all). A run that moves meanwhile is listed once, in its last
    state."""
    return await _all(store.find_runs, wanted, limit, lambda run: run.id)


class Queries(FindsJobs, Protocol):
    """The reads of a store.

    A driver scans: it starts at a place and returns matching items in order, up to a limit. If it stops before the end,
    its answer has the place that it has reached. This class turns scans into pages, and pages into lists."""

    async def scan_jobs(self, wanted: JobFilter, after: JobCursor, limit: int) -> JobScan: ...

    async def scan_live(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        """Return live runs with one of `wanted.live_states`."""
        ...

    async def scan_ended(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        """Return finished runs with one of `wanted.ended_states`."""
        ...

    async def scan_attempts(self, wanted: AttemptFilter, after: AttemptCursor, limit: int) -> AttemptScan: ...

    async def scan_skips(self, wanted: SkipFilter, after: SkipCursor, limit: int) -> SkipScan:
        """Return each range with its number, the highest first."""
        ...

    async def list_revisions(
        self, job_id: int, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        """Return the definitions that a job had, newest first, also of a deleted job. `before` selects those before
        this revision."""
        ...

    async def get_jobs_by_id(self, job_ids: Sequence[int]) -> list[JobRecord]:
        """Return those of these jobs that ever existed, also deleted ones, ordered by id."""
        ...

    async def find_jobs(self, wanted: JobFilter, *, after: JobCursor | None = None, limit: int = 100) -> JobPage:
        """Return jobs, ordered by namespace and name."""
        return _page(await self.scan_jobs(wanted, after or FIRST_JOB, limit + 1), limit, job_cursor)

    async def find_runs(self, wanted: RunFilter, *, after: RunCursor | None = None, limit: int = 100) -> RunPage:
        """Return live runs, ordered by due instant and id. Then return finished runs, the latest end and the larger id
        first."""
        found: list[RunRecord] = []
        if after is None or not after.ended:
            if wanted.live_states:
                scan = await self.scan_live(wanted, after or FIRST_LIVE, limit + 1)
                found, following = _page(scan, limit, cursor_of)
                if following is not None:
                    return RunPage(found, following)
            after = FIRST_ENDED
        room = limit - len(found)
        if not wanted.ended_states or not room:
            return RunPage(found, after if wanted.ended_states else None)
        ended, following = _page(await self.scan_ended(wanted, after, room + 1), room, cursor_of)
        seen = {run.id for run in found}  # one that has ended between the two looks is shown once
        return RunPage(found + [run for run in ended if run.id not in seen], following)

    async def find_attempts(
        self, wanted: AttemptFilter, *, after: AttemptCursor | None = None, limit: int = 100
    ) -> AttemptPage:
        """Return finished attempts, the latest end first. Some stores keep attempts with their runs, and have no index
        of them. They accept only a filter for one run, and otherwise raise `DefinitionError` with the reason."""
        return _page(await self.scan_attempts(wanted, after or FIRST_ATTEMPT, limit + 1), limit, attempt_cursor)

    async def find_skips(self, wanted: SkipFilter, *, after: SkipCursor | None = None, limit: int = 100) -> SkipPage:
        """Return ranges of slots that were skipped when they were planned, the newest record first. A range that grows
        meanwhile is a new record, and does not appear again."""
        scan = await self.scan_skips(wanted, after or FIRST_SKIP, limit + 1)
        found, following = _page(scan, limit, lambda one: SkipCursor(one[0]))
        return SkipPage([skip for _, skip in found], following)

    async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
        """Return all jobs, ordered by namespace and name."""
        return await all_jobs(self, JobFilter(), limit)

    async def list_runs(
        self, *, job: str | None = None, namespace: str = "default", states: Iterable[RunState] | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:  # fmt: skip
        """Return the runs of a namespace, in the order of `find_runs`."""
        wanted = RunFilter(namespaces=(namespace,), job=job, states=None if states is None else frozenset(states))
        return await all_runs(self, wanted, limit)

    async def list_skips(
        self, *, job: str | None = None, namespace: str = "default", since: Micros | None = None,
        until: Micros | None = None, limit: int | None = None,
    ) -> list[SkipRecord]:  # fmt: skip
        """Return the skips of a namespace, in the order of `find_skips`."""
        wanted = SkipFilter(namespaces=(namespace,), job=job, since=since, until=until)
        return await _all(self.find_skips, wanted, limit, id)

    # ── jobs and their schedules ──────────────────────────────────────────────────────────────────────────────────

    async def get_job(self, name: str, *, namespace: str = "default") -> JobRecord | None:
        """Return the current revision of a job, or None."""

    async def schedules_of(self, job_id: int) -> list[ScheduleState]:
        """Return the state of every schedule of a job, ordered by id."""

    async def parents_of(self, job_id: int) -> list[values.Parent]:
        """Return the parents of a job, ordered by name, each with its recorded run. The job still waits for a parent
        without a run. The list is empty for a deleted job, or one without parents.

        No call triggers a job that runs after others (`model/after.py`): **every write that moves a run to a terminal
        state** inserts the runs that follow it (docs/design/store-moves.md, "After"). Runs of a paused job are held. A
        deleted job receives none. Only the name of a parent counts: runs of a deleted job count like those of the job
        that has its name now."""

    async def due_resumes(self, *, now: Micros | None = None) -> list[JobRecord]:
        """Return paused jobs whose `until` has passed."""

    async def next_schedules(
        self, *, until: Micros, limit: int, namespaces: Sequence[str] | None = None, owner: str | None = None,
        after: values.ScheduleCursor | None = None,
    ) -> values.NextSchedules:  # fmt: skip
        """Return schedules of active jobs with `next_at <= until`, of all shards, earliest first. `namespaces` and
        `owner` select their jobs (None: all). A page may be short and have a next one. The call delays no planner."""

    async def zoned_schedules(self, term: Term, *, after: tuple[int, str] = (0, ""), limit: int) -> list[ScheduleState]:
        """Return schedules of the term's shard that depend on zone data and have a next slot, of active and paused
        jobs. They are ordered by (job id, schedule id), and only those after `after` are returned. Raises `TermLost`
        for another layout than the current one."""

    # ── runs and what is known of them ────────────────────────────────────────────────────────────────────────────

    async def get_run(self, run_id: int) -> RunRecord | None:
        """Return one run, live or finished, or None."""

    async def get_runs(self, run_ids: Sequence[int]) -> list[RunRecord]:
        """Return those of these runs that exist, live or finished, ordered by id."""

    async def runs_of_slots(
        self, job_id: int, trigger: str, *, first: Micros, last: Micros
    ) -> list[tuple[Micros, RunState]]:
        """Return the instant and the state of every run with this trigger whose instant is from `first` to `last`, live
        or in history. They are ordered by instant."""

    async def list_attempts(self, run_id: int) -> list[AttemptRecord]:
        """Return the finished attempts of a run, in order."""

    async def get_checkpoint(self, run_id: int) -> Checkpoint | None:
        """Return the newest checkpoint of a run, live or finished."""

    async def list_logs(self, run_id: int) -> list[values.LogRecord]:
        """Return the logs of the attempts of a run, in order. Attempts without a log are left out."""

    async def count_runs(self) -> dict[RunState, int]:
        """Return the number of runs in each state."""

    async def count_owned(self, owner: str, *, namespace: str | None = None) -> values.Owned:
        """Return the numbers of jobs and runs of an owner, in one namespace or in all. Deleted jobs and their runs do
        not count."""

    async def list_dead(
        self, *, job: str | None = None, namespace: str = "default", since: Micros = 0, before: Mark = LAST_MARK,
        limit: int | None = None,
    ) -> list[RunRecord]:  # fmt: skip
        """Return dead letters, the latest end first. A run is a dead letter from the write that makes it dead until it
        is settled or removed.

        Only runs that ended at `since` or later, and come before the mark `before`, are returned. The mark of the last
        one is the start of the next page. Only dead letters are read, however long the history is."""

    async def why_waiting(self, run_id: int) -> WaitReason | None:
        """Return why a live run waits. None if it has ended or does not exist."""

    # ── queues and placement ──────────────────────────────────────────────────────────────────────────────────────

    async def list_queues(self, *, now: Micros | None = None) -> list[values.Queue]:
        """Return every queue that has a live run or was ever changed, ordered by name, with counts of its runs."""

    async def list_unassigned(self, *, until: Micros, limit: int, now: Micros | None = None) -> list[values.Unplaced]:
        """Return the runs due by `until` that need a worker, earliest first. Runs of paused queues are left out.

        These are runs without a place, and runs whose place is an incarnation that has ended. Runs are included too if
        their place did not arm them within a second of the later of their due instant and their assignment."""

    async def count_loads(self) -> dict[str, int]:
        """Return for each incarnation the number of runs that it holds, reserved or running, or that wait for it as
        their place."""

    async def count_held(self) -> dict[str, values.Held]:
        """Return the numbers of runs that each incarnation holds. Incarnations without runs are left out."""

    # ── nodes, terms and shards ───────────────────────────────────────────────────────────────────────────────────

    async def list_nodes(
        self, *, limit: int | None = None, living: bool = False, now: Micros | None = None
    ) -> list[values.Node]:
        """Return incarnations, newest first. With `living`, return only those with a valid lease. Ended ones stay for
        weeks, so frequent callers ask for the living ones."""

    async def get_layout(self) -> values.Layout:
        """Return the current layout. It is version 1 with one shard until it is changed."""

    async def list_terms(self) -> list[Term]:
        """Return the newest term of each shard of the layout, current or not, ordered by shard. After a change of the
        layout, the term has no holder and has ended."""

    # ── retention ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def find_crowded(self, keep: int, *, after: int = 0, limit: int = 100_000) -> Crowded:
        """Return jobs with more than `keep` finished runs, ordered by id from `after` on, each with its newest run
        beyond those. The call stops after it has counted `limit` runs."""

    async def list_daily_counts(
        self, *, job: str | None = None, namespace: str = "default", limit: int = 1000
    ) -> list[DailyCount]:
        """Return the counts of pruned runs, newest day first, then by job and state. Together with the stored runs,
        they count all runs that ever existed."""
