"""Checks that must hold for several nodes on one file, whatever was done to them.

They read the journal that the handlers write, not only the store.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import NamedTuple

from onthedot.model.run import RunState
from tests.crash import verdicts as crash
from tests.crash.kit import Evidence
from tests.processes.kit import SECOND, Fault
from tests.processes.node import DEEP, STEADY, settings

WAITING_JOBS = ("always", "careful", "long", "stubborn")


class Span(NamedTuple):
    """One attempt, as its handler recorded it."""

    start: int
    end: int
    run: int
    fence: int
    node: str
    slot: int


def check_all(evidence: Evidence, faults: list[Fault], *, lease: float, lost: bool = True) -> None:
    """Check the rules of the crash tests, and that no job overlaps itself. `lost`: some attempt must have been lost."""
    crash.every_acknowledged_run_exists_and_has_ended(evidence)
    crash.every_slot_has_exactly_one_fate(evidence)
    crash.every_start_is_recorded(evidence)
    crash.no_succeeded_run_executes_again(evidence)
    crash.nothing_starts_early(evidence)
    seen = crash.lost_attempts_follow_their_guarantee(evidence)
    assert seen or not lost, "expected a lost attempt: without one the faults prove nothing"
    no_job_overlaps_itself(evidence, faults, margin=settings("", lease).margin)


def spans(evidence: Evidence, job: str, faults: list[Fault]) -> list[Span]:
    """Return the attempts of a job, ordered by fence.

    The handler of an attempt that failed or was killed wrote no end. Then the end is that of the store or of the kill.
    """
    kills = {fault.node: fault.end for fault in faults if fault.kind == "kill"}
    ends = {
        (run, attempt.fence): attempt.ended_at
        for run, attempts in evidence.attempts.items()
        for attempt in attempts
        if attempt.outcome != "lost"
    }
    ends |= {(e["run"], e["fence"]): e["at"] for ends in evidence.ends.values() for e in ends}
    found = []
    for starts in evidence.starts.values():
        for s in starts:
            if s["job"] == job:
                node = s["node"]
                end = ends.get((s["run"], s["fence"])) or max(kills.get(node, 0), s["at"])
                found.append(Span(s["at"], end, s["run"], s["fence"], node, s["slot"]))
    return sorted(found, key=lambda span: span.fence)


def no_job_overlaps_itself(evidence: Evidence, faults: list[Fault], *, margin: int) -> None:
    """Check that two attempts of a job with overlap "wait" never run at the same time.

    The only excuse is that the node of the older one was out for longer than its margin: frozen, or blocked from the
    store by a process that froze inside a write.
    """
    for job in WAITING_JOBS:
        attempts = spans(evidence, job, faults)
        for number, older in enumerate(attempts):
            for newer in attempts[number + 1 :]:
                if newer.start < older.end and older.start < newer.end:
                    assert _was_out(older, newer, faults, margin), f"{job} overlaps itself: {older} and {newer}"


def _was_out(older: Span, newer: Span, faults: list[Fault], margin: int) -> bool:
    return any(
        fault.node in (older.node, "*")
        and fault.end - fault.begin > margin
        and fault.begin < newer.start
        and fault.end > older.slot
        for fault in faults
        if fault.kind == "freeze"
    )


def each_slot_executed_once(evidence: Evidence, job: str = STEADY, *, cut_off: bool = False) -> None:
    """Check that each slot of a job was started exactly once.

    Slots that were released when all nodes stopped, and still wait, do not count. A node that was `cut_off` from its
    store stopped its attempts and started them again: then each slot must have been completed exactly once.
    """
    step = {STEADY: 100_000, DEEP: 500_000}[job]
    runs = [run for run in evidence.runs.values() if run.job == job and run.state is RunState.SUCCEEDED]
    assert len(runs) * step > SECOND, "expected at least a second of slots"
    seen = evidence.ends if cut_off else evidence.starts
    twice = [run.id for run in runs if len(seen[run.id]) != 1]
    assert not twice, f"{job}: not executed exactly once: {twice}"
    by_slot: dict[int, int] = defaultdict(int)
    for run in runs:
        by_slot[run.slot_at] += 1
    waiting = {run.slot_at for run in evidence.runs.values() if run.job == job and run.state is RunState.SCHEDULED}
    slots = [slot for slot in range(min(by_slot), max(by_slot) + 1, step) if slot not in waiting]
    assert by_slot == dict.fromkeys(slots, 1), f"{job}: expected exactly one run for each slot"


def lateness(evidence: Evidence, job: str = STEADY, *, since: int = 0, until: int = 2**62, but: str = "") -> list[int]:
    """Return by how many microseconds each slot in (since, until) started late, on all nodes except `but`."""
    return [
        start["at"] - start["slot"]
        for starts in evidence.starts.values()
        for start in starts
        if start["job"] == job and since < start["slot"] < until and start["node"] != but
    ]


def middle(values: list[int]) -> float:
    """Return the median of microseconds, in seconds."""
    assert values
    return median(values) / SECOND
