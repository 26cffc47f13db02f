"""The part of the store protocol about shards: how the buckets are divided, and schedules whose zone data changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from onthedot.clock import Micros
from onthedot.errors import DefinitionError
from onthedot.job import Cron, Job
from onthedot.schedules import schedule_id
from onthedot.stores.definitions import BUCKETS

if TYPE_CHECKING:
    from onthedot.stores.base import ScheduleState, Term

MOST_SHARDS = 64


class Layout(NamedTuple):
    """How many shards the buckets are divided into. The version grows with each change."""

    version: int = 1
    shards: int = 1


def buckets_of(shard: int, shards: int) -> range:
    """The buckets of one shard of so many: ranges that follow one another, and differ by one bucket at the most.

    >>> [buckets_of(shard, 3) for shard in range(3)]
    [range(0, 341), range(341, 682), range(682, 1024)]
    """
    return range(shard * BUCKETS // shards, (shard + 1) * BUCKETS // shards)


def shard_of(bucket: int, shards: int) -> int:
    """The shard of so many that a bucket belongs to.

    >>> shard_of(340, 3), shard_of(341, 3), shard_of(1023, 3)
    (0, 1, 2)
    """
    return ((bucket + 1) * shards - 1) // BUCKETS


def check_shards(shards: int) -> None:
    """`DefinitionError` unless there can be so many shards."""
    if not 1 <= shards <= MOST_SHARDS:
        raise DefinitionError(f"shards: expected a number from 1 to {MOST_SHARDS}, got {shards!r}")


def zoned_ids(job: Job) -> frozenset[str]:
    """The schedules of a job whose instants hang on the rules of a time zone, which governments change."""
    return frozenset(
        schedule_id(schedule) for schedule in job.schedules if isinstance(schedule, Cron) and schedule.tz != "UTC"
    )


class Replanned(NamedTuple):
    """A schedule whose next slot was computed anew: as it was seen, and the slot."""

    job_id: int
    schedule_id: str
    revision: int
    watermark: Micros
    next_at: Micros | None


class ShardsSlice(Protocol):
    """Layouts, and what a term with other zone data does first."""

    async def layout(self) -> Layout:
        """The current one: version 1, with one shard, until somebody changes it."""
        ...

    async def set_shards(self, shards: int, *, expected: int | None = None, now: Micros | None = None) -> Layout:
        """Divide the buckets anew, in one transaction: the version grows, and every term ends.

        From the answer on no write of an earlier layout is accepted. A layout that has so many shards already stays as
        it is, whatever was expected: asked again, the answer is the same. `expected` is the version that the caller
        read (None: whichever is current); another one raises `LayoutConflict`, and nothing is written.
        """
        ...

    async def list_terms(self) -> list[Term]:
        """The newest term of each shard of the layout that ever had one, over or not, by shard. After a change of the
        layout: one that nobody holds, which ended with the change."""
        ...

    async def zoned_schedules(self, term: Term, *, after: tuple[int, str] = (0, ""), limit: int) -> list[ScheduleState]:
        """Schedules of the term's shard whose instants hang on a time zone and that have a next slot, of active and
        paused jobs, in the order of (job id, schedule id), those behind `after`. `TermLost` for another layout than
        the current one."""
        ...

    async def replan(
        self, term: Term, rows: Sequence[Replanned], *, done: bool = False, now: Micros | None = None
    ) -> list[bool]:
        """Move the next slots of schedules, row by row; nothing else of them. Runs that are planned stay.

        Fenced by the term, as `plan` is. Each row is a compare-and-set on (revision, watermark): False means that
        somebody else was there first. `done`: all of the shard is computed with the term's zone data by now; terms to
        come are told so (`Term.zones`).
        """
        ...
