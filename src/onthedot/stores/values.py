"""Defines the values that a store receives and returns. `protocol.py` uses them."""

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
"""A limit that means: all."""

ONE_WRITE = 100
"""The number of runs that `Store.submit` stores together or not at all. More runs may take several writes."""

LAST_MARK = Mark(2**53, 0)
"""A mark after every run that has ended. Stores that count in doubles are exact up to this value."""


def most(limit: int | None) -> int:
    """Return a limit as a number. None means all, and gives a number that no list reaches.

    >>> most(100), most(None)
    (100, 1000000000)
    """
    return EVERY if limit is None else limit


class MovedSlot(NamedTuple):
    """The answer of `move_slot`: the slot that will not run, and the run that takes its place, if any."""

    schedule_id: str
    slot_at: Micros
    reason: ExceptReason
    run_id: int | None

    @property
    def slot(self) -> datetime:
        """The slot as a datetime."""
        return to_datetime(self.slot_at)


class Paused(NamedTuple):
    """The answer of `pause`."""

    record: JobRecord
    withdrawn: int
    skipped: int
    held: int


class Resumed(NamedTuple):
    """The answer of `resume`, or of its dry run: slots that become runs, slots that are skipped, and released runs."""

    record: JobRecord
    slots: tuple[Micros, ...] = ()
    skips: tuple[SkipRange, ...] = ()
    released: int = 0


class CancelAnswer(NamedTuple):
    """The answer of `cancel`. `cancelled`: the run is cancelled now. `asked`: its attempt is asked to stop. `ended`:
    the run had ended before, in `state`. `unknown`: there is no such run."""

    kind: Literal["cancelled", "asked", "ended", "unknown"]
    state: RunState | None = None


class Due(NamedTuple):
    """Schedules whose next slot is within the look-ahead. `more` is True if there are others."""

    schedules: list[ScheduleState]
    more: bool


class ScheduleCursor(NamedTuple):
    """The place after this schedule, in the order of next slots."""

    next_at: Micros
    job_id: int
    schedule_id: str


class NextSchedules(NamedTuple):
    """Schedules in the order of their next slots, and the place where the next page begins (None: there is no next
    page)."""

    schedules: list[ScheduleState]
    next: ScheduleCursor | None


@dataclass(slots=True)
class PutJob:
    """The answer of `put_job`."""

    record: JobRecord
    change: Literal["created", "changed", "unchanged"]
    planned: int = 0
    withdrawn: int = 0
    pause: Literal["", "pause", "resume"] = ""  # the change of the pause that the job's file requires


@dataclass(slots=True)
class ReserveRequest:
    """The request of a worker to `reserve`.

    Due work is reserved and armed at once: one run for each of the free `seats`, and up to `extra` more of the jobs in
    `quick`. The runs of these jobs are so short that a seat will soon be free. Work due within `horizon` is reserved
    ahead, at most `ahead` runs. `lease_ids` holds `seats + extra + ahead` ids that were never used before."""

    incarnation: str
    lease_ids: LeaseIds
    seats: int
    ahead: int = 0
    extra: int = 0
    quick: frozenset[int] = frozenset()
    horizon: Micros = 0
    lapse: Micros = 500_000
    queues: Sequence[str] = ("default",)
    labels: frozenset[str] = frozenset()  # the labels that this worker offers
    tasks: frozenset[str] = frozenset()  # the abilities of this worker, as `ability_of` names them
    number: int = 0  # grows with each request of the incarnation; see `recover`


@dataclass(slots=True)
class Reserved:
    """The answer of `reserve`. `look_again_at` is the time at which more work may be available. None: no run waits."""

    now: Micros
    armed: list[Lease] = field(default_factory=list)
    held: list[Lease] = field(default_factory=list)
    look_again_at: Micros | None = None


