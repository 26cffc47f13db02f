"""One thing to be executed: its states, its legal moves, and the right to act on it.

                 ┌────────── retry, recovery, release ───────────┐
                 ▼                                               │
    plan ──▶ scheduled ──reserve──▶ reserved ──arm──▶ running ───┤
    submit     │  │ └──── reserve and arm at once ─────▶ ▲       ├──▶ succeeded
               │  │                    │                         ├──▶ dead        (no tries left)
               │  └── release ◀────────┘                         ├──▶ lost        (at_most_once, node gone)
               │                                                 └──▶ cancelled
               └──▶ skipped (missed …), cancelled, dead

A run that meets a closed gate or a rate goes back to `scheduled` (`blocked_on`), and is reserved again later.
Terminal states absorb: nothing ever leaves them. A rerun of a finished run is a new run.
A slot run in the future that was never armed may also be *withdrawn* (its row deleted), by an edit or a pause only.
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
    """Where a run stands. A member is its text: `"dead" == RunState.DEAD`.

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
"""No store gives a run a higher number."""


def stored_number(run_id: int) -> int:
    """A run's number for a store. It is 0, which no run has, if no store can hold the number.

    >>> stored_number(41), stored_number(10**22)
    (41, 0)
    """
    return int(run_id) if 0 < run_id <= HIGHEST_RUN else 0


def slot_trigger(schedule_id: str) -> str:
    """The trigger of a run of a schedule."""
    return SLOT_PREFIX + schedule_id


def submit_trigger(token: str) -> str:
    """The trigger of a submitted run."""
    return f"submit:{token}"


def manual_trigger(token: str) -> str:
    """The trigger of a run that a person requested."""
    return f"{MANUAL_PREFIX}{token}"


def after_trigger(run_id: int) -> str:
    """The trigger of a run that follows another run's end."""
    return f"{AFTER_PREFIX}{run_id}"


def backfill_trigger(schedule_id: str) -> str:
    """The trigger of a backfilled run. Its instant is the past slot."""
    return BACKFILL_PREFIX + schedule_id


def rerun_trigger(run_id: int) -> str:
    """The trigger of a run that repeats a finished one."""
    return f"{RERUN_PREFIX}{run_id}"


def is_slot(trigger: str) -> bool:
    """Whether the run comes from a schedule."""
    return trigger.startswith(SLOT_PREFIX)


def is_manual(trigger: str) -> bool:
    """Whether a person requested the run, or moved a slot there."""
    return trigger.startswith(MANUAL_PREFIX)


def schedule_of(trigger: str) -> str:
    """The id of the schedule that the run comes from."""
    return trigger.removeprefix(SLOT_PREFIX)


@dataclass(slots=True)
class NewRun:
    """A run that is submitted, and does not come from a schedule."""

    job_id: int
    trigger: str
    due_at: Micros
    args: str | None = None  # canonical JSON, or None for the job's own arguments
    key: str = ""  # the same key is the same run, whatever its trigger and instant
    expires_at: Micros | None = None  # not started by then: skipped
    slot_at: Micros | None = None  # the instant in its key, if that is not when it is due: what a backfill is for
    revision: int | None = None  # of its job, by which the caller has checked it; None: whichever is current
    is_new: bool = False  # its trigger was drawn for this call, so no run has it: the store need not look for one

    @property
    def instant(self) -> Micros:
        """The instant in its key."""
        return self.due_at if self.slot_at is None else self.slot_at


class Checkpoint(NamedTuple):
    """How far a run is, as its handler reported it: JSON text. `revision` counts the reports of all attempts."""

    revision: int
    value: str


class Progress(NamedTuple):
    """How much of a run is done, and of how much, if its handler knows."""

    done: float
    of: float | None = None


@dataclass(slots=True)
class Lease:
    """The right to act on one attempt of one run, with all that its holder needs."""

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
    checkpoint: Checkpoint | None = None  # the newest one: where an earlier attempt has come to


class Gate(NamedTuple):
    """What a run must pass to start: at most `capacity` runs hold `key` at a time.

    An overlap gate is held `until_end`: through back-off, to the terminal state. Others only while running.
    """

    key: str
    capacity: int
    until_end: bool = False


