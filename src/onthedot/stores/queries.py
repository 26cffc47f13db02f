"""`store.queries`: reads for people and services. Nothing here writes.

Lists that can be long have filters and pages. A page has what was found, and where the next page begins (None: that was
all). **A short or empty page may have a next one**: no call reads more than about `SCANNED` rows. So a caller reads
until there is no next page.

**What the pages show**: every job, finished run and attempt that exists all the time, exactly once. A live run may
appear twice if it ends. If its due instant moves (a retry, a rate, an edit), it may appear twice or not at all, like
all that is added meanwhile.

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
"""How many rows that do not match one call reads at the most, or about so many: some hundredths of a second."""

PAGE = 10_000
"""How many of a list are read at once, however many are wanted."""

FIRST, LAST = -(2**53), 2**53
"""Before and behind every instant: stores that count in doubles are exact up to here."""


# ── what is asked ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs. None: not asked. Deleted ones are never among them: `get_jobs_by_id` has those."""

    namespaces: tuple[str, ...] | None = None
    owner: str | None = None
    states: frozenset[JobState] | None = None
    queue: str | None = None
    label: str | None = None  # one of those that a worker must offer
    name_contains: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs. None: not asked. Of all that belongs to their job, what it is now counts: its owner, its labels.

    `since` and `until` (without it) are about the instant that gives a run its place in the list: when it is due, while
    it lives; when it ended, once it has."""

    namespaces: tuple[str, ...] | None = None
    owner: str | None = None
    job: str | None = None  # its name: of every job that ever had it
    job_id: int | None = None
    states: frozenset[RunState] | None = None
    queue: str | None = None
    label: str | None = None  # one of those that a worker must offer
    node: str | None = None  # that holds it, or had it last
    since: Micros | None = None
    until: Micros | None = None

    @property
    def live_states(self) -> frozenset[RunState]:
        """Those of its states that live runs have."""
        return LIVE if self.states is None else self.states & LIVE

    @property
    def ended_states(self) -> frozenset[RunState]:
        """Those of its states that finished runs have."""
        return TERMINAL if self.states is None else self.states & TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFilter:
    """Which ended attempts. None: not asked. `since` and `until` (without it): when they ended."""

    namespaces: tuple[str, ...] | None = None
    owner: str | None = None
    node: str | None = None
    run_id: int | None = None
    since: Micros | None = None
    until: Micros | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipFilter:
    """Which ranges of skipped slots. None: not asked. `since` and `until` (without it): those that have a slot from the
    one to the other, or lie around both."""

    namespaces: tuple[str, ...] | None = None
    owner: str | None = None  # of the job, as it is now
    job: str | None = None  # its name: of every job that ever had it
    since: Micros | None = None
    until: Micros | None = None


# ── where a page begins ──────────────────────────────────────────────────────────────────────────────────────


class JobCursor(NamedTuple):
    """Behind the job of this name."""

    namespace: str
    name: str


class RunCursor(NamedTuple):
    """Behind this run: a live one by its due instant, or a finished one by its end."""

    ended: bool
    at: Micros
    id: int


class AttemptCursor(NamedTuple):
    """Behind this attempt."""

    ended_at: Micros
    run_id: int
    attempt: int


class SkipCursor(NamedTuple):
    """Behind this range of skipped slots: its number, which grows with each record."""

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
    """A cursor as text that a URL can carry. It says nothing that its reader may not know.

    >>> decode_cursor(encode_cursor(RunCursor(True, 1_767_225_600_000_000, 7)), RunCursor)
    RunCursor(ended=True, at=1767225600000000, id=7)
    """
    said = json.dumps([type(cursor).__name__, *cursor], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(hashlib.blake2s(said, digest_size=_SUM).digest() + said).decode().rstrip("=")


def decode_cursor(text: str, kind: type[C]) -> C:
    """The cursor that was made into this text; `DefinitionError` for one that was changed, or is of something else.

    >>> decode_cursor("x", RunCursor)
    Traceback (most recent call last):
    onthedot.model.errors.DefinitionError: cursor: expected one as it was answered, got 'x'; begin without one
    """
    wrong = DefinitionError(f"cursor: expected one as it was answered, got {text[:80]!r}; begin without one")
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
    """What was found, and where the next page begins (None: that was all)."""

    items: list[T]
    next: P | None


JobPage = Page[JobRecord, JobCursor]
RunPage = Page[RunRecord, RunCursor]
AttemptPage = Page[AttemptRecord, AttemptCursor]
SkipPage = Page[SkipRecord, SkipCursor]


class Revision(NamedTuple):
    """One definition that a job had, and since when."""

    revision: int
    job: Job
    written_at: Micros


# ── from what a driver has scanned to pages, and to lists ────────────────────────────────────────────────────


class Scan(NamedTuple, Generic[T, P]):
    """What matched, in order, at most as many as were asked for; and the place up to which it was looked for, if there
    is more behind it that nobody has looked at (None: that was all, or there are as many as were asked for)."""

    items: list[T]
    reached: P | None = None


RunScan = Scan[RunRecord, RunCursor]
JobScan = Scan[JobRecord, JobCursor]
AttemptScan = Scan[AttemptRecord, AttemptCursor]
SkipScan = Scan[tuple[int, SkipRecord], SkipCursor]


def cursor_of(run: RunRecord) -> RunCursor:
    """The place of a run in the list."""
    return RunCursor(False, run.due_at, run.id) if run.ended_at is None else RunCursor(True, run.ended_at, run.id)


def job_cursor(record: JobRecord) -> JobCursor:
    """The place of a job in the list."""
    return JobCursor(record.job.namespace, record.job.name)


def attempt_cursor(attempt: AttemptRecord) -> AttemptCursor:
    """The place of an attempt in the list."""
    return AttemptCursor(attempt.ended_at, attempt.run_id, attempt.attempt)


def _page(scan: Scan[T, P], limit: int, cursor: Callable[[T], P]) -> Page[T, P]:
    """A page, of a scan for one more than it may have."""
    items, reached = scan
    return Page(items[:limit], cursor(items[limit - 1]) if len(items) > limit else reached)


async def _all(
    find: Callable[..., Awaitable[Page[T, Any]]], wanted: object, limit: int | None, key: Callable[[T], object]
) -> list[T]:
    """Page after page, at most so many. What moves between two pages is listed once, as it was seen last."""
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
        """Jobs by namespace and name."""
        ...


async def all_jobs(store: FindsJobs, wanted: JobFilter, limit: int | None = None) -> list[JobRecord]:
    """Page after page, at most so many; None: all."""
    return await _all(store.find_jobs, wanted, limit, lambda record: record.id)


async def all_runs(store: Queries, wanted: RunFilter, limit: int | None = None) -> list[RunRecord]:
    """Page after page, at most so many; None: all. What moves meanwhile is listed once, as it was seen last."""
    return await _all(store.find_runs, wanted, limit, lambda run: run.id)


class Queries(FindsJobs, Protocol):
    """What can be read of a store.

    A driver scans: from a place on, in order, up to so many that match. Its answer says how far it has come if it gave
    up before the end. Here that becomes pages, and pages become lists."""

    async def scan_jobs(self, wanted: JobFilter, after: JobCursor, limit: int) -> JobScan: ...

    async def scan_live(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        """Live runs with one of `wanted.live_states`."""
        ...

    async def scan_ended(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        """Finished runs with one of `wanted.ended_states`."""
        ...

    async def scan_attempts(self, wanted: AttemptFilter, after: AttemptCursor, limit: int) -> AttemptScan: ...

    async def scan_skips(self, wanted: SkipFilter, after: SkipCursor, limit: int) -> SkipScan:
        """Each with its number, the highest first."""
        ...

    async def list_revisions(
        self, job_id: int, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        """The definitions that a job had, also one that is deleted, newest first; those before this revision."""
        ...

    async def get_jobs_by_id(self, job_ids: Sequence[int]) -> list[JobRecord]:
        """Those of these jobs that were ever there, also deleted ones, by id."""
        ...

    async def find_jobs(self, wanted: JobFilter, *, after: JobCursor | None = None, limit: int = 100) -> JobPage:
        """Jobs by namespace and name."""
        return _page(await self.scan_jobs(wanted, after or FIRST_JOB, limit + 1), limit, job_cursor)

    async def find_runs(self, wanted: RunFilter, *, after: RunCursor | None = None, limit: int = 100) -> RunPage:
        """Live runs by due instant, and by id; then finished ones, newest end first, and the larger id."""
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
        """Ended attempts, newest end first. A store that keeps them with their runs, and has no index of them, refuses
        all but those of one run: `DefinitionError`, with the reason."""
        return _page(await self.scan_attempts(wanted, after or FIRST_ATTEMPT, limit + 1), limit, attempt_cursor)

    async def find_skips(self, wanted: SkipFilter, *, after: SkipCursor | None = None, limit: int = 100) -> SkipPage:
        """Ranges of slots that were skipped when they were planned, the newest record first. One that grows meanwhile
        is a new record, and is not seen again."""
        scan = await self.scan_skips(wanted, after or FIRST_SKIP, limit + 1)
        found, following = _page(scan, limit, lambda one: SkipCursor(one[0]))
        return SkipPage([skip for _, skip in found], following)

    async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
        """All jobs, by namespace and name."""
        return await all_jobs(self, JobFilter(), limit)

    async def list_runs(
        self, *, job: str | None = None, namespace: str = "default", states: Iterable[RunState] | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:  # fmt: skip
        """The runs of a namespace, as `find_runs` has them."""
        wanted = RunFilter(namespaces=(namespace,), job=job, states=None if states is None else frozenset(states))
        return await all_runs(self, wanted, limit)

    async def list_skips(
        self, *, job: str | None = None, namespace: str = "default", since: Micros | None = None,
        until: Micros | None = None, limit: int | None = None,
    ) -> list[SkipRecord]:  # fmt: skip
        """The skips of a namespace, as `find_skips` has them."""
        wanted = SkipFilter(namespaces=(namespace,), job=job, since=since, until=until)
        return await _all(self.find_skips, wanted, limit, id)

    # ── jobs and their schedules ──────────────────────────────────────────────────────────────────────────────────

    async def get_job(self, name: str, *, namespace: str = "default") -> JobRecord | None:
        """The current revision, or None."""

    async def schedules_of(self, job_id: int) -> list[ScheduleState]:
        """The state of every schedule of a job, by id."""

    async def parents_of(self, job_id: int) -> list[values.Parent]:
        """The parents of a job by name, and the run that it has of each; a parent without a run is still waited for.
        Empty for a deleted job, or one without parents.

        No call triggers a job that runs after others (`model/after.py`): **every write that moves a run to a terminal
        state** inserts the runs that follow it (docs/design/store-moves.md, "After"). Those of a paused job are held; a
        deleted job gets none. Parents go by name: runs of a deleted job count like those of the one that has its name
        now."""

    async def due_resumes(self, *, now: Micros | None = None) -> list[JobRecord]:
        """Paused jobs whose `until` has come."""

    async def next_schedules(
        self, *, until: Micros, limit: int, namespaces: Sequence[str] | None = None, owner: str | None = None,
        after: values.ScheduleCursor | None = None,
    ) -> values.NextSchedules:  # fmt: skip
        """Schedules of active jobs with `next_at <= until`, of all shards, earliest first; of jobs of these namespaces
        and this owner (None: of all). A page may be short and have a next one. It delays no planner."""

    async def zoned_schedules(self, term: Term, *, after: tuple[int, str] = (0, ""), limit: int) -> list[ScheduleState]:
        """Schedules of the term's shard that depend on zone data and have a next slot, of active and paused jobs, by
        (job id, schedule id), those behind `after`. `TermLost` for another layout than the current one."""

    # ── runs and what is known of them ────────────────────────────────────────────────────────────────────────────

    async def get_run(self, run_id: int) -> RunRecord | None:
        """One run, live or finished."""

    async def get_runs(self, run_ids: Sequence[int]) -> list[RunRecord]:
        """Those of these runs that are there, live or finished, by id."""

    async def runs_of_slots(
        self, job_id: int, trigger: str, *, first: Micros, last: Micros
    ) -> list[tuple[Micros, RunState]]:
        """Every run with this trigger whose instant lies from `first` to `last`, live or kept in history: its instant
        and its state, in the order of the instants."""

    async def list_attempts(self, run_id: int) -> list[AttemptRecord]:
        """The ended attempts of a run, in order."""

    async def get_checkpoint(self, run_id: int) -> Checkpoint | None:
        """The newest checkpoint of a run, live or finished."""

    async def list_logs(self, run_id: int) -> list[values.LogRecord]:
        """What the attempts of a run have logged, in order; those that logged nothing are left out."""

    async def count_runs(self) -> dict[RunState, int]:
        """How many runs are in each state."""

    async def count_owned(self, owner: str, *, namespace: str | None = None) -> values.Owned:
        """What an owner has now, in one namespace or in all; deleted jobs and their runs do not count."""

    async def list_dead(
        self, *, job: str | None = None, namespace: str = "default", since: Micros = 0, before: Mark = LAST_MARK,
        limit: int | None = None,
    ) -> list[RunRecord]:  # fmt: skip
        """Dead letters: runs from the write that makes them dead until they are settled or forgotten. Newest end first:
        those that ended at `since` or later, and come before this mark. The last one's mark reads on. Only dead
        letters are read, however long history is."""

    async def why_waiting(self, run_id: int) -> WaitReason | None:
        """Why a live run waits; None if it has ended or does not exist."""

    # ── queues and placement ──────────────────────────────────────────────────────────────────────────────────────

    async def list_queues(self, *, now: Micros | None = None) -> list[values.Queue]:
        """Every queue that has a live run or was ever changed, by name, with counts of its runs."""

    async def list_unassigned(self, *, until: Micros, limit: int, now: Micros | None = None) -> list[values.Unplaced]:
        """Runs due by `until` that have no place; and those whose place is an incarnation that has ended, or that did
        not arm them within a second of the later of their due instant and their placing. Earliest first, and none of a
        paused queue."""

    async def count_loads(self) -> dict[str, int]:
        """By incarnation: how many runs it holds, reserved or running, and how many wait with it as their place."""

    async def count_held(self) -> dict[str, values.Held]:
        """What each incarnation holds, if it is anything."""

    # ── nodes, terms and shards ───────────────────────────────────────────────────────────────────────────────────

    async def list_nodes(
        self, *, limit: int | None = None, living: bool = False, now: Micros | None = None
    ) -> list[values.Node]:
        """Incarnations, newest first; with `living` those whose lease is alive. Ended ones stay for weeks, so frequent
        callers ask for the living ones."""

    async def get_layout(self) -> values.Layout:
        """The current layout. It is version 1 with one shard until somebody changes it."""

    async def list_terms(self) -> list[Term]:
        """The newest term of each shard of the layout, current or not, by shard. After a change of the layout it has no
        holder and has ended."""

    # ── retention ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def find_crowded(self, keep: int, *, after: int = 0, limit: int = 100_000) -> Crowded:
        """Jobs with more than `keep` finished runs, by id from `after` on, with the newest run beyond those. Looks no
        further when it has counted `limit` runs."""

    async def list_daily_counts(
        self, *, job: str | None = None, namespace: str = "default", limit: int = 1000
    ) -> list[DailyCount]:
        """What was pruned, newest day first, then by job and state: with what is still there, all that ever was."""