@dataclass(slots=True)
class Node:
    """One registered process. Each start makes a new incarnation, so that a reused name inherits nothing."""

    id: str
    incarnation: str
    host: str = ""
    pid: int = 0
    roles: tuple[str, ...] = ("planner", "worker")
    queues: tuple[str, ...] = ()  # the queues that its worker serves
    labels: tuple[str, ...] = ()  # the labels that it offers
    tasks: tuple[str, ...] = ()  # its abilities
    seats: int = 0
    draining: bool = False  # a user has asked it to take no more work
    registered_at: Micros = 0
    lease_until: Micros = 0
    left_at: Micros | None = None
    ttl: Micros = 0  # the length of its lease at the last renewal
    tzdata: str = ""  # the version of its zone data, such as 2025b


class Beat(NamedTuple):
    """The answer to a heartbeat: the store's clock, the lease's new end, and the running attempts of this incarnation
    that are asked to stop (lease id, reason). `draining`: the node must take no more work."""

    now: Micros
    lease_until: Micros
    cancels: tuple[tuple[str, str], ...] = ()
    draining: bool = False


@dataclass(slots=True)
class Term:
    """A planner's right to plan one shard of a layout until `until`. Term numbers only grow, over all layouts.

    `tzdata` is the version of its node's zone data. `zones` is the version with which all next slots of the shard were
    computed, when the term began or when they were last computed again (empty: unknown)."""

    shard: int
    number: int
    incarnation: str
    until: Micros
    layout: int = 1
    tzdata: str = ""
    zones: str = ""


class About(NamedTuple):
    """Describes a store and its promises to people. No decision depends on it."""

    product: str  # such as PostgreSQL
    version: str
    promise: str  # the acknowledged writes that survive a crash of the store's machine
    connections: int = 0  # the maximum for one event loop of a node; 0: not counted
    caution: str = ""  # a risk of this configuration, and after a semicolon what to do; empty: none


class Note(NamedTuple):
    """Progress and logs of a running attempt. `log` is everything logged so far. The sender limits its size.

    `number` grows with each note of the attempt, so that a delayed note never replaces a newer one."""

    lease: Lease
    number: int
    progress: Progress | None = None
    log: str | None = None


class LogRecord(NamedTuple):
    """The log of one attempt of a run."""

    attempt: int
    text: str


class Parent(NamedTuple):
    """A job after which another job runs. `run_id` is the newest of its runs that counts and has not been used. It is
    None if there is no such run, and always None with `any`, which uses each run at once."""

    name: str
    run_id: int | None = None
    ended_at: Micros | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """A named line of runs. Every name is a queue. This value has its state: the pause, the shares, and the counts of
    its runs.

    With `weights`, the queue is shared fairly between the values of the argument that jobs name as their `share`. Each
    value has its weight (1 if none is given)."""

    name: str
    paused_at: Micros | None = None
    reason: str = ""
    weights: Mapping[str, int] | None = None
    waiting: int = 0  # runs that are scheduled or reserved
    due: int = 0  # waiting runs that are due now
    running: int = 0
    oldest_due: Micros | None = None


class Unplaced(NamedTuple):
    """A run for which the leader must choose a worker. `place` is the incarnation that was chosen before, but did not
    start the run."""

    run_id: int
    record: JobRecord
    due_at: Micros
    place: str = ""


class Placement(NamedTuple):
    """A run, and the incarnation that the leader chose for it."""

    run_id: int
    incarnation: str


class Layout(NamedTuple):
    """The number of shards that the buckets are divided into. The version grows with each change."""

    version: int = 1
    shards: int = 1


class Replanned(NamedTuple):
    """A schedule whose next slot was computed again: the state that was read, and the new slot."""

    job_id: int
    schedule_id: str
    revision: int
    watermark: Micros
    next_at: Micros | None


class Held(NamedTuple):
    """The numbers of runs that an incarnation has reserved and that it executes."""

    reserved: int = 0
    running: int = 0


class Owned(NamedTuple):
    """The number of jobs of an owner, and the number of runs of these jobs that have not ended."""

    jobs: int = 0
    runs: int = 0
