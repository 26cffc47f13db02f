"""Which node is to plan which shard: rendezvous hashing, so that a join or a death moves no more than it must."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.schedules.zones import is_newer


class Candidate(NamedTuple):
    """A living planner, and the version of its zone data."""

    node_id: str
    incarnation: str
    tzdata: str = ""


class Held(NamedTuple):
    """A shard's newest term: whose it is, and when it ends or ended."""

    incarnation: str
    until: Micros


def electable(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those who have the newest zone data; of a node that is there twice, the first one given."""
    known = list({one.node_id: one for one in reversed(list(candidates))}.values())
    return [one for one in known if not any(is_newer(other.tzdata, one.tzdata) for other in known)]


def owner_of(shard: int, candidates: Sequence[Candidate]) -> str | None:
    """The incarnation that is to plan a shard: that of the node whose name and the shard's number hash highest.

    >>> living = [Candidate(name, f"{name}1") for name in "abc"]
    >>> [owner_of(shard, living) for shard in range(6)]
    ['b1', 'b1', 'b1', 'b1', 'b1', 'a1']
    """
    highest = max(candidates, key=lambda one: _weight(shard, one.node_id), default=None)
    return None if highest is None else highest.incarnation


def owners(shards: int, candidates: Iterable[Candidate]) -> list[str | None]:
    """The owner of each shard, None where there is nobody."""
    living = electable(candidates)
    return [owner_of(shard, living) for shard in range(shards)]


def open_to(
    incarnation: str, owned_by: Sequence[str | None], terms: Mapping[int, Held], *, now: Micros, patience: Micros
) -> list[int]:
    """The shards that this node is to campaign for: its own, whoever has them (the store knows better than we do when
    that one's term ends), and others that their owner has left lying for `patience`.

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
