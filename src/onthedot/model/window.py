"""Windows: the slots of a schedule in a span of time, and the fate of each.

A planner computes windows, a store records them. `rules/window_writes.py` has the rules for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from onthedot.clock import Micros
from onthedot.model.job import JobRecord

NO_NODE = "no_node"
"""Why a slot that is to run everywhere runs nowhere. The one reason for which a planner skips what is still ahead."""


class Slot(NamedTuple):
    """A slot that becomes a run, and the instant after which it is too late for it (None: never)."""

    slot_at: Micros
    expires_at: Micros | None
    due_at: Micros | None = None  # with jitter: when the run is due; None: at the slot
    args: str | None = None  # canonical JSON, if its schedule has arguments; None: the job's own

    @property
    def due(self) -> Micros:
        """When the run is due."""
        return self.slot_at if self.due_at is None else self.due_at


@dataclass(frozen=True, slots=True)
class SkipRange:
    """Slots that will not run: from the first to the last, how many, and why."""

    first: Micros
    last: Micros
    count: int
    reason: str


@dataclass(slots=True)
class Window:
    """What becomes of each slot of a schedule in (start, end]: the old watermark, and the new one."""

    schedule_id: str
    start: Micros
    end: Micros
    next_at: Micros | None
    slots: Sequence[Slot] = ()
    skips: Sequence[SkipRange] = ()
    delay: Micros | None = None  # for a fixed delay: how long after its run's end the next slot lies
    targets: tuple[str, ...] = ("",)  # one run of each slot for each of these nodes; "": for anybody


ExceptReason = Literal["moved", "cancelled"]


class SlotException(NamedTuple):
    """An exception of a schedule: a slot that was decided before it was planned."""

    slot_at: Micros
    reason: str
    recorded: bool = False  # whether the ledger has its entry: a skipped run, or a skip
    run_id: int | None = None  # the run that takes its place


@dataclass(slots=True)
class ScheduleState:
    """What the store knows of one schedule. Every slot up to `watermark` has a fate.

    `origin` is the instant at which the schedule was created. `next_at` is None for a schedule without further slots,
    and for a fixed delay while its run is open. `exceptions` go by their slots; those of long ago are forgotten."""

    record: JobRecord
    schedule_id: str
    origin: Micros
    watermark: Micros
    next_at: Micros | None
    last_end: Micros | None
    exceptions: tuple[SlotException, ...] = ()
