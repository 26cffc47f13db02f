"""Defines the run, which is one thing to be executed: its states, its legal moves, and the right to act on it.

                 ┌────────── retry, recovery, release ───────────┐
                 ▼                                               │
    plan ──▶ scheduled ──reserve──▶ reserved ──arm──▶ running ───┤
    submit     │  │ └──── reserve and arm at once ─────▶ ▲       ├──▶ succeeded
               │  │                    │                         ├──▶ dead        (no tries left)
               │  └── release ◀────────┘                         ├──▶ lost        (at_most_once, node gone)
               │                                                 └──▶ cancelled
               └──▶ skipped (missed …), cancelled, dead

A run that meets a closed gate or a rate returns to `scheduled` (`blocked_on`), and is reserved again later. A run never
leaves a terminal state. A rerun of a finished run is a new run. A slot's run that lies ahead and was never armed may
also be *withdrawn* (its row is deleted), but only by an edit or a pause.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from onthedot.clock import Micros, to_datetime
from onthedot.model.job import JobRecord
from onthedot.model.rate import RateGate
from onthedot.model.route import DEFAULT_QUEUE as DEFAULT_QUEUE
from onthedot.model.route import Priority


class RunState(StrEnum):
    """The state of a run. A member is equal to its text: `"dead" == RunState.DEAD`.

    >>> import asyncio, onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job
    ... async def report() -> None:
    ...     raise ValueError("no data")
    >>> async def main() -> None:
    ...     async with sched:
    ...         run = await sched.submit("report")
    ...         try:
    ...             await run.result(timeout="10s")
    ...         except otd.RunFailed:
    ...             print([dead.error for dead in await sched.list_runs(states=[otd.RunState.DEAD])])
    >>> asyncio.run(main())
    ['ValueError: no data']
    """

    SCHEDULED = "scheduled"
    RESERVED = "reserved"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    LOST = "lost"
    SKIPPED = "skipped"


MOVES: dict[RunState, frozenset[RunState]] = {
    RunState.SCHEDULED: frozenset(
        {RunState.RESERVED, RunState.RUNNING, RunState.SKIPPED, RunState.CANCELLED, RunState.DEAD}
    ),
    RunState.RESERVED: frozenset({RunState.RUNNING, RunState.SCHEDULED, RunState.SKIPPED, RunState.CANCELLED}),
    RunState.RUNNING: frozenset(
        {RunState.SUCCEEDED, RunState.DEAD, RunState.CANCELLED, RunState.LOST, RunState.SCHEDULED}
    ),
    RunState.SUCCEEDED: frozenset(),
    RunState.DEAD: frozenset(),
    RunState.CANCELLED: frozenset(),
    RunState.LOST: frozenset(),
    RunState.SKIPPED: frozenset(),
}
"""Every legal move. The contract suite holds each store to this table."""

TERMINAL: frozenset[RunState] = frozenset(state for state, moves in MOVES.items() if not moves)
LIVE: frozenset[RunState] = frozenset(MOVES) - TERMINAL


SLOT_PREFIX = "schedule:"
MANUAL_PREFIX = "manual:"
BACKFILL_PREFIX = "backfill:"
AFTER_PREFIX = "after:"
RERUN_PREFIX = "rerun:"


HIGHEST_RUN = 2**53
"""The highest number that a store gives to a run."""


def stored_number(run_id: int) -> int:
    """Return the number of a run for a store. If no store can hold the number, return 0, which no run has.

    >>> stored_number(41), stored_number(10**22)
    (41, 0)
    """
    return int(run_id) if 0 < run_id <= HIGHEST_RUN else 0


def slot_trigger(schedule_id: str) -> str:
    """Return the trigger of a run of a schedule."""
    return SLOT_PREFIX + schedule_id


def submit_trigger(token: str) -> str:
    """Return the trigger of a submitted run."""
    return f"submit:{token}"


def manual_trigger(token: str) -> str:
    """Return the trigger of a run that a person requested."""
    return f"{MANUAL_PREFIX}{token}"


def after_trigger(run_id: int) -> str:
    """Return the trigger of a run that follows another run's end."""
    return f"{AFTER_PREFIX}{run_id}"


def backfill_trigger(schedule_id: str) -> str:
    """Return the trigger of a backfilled run. Its instant is the past slot."""
    return BACKFILL_PREFIX + schedule_id


def rerun_trigger(run_id: int) -> str:
    """Return the trigger of a run that repeats a finished one."""
    return f"{RERUN_PREFIX}{run_id}"


