"""Divides schedules into shards, and shards among the nodes that plan. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Cron, Job
from onthedot.schedules import schedule_id
from onthedot.schedules.zones import is_newer

BUCKETS = 1024
MOST_SHARDS = 64


def bucket_of(job_id: int) -> int:
    """Return the bucket, one of 1,024, in which a job's schedules are planned. It is the same in every process, for
    ever.

    >>> bucket_of(1), bucket_of(2)
    (886, 876)
    """
    return int.from_bytes(hashlib.blake2b(str(job_id).encode(), digest_size=8).digest(), "big") % BUCKETS


def buckets_of(shard: int, shards: int) -> range:
    """Return the buckets of one of `shards` shards: consecutive ranges, whose sizes differ by one bucket at most.

    >>> [buckets_of(shard, 3) for shard in range(3)]
    [range(0, 341), range(341, 682), range(682, 1024)]
    """
    return range(shard * BUCKETS // shards, (shard + 1) * BUCKETS // shards)


def shard_of(bucket: int, shards: int) -> int:
    """Return the one of `shards` shards that a bucket belongs to.

    >>> shard_of(340, 3), shard_of(341, 3), shard_of(1023, 3)
    (0, 1, 2)
    """
    return ((bucket + 1) * shards - 1) // BUCKETS


def check_shards(shards: int) -> None:
    """Raise `DefinitionError` if this number of shards is not possible."""
    if not 1 <= shards <= MOST_SHARDS:
        raise DefinitionError(f"shards: expected a number from 1 to {MOST_SHARDS}, got {shards!r}")


def zoned_ids(job: Job) -> frozenset[str]:
    """Return the schedules of a job whose instants depend on the rules of a time zone, which governments change."""
    return frozenset(
        schedule_id(schedule) for schedule in job.schedules if isinstance(schedule, Cron) and schedule.tz != "UTC"
    )


class Candidate(NamedTuple):
    """A living planner, and the version of its zone data."""

    node_id: str
    incarnation: str
    tzdata: str = ""


class Held(NamedTuple):
    """A shard's newest term: its holder, and when it ends or ended."""

    incarnation: str
    until: Micros


def electable(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates with the newest zone data. If a node is listed twice, its first entry counts."""
    known = list({one.node_id: one for one in reversed(list(candidates))}.values())
    return [one for one in known if not any(is_newer(other.tzdata, one.tzdata) for other in known)]


def owner_of(shard: int, candidates: Sequence[Candidate]) -> str | None:
    """Return the incarnation that must plan a shard: its node has the highest hash of node name and shard number.

    >>> living = [Candidate(name, f"{name}1") for name in "abc"]
    >>> [owner_of(shard, living) for shard in range(6)]
    ['b1', 'b1', 'b1', 'b1', 'b1', 'a1']
    """
    highest = max(candidates, key=lambda one: _weight(shard, one.node_id), default=None)
    return None if highest is None else highest.incarnation


def owners(shards: int, candidates: Iterable[Candidate]) -> list[str | None]:
    """Return the owner of each shard; None for a shard without an owner."""
    living = electable(candidates)
    return [owner_of(shard, living) for shard in range(shards)]


def open_to(
    incarnation: str, owned_by: Sequence[str | None], terms: Mapping[int, Held], *, now: Micros, patience: Micros
) -> list[int]:
    """Return the shards that this node should campaign for: its own, also while another node holds them (the store
    knows when that term ends), and shards without a term for `patience`.

    >>> open_to("b1", ["a1", "b1", "a1"], {0: Held("c1", 5), 1: Held("c1", 99), 2: Held("c1", 99)}, now=10, patience=3)
    [0, 1]
    """
    found = []
    for shard, owner in enumerate(owned_by):
        term = terms.get(shard)
        if owner == incarnation or term is None or now >= term.until + patience:
            found.append(shard)
    return found


def _weight(shard: int, node_id: str) -> bytes:
    return hashlib.blake2b(f"{shard}/{node_id}".encode(), digest_size=8).digest()
