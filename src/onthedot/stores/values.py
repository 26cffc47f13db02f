"""The values that go into a store and come out of it. `protocol.py` uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from onthedot.clock import Micros, to_datetime
from onthedot.ids import LeaseIds
from onthedot.model.job import JobRecord
from onthedot.model.retention import Mark
from onthedot.model.run import Lease, Progress, RunState
from onthedot.model.window import ExceptReason, ScheduleState, SkipRange

EVERY = 10**9
"""As a limit: all there are."""

ONE_WRITE = 100
"""So many runs `Store.submit` stores together or not at all. More may take several writes."""

LAST_MARK = Mark(2**53, 0)
"""Behind every run that has ended: stores that count in doubles are exact up to here."""


def most(limit: int | None) -> int:
    """A limit as a number; None, which means all, is one that nothing reaches.

    >>> most(100), most(None)
    (100, 1000000000)
    """
    return EVERY if limit is None else limit


class MovedSlot(NamedTuple):
    """What `move_slot` did: the slot will not run, and which run takes its place, if any."""

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
class ReserveRequest:
    """What a worker asks of `reserve`.

    Work already due is reserved and armed at once: one run for each of the free `seats`, and up to `extra` more
    of the jobs in `quick`, whose runs are so short that they will find a seat in a moment. Work due within `horizon` is
    reserved ahead, at most `ahead` runs. `lease_ids` holds `seats + extra + ahead` ids that were never used before."""

    incarnation: str
    lease_ids: LeaseIds
    seats: int
    ahead: int = 0
    extra: int = 0
    quick: frozenset[int] = frozenset()
    horizon: Micros = 0
    lapse: Micros = 500_000
    queues: Sequence[str] = ("default",)
    labels: frozenset[str] = frozenset()  # what this worker offers
    tasks: frozenset[str] = frozenset()  # the names of what this worker can do, as `ability_of` gives them
    number: int = 0  # of this ask, growing with each one of its incarnation; see `recover`


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
    when the term began, or when that was last done anew (empty: nobody knows)."""

    shard: int
    number: int
    incarnation: str
    until: Micros
    layout: int = 1
    tzdata: str = ""
    zones: str = ""


class About(NamedTuple):
    """What a store is, and what it promises. For people: nothing is decided by it."""

    product: str  # such as PostgreSQL
    version: str
    promise: str  # what is left of what was acknowledged, when the machine that keeps it dies
    connections: int = 0  # that one event loop of a node may have open at the most; 0: none are counted
    caution: str = ""  # what can go wrong with this configuration, and after a semicolon what to do; empty: nothing


class Note(NamedTuple):
    """Progress and logs of a running attempt. `log` is everything logged so far; the sender bounds it.

    `number` grows with each note of the attempt, so that one which was late on its way replaces nothing newer."""

    lease: Lease
    number: int
    progress: Progress | None = None
    log: str | None = None


class LogRecord(NamedTuple):
    """What one attempt of a run has logged."""

    attempt: int
    text: str


class Parent(NamedTuple):
    """A job that another runs after. `run_id` is the newest of its runs that counts and has not been used: None if
    there is none, and always None with `any`, which uses each at once."""

    name: str
    run_id: int | None = None
    ended_at: Micros | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """A named line of runs. Every name is a queue; this is its state: pause, shares, and its runs.

    With `weights`, it is shared fairly: between the values of the argument that jobs name as their `share`, each with
    its weight (1 for those that are not named)."""

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


class Layout(NamedTuple):
    """How many shards the buckets are divided into. The version grows with each change."""

    version: int = 1
    shards: int = 1


class Replanned(NamedTuple):
    """A schedule whose next slot was computed again: the schedule as it was read, and the slot."""

    job_id: int
    schedule_id: str
    revision: int
    watermark: Micros
    next_at: Micros | None


class Held(NamedTuple):
    """How many runs an incarnation has reserved, and how many it executes."""

    reserved: int = 0
    running: int = 0


class Owned(NamedTuple):
    """How many jobs an owner has, and how many runs of these jobs have not ended."""

    jobs: int = 0
    runs: int = 0