def is_slot(trigger: str) -> bool:
    """True if the run comes from a schedule."""
    return trigger.startswith(SLOT_PREFIX)


def is_manual(trigger: str) -> bool:
    """True if a person requested the run, or moved a slot there."""
    return trigger.startswith(MANUAL_PREFIX)


def schedule_of(trigger: str) -> str:
    """Return the id of the schedule that the run comes from."""
    return trigger.removeprefix(SLOT_PREFIX)


@dataclass(slots=True)
class NewRun:
    """A run that is submitted. It does not come from a schedule."""

    job_id: int
    trigger: str
    due_at: Micros
    args: str | None = None  # canonical JSON, or None for the job's own arguments
    key: str = ""  # the same key means the same run, also with another trigger or instant
    expires_at: Micros | None = None  # a run that has not started by then is skipped
    slot_at: Micros | None = None  # the instant in its key, if it differs from `due_at`; a backfill sets it
    revision: int | None = None  # of the job that the caller has checked; None: the current one
    is_new: bool = False  # the trigger is new, so the store need not look for its run

    @property
    def instant(self) -> Micros:
        """The instant in the key of the run."""
        return self.due_at if self.slot_at is None else self.slot_at


class Checkpoint(NamedTuple):
    """The progress of a run that its handler has saved, as JSON text. `revision` counts all checkpoints of the run."""

    revision: int
    value: str


class Progress(NamedTuple):
    """The amount of a run that is done, and the total amount if the handler knows it."""

    done: float
    of: float | None = None


@dataclass(slots=True)
class Lease:
    """The right to act on one attempt of one run, with everything that its holder needs."""

    lease_id: str
    run_id: int
    record: JobRecord  # shared by all leases of this revision
    trigger: str
    slot_at: Micros
    due_at: Micros
    args: str | None
    attempt: int  # the number of this attempt; counted when it is armed
    failures: int  # attempts that failed before this one
    recoveries: int  # attempts that were lost with their node before this one
    incarnation: str
    created_at: Micros
    reserved_at: Micros
    armed_at: Micros = 0
    fence: int = 0
    target: str = ""
    queue: str = DEFAULT_QUEUE
    level: int = 1  # of its priority
    checkpoint: Checkpoint | None = None  # the newest checkpoint of an earlier attempt


class Gate(NamedTuple):
    """A gate that a run must pass to start. At most `capacity` runs hold `key` at a time.

    An overlap gate is held `until_end`: also during back-off, until the terminal state. Other gates are held only while
    the run is running.
    """

    key: str
    capacity: int
    until_end: bool = False


class OnBusy(NamedTuple):
    """The rule for a run that is due while another run holds its overlap gate. At all other gates, every run waits.

    `overdue` is the rule for a slot that is overdue together with others of its schedule. It is empty for other runs.
    `wait`: the run starts in the order of instants, waits without being counted, and is not replaced. `missed` and
    `replaced`: the run is skipped for this reason if a newer slot of its schedule is due. `late` means that the slot
    did not come at its time. Otherwise the store checks if other slots are overdue too.
    """

    action: Literal["wait", "skip", "replace"]
    max_waiting: int | None = None  # None: no limit
    overdue: Literal["", "wait", "missed", "replaced"] = ""
    late: bool = False


class GateAsk(NamedTuple):
    """The request of `arm` about gates. It takes `gates` in this order, and the rate last. `on_busy` is the rule if a
    gate is held. None: `arm` only reports it."""

    gates: tuple[Gate, ...]
    on_busy: OnBusy | None = None
    rate: RateGate | None = None


class Armed(NamedTuple):
    """The answer of `arm`: go. The attempt is committed, and user code may start at the due time."""

    fence: int
    attempt: int
    armed_at: Micros


EDITED = "edited"
"""A reason of `Gone`: the job was edited, and the run is still reserved under this lease. Release the lease to free the
run."""


class Gone(NamedTuple):
    """The answer of `arm`: no. The run was taken, withdrawn or expired, or its job was edited in the meantime."""

    reason: str


class Busy(NamedTuple):
    """The answer of `arm`: not now. The gate is held, or another run comes first and is busy. Nothing was changed."""

    gate: str
    holder: int  # the id of a run that holds it; 0 for a rate, which no run holds


class Blocked(NamedTuple):
    """The answer of `arm`: later. The reservation has ended. The run waits until the gate opens."""

    gate: str
    holder: int


