"""What goes into a store and comes out of it: the values that the protocol in `base.py` speaks in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from onthedot.clock import Micros, to_datetime
from onthedot.job import JobRecord
from onthedot.run import Lease, RunState

EVERY = 10**9
"""As a limit: all there are."""


def most(limit: int | None) -> int:
    """A limit as a number; None, which means all, is one that nothing reaches.

    >>> most(100), most(None)
    (100, 1000000000)
    """
    return EVERY if limit is None else limit


class Slot(NamedTuple):
    """A slot that is to become a run, and the instant after which it no longer should (None: never)."""

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
    """The fates of all slots of one schedule in (start, end].

    `start` is the watermark that the window continues from, `end` the new one. `next_at` is the first slot
    after `end`; None when there is none, or when it depends on the end of a run that is still open.
    """

    schedule_id: str
    start: Micros
    end: Micros
    next_at: Micros | None
    slots: Sequence[Slot] = ()
    skips: Sequence[SkipRange] = ()
    delay: Micros | None = None  # for a fixed delay: how long after its run's end the next slot lies
    targets: tuple[str, ...] = ("",)  # one run of each slot for each of these nodes; "": for anybody


ExceptReason = Literal["moved", "cancelled"]


class FateAhead(NamedTuple):
    """An exception of a schedule: a slot whose fate was given before its time came."""

    slot_at: Micros
    reason: str
    recorded: bool = False  # whether the ledger has its entry: a skipped run, or a skip
    run_id: int | None = None  # the run that takes its place


@dataclass(slots=True)
class ScheduleState:
    """What the store knows of one schedule.

    Every slot up to `watermark` has a fate. `origin` is the instant at which the schedule was created. `next_at`
    is None for a schedule without further slots, and for a fixed delay while its run is open. `exceptions` are in the
    order of their slots; those of long ago are forgotten.
    """

    record: JobRecord
    schedule_id: str
    origin: Micros
    watermark: Micros
    next_at: Micros | None
    last_end: Micros | None
    exceptions: tuple[FateAhead, ...] = ()


class Excepted(NamedTuple):
    """What `except_slot` did: the slot will not run, and which run takes its place, if any."""

    schedule_id: str
    slot_at: Micros
    reason: ExceptReason
    run_id: int | None

    @property
    def slot(self) -> datetime:
        """The slot as people see it."""
        return to_datetime(self.slot_at)


class Paused(NamedTuple):
    """What `pause` did."""

    record: JobRecord
    withdrawn: int
    skipped: int
    held: int


class Resumed(NamedTuple):
    """What `resume` did, or would do: slots that become runs, slots that will not, and held runs that are free."""

    record: JobRecord
    slots: tuple[Micros, ...] = ()
    skips: tuple[SkipRange, ...] = ()
    released: int = 0


class CancelAnswer(NamedTuple):
    """What became of a request to cancel: `cancelled` now, `asked` because it runs, the state that it `ended` in
    before, or `unknown`."""

    kind: Literal["cancelled", "asked", "ended", "unknown"]
    state: RunState | None = None


class Due(NamedTuple):
    """Schedules whose next slot lies within the look-ahead, and whether there are more."""

    schedules: list[ScheduleState]
    more: bool


class ScheduleCursor(NamedTuple):
    """Behind this schedule, in the order of next slots."""

    next_at: Micros
    job_id: int
    schedule_id: str


class NextSchedules(NamedTuple):
    """Schedules in the order of their next slots, and where the next ones begin (None: that was all)."""

    schedules: list[ScheduleState]
    next: ScheduleCursor | None


@dataclass(slots=True)
class PutJob:
    """What `put_job` did."""

    record: JobRecord
    change: Literal["created", "changed", "unchanged"]
    planned: int = 0
    withdrawn: int = 0
    pause: Literal["", "pause", "resume"] = ""  # what was done besides, because the job's file says so


@dataclass(slots=True)
class Ask:
    """What a worker asks of `reserve`.

    Work already due is reserved and armed at once: one run for each of the free `seats`, and up to `extra` more
    of the jobs in `quick`, whose runs are so short that they will find a seat in a moment. Work due within
    `horizon` is reserved ahead, at most `ahead` runs. `lease_ids` must hold `seats + extra + ahead` ids, each
    never used before.
    """

    incarnation: str
    lease_ids: Sequence[str]
    seats: int
    ahead: int = 0
    extra: int = 0
    quick: frozenset[int] = frozenset()
    horizon: Micros = 0
    lapse: Micros = 500_000
    queues: Sequence[str] = ("default",)
    labels: frozenset[str] = frozenset()  # what this worker offers
    tasks: frozenset[str] = frozenset()  # the names of what this worker can do, as `ability_of` gives them
    number: int = 0  # of this ask, growing with each one of its incarnation; see `held`


@dataclass(slots=True)
class Reserved:
    """What a worker got. `look_again_at` is when something else may become free; None: nothing is waiting."""

    now: Micros
    armed: list[Lease] = field(default_factory=list)
    held: list[Lease] = field(default_factory=list)
    look_again_at: Micros | None = None


@dataclass(slots=True)
class Node:
    """One registered process. A new incarnation at every boot, so that a reused name inherits nothing."""

    id: str
    incarnation: str
    host: str = ""
    pid: int = 0
    roles: tuple[str, ...] = ("planner", "worker")
    queues: tuple[str, ...] = ()  # that its worker serves
    labels: tuple[str, ...] = ()  # that it offers
    tasks: tuple[str, ...] = ()  # that it can do
    seats: int = 0
    draining: bool = False  # somebody has asked it to take no more work
    registered_at: Micros = 0
    lease_until: Micros = 0
    left_at: Micros | None = None
    ttl: Micros = 0  # of its lease, as it was last renewed
    tzdata: str = ""  # the version of its zone data, such as 2025b


class Beat(NamedTuple):
    """The answer to a heartbeat: the store's clock, the lease's new end, and the running attempts of this
    incarnation that somebody asks to stop (lease id, why). `draining`: it is to take no more work."""

    now: Micros
    lease_until: Micros
    cancels: tuple[tuple[str, str], ...] = ()
    draining: bool = False


@dataclass(slots=True)
class Term:
    """A planner's right to plan one shard of a layout until `until`. Numbers only grow, over all layouts.

    `tzdata` is the version of its node's zone data; `zones` the one that all next slots of the shard were computed with
    when the term began, or when that was last done anew (empty: nobody knows).
    """

    shard: int
    number: int
    incarnation: str
    until: Micros
    layout: int = 1
    tzdata: str = ""
    zones: str = ""
