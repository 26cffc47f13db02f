"""The part of the store protocol about finding things: by filters, page by page.

A page is what was found, and the place where the next one begins (None: that was all). **A page may be short, or empty,
and still have a next one**: no call reads more than some `SCANNED` rows, and what it has not found by then is for the
next. So a caller goes on until there is no next place, however little it has got.

**What who pages sees**: every job, finished run and attempt that is there throughout, exactly once. A live run, too,
unless its due instant is moved (a retry, a rate, an edit), or it ends: then it is among the finished ones, and may be
seen twice. What is added meanwhile may be seen or not.

Namespaces and owners are also how permissions are kept: they are compared exactly, in the query itself, and no
namespace at all (an empty tuple) finds nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from onthedot.clock import Micros
from onthedot.errors import DefinitionError
from onthedot.job import Job, JobRecord, JobState
from onthedot.run import LIVE, TERMINAL, AttemptRecord, RunRecord, RunState, SkipRecord

SCANNED = 10_000
"""How many rows that do not match one call reads at the most, or about so many: some hundredths of a second."""

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
    it lives; when it ended, once it has.
    """

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

_FIELDS: dict[str, list[type]] = {
    "JobCursor": [str, str],
    "RunCursor": [bool, int, int],
    "AttemptCursor": [int, int, int],
    "SkipCursor": [int],
}
_SUM = 6  # bytes of the check sum: against accidents and curiosity, not against anybody who reads this file


def encode_cursor(cursor: Cursor) -> str:
    """A cursor as text that a URL can carry. It says nothing that its reader may not know.

    >>> decode_cursor(encode_cursor(RunCursor(True, 1_767_225_600_000_000, 7)), RunCursor)
    RunCursor(ended=True, at=1767225600000000, id=7)
    """
    said = json.dumps([type(cursor).__name__, *cursor], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_sum_of(said) + said).decode().rstrip("=")


def decode_cursor(text: str, kind: type[C]) -> C:
    """The cursor that was made into this text; `DefinitionError` for one that was changed, or is of something else.

    >>> decode_cursor("x", RunCursor)
    Traceback (most recent call last):
    onthedot.errors.DefinitionError: cursor: expected one as it was answered, got 'x'; begin without one
    """
    wrong = DefinitionError(f"cursor: expected one as it was answered, got {text[:80]!r}; begin without one")
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        said = json.loads(raw[_SUM:])
    except (binascii.Error, ValueError) as error:
        raise wrong from error
    if raw[:_SUM] != _sum_of(raw[_SUM:]) or not isinstance(said, list) or said[:1] != [kind.__name__]:
        raise wrong
    if [type(one) for one in said[1:]] != _FIELDS[kind.__name__] or any(
        type(one) is int and abs(one) > LAST for one in said
    ):
        raise wrong  # whoever reads this file can make the sum of anything
    cursor: C = kind(*said[1:])
    if encode_cursor(cursor) != text:  # the last letter has bits that nobody reads
        raise wrong
    return cursor


def _sum_of(said: bytes) -> bytes:
    return hashlib.blake2s(said, digest_size=_SUM).digest()


# ── what is answered ─────────────────────────────────────────────────────────────────────────────────────────


class JobPage(NamedTuple):
    """Jobs, and where the next ones begin."""

    items: list[JobRecord]
    next: JobCursor | None


class RunPage(NamedTuple):
    """Runs, and where the next ones begin."""

    items: list[RunRecord]
    next: RunCursor | None


class AttemptPage(NamedTuple):
    """Ended attempts, and where the next ones begin."""

    items: list[AttemptRecord]
    next: AttemptCursor | None


class SkipPage(NamedTuple):
    """Ranges of skipped slots, and where the next ones begin."""

    items: list[SkipRecord]
    next: SkipCursor | None


class Revision(NamedTuple):
    """One definition that a job had, and since when."""

    revision: int
    job: Job
    written_at: Micros


class FindingSlice(Protocol):
    """Jobs, runs and attempts by what they are like. How pages go on: see above."""

    async def find_jobs(self, wanted: JobFilter, *, after: JobCursor | None = None, limit: int = 100) -> JobPage:
        """Jobs by namespace and name."""
        ...

    async def find_runs(self, wanted: RunFilter, *, after: RunCursor | None = None, limit: int = 100) -> RunPage:
        """Live runs by due instant, and by id; then finished ones, newest end first, and the larger id."""
        ...

    async def find_attempts(
        self, wanted: AttemptFilter, *, after: AttemptCursor | None = None, limit: int = 100
    ) -> AttemptPage:
        """Ended attempts, newest end first. A store that keeps them with their runs, and has no index of them, refuses
        all but those of one run: `DefinitionError`, with the reason."""
        ...

    async def find_skips(self, wanted: SkipFilter, *, after: SkipCursor | None = None, limit: int = 100) -> SkipPage:
        """Ranges of slots that were skipped when they were planned, the newest record first. One that grows meanwhile
        is a new record, and is not seen again."""
        ...

    async def list_revisions(
        self, job_id: int, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        """The definitions that a job had, also one that is deleted, newest first; those before this revision."""
        ...

    async def get_jobs_by_id(self, job_ids: Sequence[int]) -> list[JobRecord]:
        """Those of these jobs that were ever there, also deleted ones, by id."""
        ...