class Delayed(NamedTuple):
    """The answer of `arm`: at another time. The reservation has ended. The run is due when its rate allows."""

    gate: str
    until: Micros


class Skipped(NamedTuple):
    """The answer of `arm`: never. The run is skipped."""

    gate: str
    holder: int  # the run that caused it; 0: a newer slot that is not planned yet
    reason: str = "overlap"


def why_skipped(reason: str, other: int) -> str:
    """Return text that names the run because of which a slot was skipped.

    >>> why_skipped("overlap", 7)
    'run 7 of this job had not ended'
    """
    if reason == "overlap":
        return f"run {other} of this job had not ended"
    if not other:
        return "a newer slot was due"
    return f"run {other} replaced it" if reason == "replaced" else f"run {other} is for a newer slot"


ArmAnswer = Armed | Gone | Busy | Blocked | Delayed | Skipped


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A live or finished run, as people see it. Its instants are microseconds. The properties `slot`, `due`, `started`
    and `ended` are the same instants as datetimes in UTC."""

    id: int
    job: str
    namespace: str
    trigger: str
    slot_at: Micros
    due_at: Micros
    state: RunState
    reason: str
    attempts: int
    failures: int
    recoveries: int
    created_at: Micros
    armed_at: Micros | None = None
    started_at: Micros | None = None
    ended_at: Micros | None = None
    error: str | None = None
    result: str | None = None
    queue: str = DEFAULT_QUEUE
    priority: Priority = "normal"
    target: str = ""
    progress: Progress | None = None  # the newest report of an attempt
    args: str | None = None  # canonical JSON; None: the job's own
    settled: str = ""  # of a dead run: `replayed:<run id>`, `discarded:<why>`, or empty
    owner: str = ""  # the current owner of its job
    node: str = ""  # current or last node; empty if none
    revision: int = 0  # of the job, for the current or last attempt; 0: no attempt yet
    job_id: int = field(default=0, compare=False)  # another job can reuse a name, but not an id; 0: a server sent it

    @property
    def origin(self) -> int | None:
        """The run that this run repeats. None if it is not a rerun."""
        number = self.trigger.removeprefix(RERUN_PREFIX).partition(":")[0]
        return int(number) if self.trigger.startswith(RERUN_PREFIX) and number.isdecimal() else None

    @property
    def slot(self) -> datetime:
        """The instant that the run is for."""
        return to_datetime(self.slot_at)

    @property
    def due(self) -> datetime:
        """The time at which the run is due. A retry is due later than its slot."""
        return to_datetime(self.due_at)

    @property
    def started(self) -> datetime | None:
        """The time at which the last attempt of a finished run called its handler. None if the run has not ended, or
        never started."""
        return None if self.started_at is None else to_datetime(self.started_at)

    @property
    def running_since(self) -> Micros | None:
        """The time at which the running attempt was armed, or its due time if that is later. None if none runs."""
        if self.state is not RunState.RUNNING or self.armed_at is None:
            return None
        return max(self.armed_at, self.due_at)

    @property
    def ended(self) -> datetime | None:
        """The time at which the run ended. None if it has not ended."""
        return None if self.ended_at is None else to_datetime(self.ended_at)


@dataclass(frozen=True, slots=True)
class WaitReason:
    """The facts that explain why a live run waits, in addition to its `RunRecord`. A field that does not apply is
    empty."""

    run_id: int
    expires_at: Micros | None = None  # a run that has not started by then is skipped
    node: str = ""  # the node that has reserved it or executes it
    incarnation: str = ""
    reserved_at: Micros | None = None
    fence: int = 0
    gate: str = ""  # the closed gate that it waits at
    holders: tuple[int, ...] = ()  # the runs that hold the gate
    granted_at: Micros | None = None  # the instant that a rate gave to it
    for_leader: bool = False  # it waits for the leader to choose a worker
    place: str = ""  # the incarnation that the leader chose
    cancel_wanted: str | None = None  # the reason of a requested cancellation


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One finished attempt: its node, its revision and lease, its times and its outcome."""

    run_id: int
    attempt: int
    lease_id: str
    fence: int
    node: str
    revision: int
    outcome: str
    error: str | None
    due_at: Micros
    reserved_at: Micros
    armed_at: Micros
    started_at: Micros | None
    ended_at: Micros


@dataclass(frozen=True, slots=True)
class SkipRecord:
    """A range of slots of one schedule that will not run, with their number and the reason."""

    job: str
    schedule_id: str
    first: Micros
    last: Micros
    count: int
    reason: str
    recorded_at: Micros
