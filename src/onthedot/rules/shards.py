"""Shards: how the buckets are divided, and which schedules hang on zone data."""

from __future__ import annotations

import hashlib

from onthedot.model.errors import DefinitionError
from onthedot.model.job import Cron, Job
from onthedot.schedules import schedule_id

BUCKETS = 1024
MOST_SHARDS = 64


def bucket_of(job_id: int) -> int:
    """The one of 1,024 buckets that a job's schedules are planned in. The same in every process, for ever.

    >>> bucket_of(1), bucket_of(2)
    (886, 876)
    """
    return int.from_bytes(hashlib.blake2b(str(job_id).encode(), digest_size=8).digest(), "big") % BUCKETS


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
