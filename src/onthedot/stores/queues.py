"""The part of the store protocol about queues, and about which worker a run is meant for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from onthedot.clock import SECOND, Micros
from onthedot.job import JobRecord

if TYPE_CHECKING:
    from onthedot.stores.base import Term


@dataclass(frozen=True, slots=True)
class Queue:
    """A named line of runs. Every name is one; this is what somebody has said about it, and who is in it.

    With `weights`, it is shared fairly: between the values of the argument that jobs name as their `share`, each with
    its weight (1 for those that are not named).
    """

    name: str
    paused_at: Micros | None = None
    reason: str = ""
    weights: Mapping[str, int] | None = None
    waiting: int = 0  # runs that are scheduled or reserved
    due: int = 0  # those of them whose instant has come
    running: int = 0
    oldest_due: Micros | None = None


class Unplaced(NamedTuple):
    """A run that the leader is to find a place for. `place` is the incarnation that had it, and did nothing."""

    run_id: int
    record: JobRecord
    due_at: Micros
    place: str = ""


class Placement(NamedTuple):
    """A run, and the incarnation that is to take it."""

    run_id: int
    incarnation: str


TIME_TO_TAKE: Micros = 1 * SECOND
"""How long a worker that the leader has chosen may leave a run that is due lying."""


def is_left_lying(ready_at: Micros, now: Micros, *, alive: bool) -> bool:
    """Whether a run that has a place needs another: its worker is dead, or did nothing with it in time."""
    return not alive or ready_at + TIME_TO_TAKE <= now


class QueuesSlice(Protocol):
    """Queues as a whole."""

    async def pause_queue(self, name: str, *, reason: str, now: Micros | None = None) -> Queue:
        """From the answer on, nothing of this queue is given out or armed until it is resumed. Runs that are armed go
        on; what is not started in time is missed as ever. Runs that wait at gates are ready again, and places in limits
        that they do not use pass to others: what they may hold is decided anew when they are armed."""
        ...

    async def resume_queue(self, name: str, *, now: Micros | None = None) -> Queue:
        """Let a queue go on. One that is not paused is left alone."""
        ...

    async def share_queue(self, name: str, weights: Mapping[str, int] | None, *, now: Micros | None = None) -> Queue:
        """Share a queue fairly, with these weights; None: first come, first served again."""
        ...

    async def list_queues(self, *, now: Micros | None = None) -> list[Queue]:
        """Every queue that has a live run or was ever changed, by name, with who is in it."""
        ...


class PlacementSlice(Protocol):
    """Runs whose worker the leader chooses (`assignment: leader`)."""

    async def unplaced(self, *, until: Micros, limit: int, now: Micros | None = None) -> list[Unplaced]:
        """Runs due by `until` that have no place; and those whose place is an incarnation that has ended, or that did
        not arm them within a second of the later of their due instant and their placing. Earliest first. None of a
        queue that is paused: nobody could take them."""
        ...

    async def loads(self) -> dict[str, int]:
        """By incarnation: how many runs it holds, reserved or running, and how many wait with it as their place."""
        ...

    async def place(self, term: Term, placements: Sequence[Placement], *, now: Micros | None = None) -> list[bool]:
        """Give runs their places, row by row: True if the run was still waiting, reserved by nobody in time.

        Fenced by the term, as `plan` is: `TermLost`, and nothing is written."""
        ...
