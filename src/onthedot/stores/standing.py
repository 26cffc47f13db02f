"""The part of the store protocol about how things stand right now: who leads, who holds what, why a run waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from onthedot.clock import Micros


class Held(NamedTuple):
    """How many runs an incarnation has reserved, and how many it executes."""

    reserved: int = 0
    running: int = 0


class Owned(NamedTuple):
    """How many jobs an owner has, and how many runs of these jobs have not ended."""

    jobs: int = 0
    runs: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What keeps a live run where it is, beside what its `RunRecord` tells. What does not apply is empty."""

    run_id: int
    expires_at: Micros | None = None  # not started by then: skipped
    node: str = ""  # who has reserved it, or executes it
    incarnation: str = ""
    reserved_at: Micros | None = None
    fence: int = 0
    gate: str = ""  # the closed one that it waits at
    holders: tuple[int, ...] = ()  # the runs that hold it
    granted_at: Micros | None = None  # the instant that a rate has handed out
    for_leader: bool = False  # it waits for the leader to find it a place
    place: str = ""  # the incarnation that the leader chose
    cancel_wanted: str | None = None  # why its attempt is asked to stop


class StandingSlice(Protocol):
    """How things stand. For people and quotas: no store decides anything by these answers."""

    async def count_held(self) -> dict[str, Held]:
        """What each incarnation holds, if it is anything."""
        ...

    async def count_owned(self, owner: str, *, namespace: str | None = None) -> Owned:
        """What an owner has now, in one namespace or in all; deleted jobs and their runs do not count."""
        ...

    async def standing(self, run_id: int) -> Standing | None:
        """How a live run stands; None if it has ended, or there is none."""
        ...