class OnBusy(NamedTuple):
    """What becomes of a run that is due and finds its overlap gate held; at other gates everyone waits.

    `overdue` is the rule for a slot that is overdue together with others of its schedule; empty for other runs.
    `wait`: it starts in the order of instants, waits without being counted, and is not replaced. `missed` and
    `replaced`: it is skipped for this reason if a newer slot of its schedule is due. `late` says that the slot did not
    come at its time; otherwise the store finds out whether others are overdue with it.
    """

    action: Literal["wait", "skip", "replace"]
    max_waiting: int | None = None  # None: however many
    overdue: Literal["", "wait", "missed", "replaced"] = ""
    late: bool = False


class GateAsk(NamedTuple):
    """What `arm` is to do about gates: take these, in this order, and the rate last; if one is held, do this (None: say
    so only)."""

    gates: tuple[Gate, ...]
    on_busy: OnBusy | None = None
    rate: RateGate | None = None


class Armed(NamedTuple):
    """The answer of `arm`: go. The attempt is committed, and user code may start at the due instant."""

    fence: int
    attempt: int
    armed_at: Micros


EDITED = "edited"
"""Why a run is `Gone` that is still reserved under this lease: its job is another by now. Released, it is free."""


class Gone(NamedTuple):
    """The answer of `arm`: no. The run was taken, withdrawn or expired, or its job was edited in the meantime."""

    reason: str


class Busy(NamedTuple):
    """The answer of `arm`: not now. The gate is held, or another run comes first and is busy. Nothing was changed."""

    gate: str
    holder: int  # the id of a run that holds it; 0: it is a rate, which nobody holds


class Blocked(NamedTuple):
    """The answer of `arm`: later. The reservation has ended. The run waits until the gate opens."""

    gate: str
    holder: int


class Delayed(NamedTuple):
    """The answer of `arm`: at another instant. The reservation has ended. The run is due when its rate allows."""

    gate: str
    until: Micros


class Skipped(NamedTuple):
    """The answer of `arm`: never. The run is skipped."""

    gate: str
    holder: int  # the id of the run that was in its way; 0: a newer slot, which is not planned yet
    reason: str = "overlap"


def why_skipped(reason: str, other: int) -> str:
    """Names the run that was in the way of a skipped slot.

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
    """A run as it is shown to people: live or finished. Its instants are microseconds; `slot`, `due`, `started` and
    `ended` are the same for people, in UTC."""

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
    progress: Progress | None = None  # the newest that an attempt has told
    args: str | None = None  # canonical JSON; None: the job's own
    settled: str = ""  # what was done about it, if it is dead: `replayed:<run id>` or `discarded:<why>`
    owner: str = ""  # of its job, as it is now
    node: str = ""  # that holds it, or had it last; nobody
    revision: int = 0  # of its job, that it is held under or was tried with last; 0: none yet
    job_id: int = field(default=0, compare=False)  # names can pass to another job, ids cannot; 0: a server told it

    @property
    def origin(self) -> int | None:
        """The run that this one repeats; None: it is no rerun."""
        number = self.trigger.removeprefix(RERUN_PREFIX).partition(":")[0]
        return int(number) if self.trigger.startswith(RERUN_PREFIX) and number.isdecimal() else None

    @property
    def slot(self) -> datetime:
        """The instant that it is for."""
        return to_datetime(self.slot_at)

    @property
    def due(self) -> datetime:
        """When it is due: a retry later than its slot."""
        return to_datetime(self.due_at)

    @property
    def started(self) -> datetime | None:
        """When its handler was called, in the attempt that ended it; None: it has not ended, or never began."""
        return None if self.started_at is None else to_datetime(self.started_at)

    @property
    def running_since(self) -> Micros | None:
        """When the running attempt was armed. Armed ahead, it starts when it is due. None: none runs."""
        if self.state is not RunState.RUNNING or self.armed_at is None:
            return None
        return max(self.armed_at, self.due_at)

    @property
    def ended(self) -> datetime | None:
        """When it ended; None: it has not."""
        return None if self.ended_at is None else to_datetime(self.ended_at)


@dataclass(frozen=True, slots=True)
class WaitReason:
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


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One ended attempt: who tried, under which revision and lease, when, and what came of it."""

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
    """Slots that will not run: a range of one schedule, how many, and why."""

    job: str
    schedule_id: str
    first: Micros
    last: Micros
    count: int
    reason: str
    recorded_at: Micros
