"""Sample events with round numbers: everything is due at 12:00:00 UTC on New Year's Day 2026."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onthedot.clock import MILLISECOND, SECOND, Micros
from onthedot.model.events import (
    AttemptEnded,
    AttemptStarted,
    AuditSealed,
    ClockOff,
    ClockStepped,
    CommittedBefore,
    DrainBegun,
    Event,
    EventsLeftOut,
    GatesRecounted,
    HistoryPruned,
    HookFailed,
    JobPut,
    JobResumed,
    KeyExpires,
    LeaseLost,
    NodeBack,
    NodeCutOff,
    NodeDraining,
    NodeFenced,
    NodeJoined,
    NodeLate,
    NodeLeft,
    OutputNotKept,
    OutputsLost,
    OutputsPruned,
    RunBlocked,
    RunDelayed,
    RunMissed,
    RunProgressed,
    RunRecovered,
    RunsBackfilled,
    RunSkipped,
    RunsPlaced,
    RunsPlanned,
    RunsReplayed,
    SlotsSkipped,
    StoreLost,
    StoreTrouble,
    TermEnded,
    TermWon,
    ZombieHandler,
)
from onthedot.model.job import Call, Job, JobRecord, JobState, Retry
from onthedot.model.run import Lease, Progress, RunRecord, RunState
from onthedot.model.verdict import Finish, OutcomeKind, Verdict

NOON: Micros = 1_767_268_800 * SECOND
LATE = 1_200  # 1.2 ms
SUCCEEDED = Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED)
LOST = Verdict(RunState.SCHEDULED, OutcomeKind.LOST, "recovered", due_at=NOON, recovered=True, error="stopped")


def lease(*, name: str = "import", retry: Retry | None = None, **fields: Any) -> Lease:
    record = JobRecord(
        1, 3, Job(name=name, task=Call(handler=name), retry=retry or Retry()), JobState.ACTIVE, NOON, NOON
    )
    made = Lease(
        lease_id="lease", run_id=41, record=record, trigger="schedule:s", slot_at=NOON, due_at=NOON, args=None,
        attempt=1, failures=0, recoveries=0, incarnation="boot", created_at=NOON, reserved_at=NOON, fence=7,
    )  # fmt: skip
    return replace(made, **fields)


def started(late: Micros = LATE, **fields: Any) -> AttemptStarted:
    made = lease(**fields)
    return AttemptStarted(made, made.due_at + late)


def finish(verdict: Verdict = SUCCEEDED, *, began: bool = True, **fields: Any) -> Finish:
    """An attempt that took 50 ms."""
    made = lease(**fields)
    return Finish(made, verdict, made.due_at if began else 0, made.due_at + 50 * MILLISECOND)


def missed(run_id: int = 41, *, due_at: Micros = NOON, job: str = "import") -> RunMissed:
    run = RunRecord(
        run_id, job, "default", "schedule:s", due_at, due_at, RunState.SKIPPED, "missed", 0, 0, 0, NOON, ended_at=NOON
    )
    return RunMissed(run)


def failure(**fields: Any) -> Verdict:
    made = Verdict(
        RunState.SCHEDULED,
        OutcomeKind.FAILED,
        "retry",
        due_at=NOON + 3_250 * MILLISECOND,
        failed=True,
        error="OSError: no",
    )
    return made._replace(**fields)


ONE_OF_EACH: tuple[Event, ...] = (
    NodeJoined("one", "boot", NOON),
    NodeLeft("one", 0),
    NodeFenced("one", "boot", 2),
    NodeCutOff("one", "boot", 2),
    ClockOff("one", -90 * SECOND, 1_000),
    ClockStepped(400 * SECOND),
    NodeLate("two", "boot", NOON + 6 * SECOND),
    NodeBack("two", "boot"),
    NodeDraining("one", True),
    RunsPlaced(3, 1),
    TermWon(0, 4),
    TermEnded(0, 4),
    JobPut("import", "created", 1, 6, 0),
    RunsPlanned("import", "s", 6, NOON, NOON + 25 * SECOND),
    RunsBackfilled("import", 500, 1_200),
    RunsReplayed(500, 1_200),
    SlotsSkipped("import", "s", 14, NOON - 70 * SECOND, NOON - 5 * SECOND, "missed"),
    started(),
    RunProgressed(lease(), Progress(3, 10)),
    AttemptEnded(finish()),
    LeaseLost(finish()),
    RunRecovered(lease(), LOST),
    missed(),
    JobResumed("import", 2, 5, 1),
    RunBlocked(lease(), "overlap:1:", 7),
    RunDelayed(lease(), "rate:job:1:", NOON + 2_500 * MILLISECOND),
    RunSkipped(lease(), "overlap:1:", 7),
    GatesRecounted(1),
    HistoryPruned(12_345, 2, 1),
    OutputNotKept(41, 2, "s3://b cannot be used: no", 2_000 * MILLISECOND),
    OutputsLost(3, 5 << 20),
    OutputsPruned(7),
    AuditSealed(12, 3, "0af3"),
    KeyExpires("3f0c9a1b2d4e5f6", "ci", NOON + 14 * 86_400 * SECOND),
    ZombieHandler(lease(), 2),
    CommittedBefore(lease(), "OSError: no"),
    HookFailed("import", "on_dead", "OSError: no"),
    StoreTrouble("reserver", "the disk is full", 300 * MILLISECOND),
    StoreLost(40, 42, 3),
    DrainBegun(2),
    EventsLeftOut(3),
)
