"""What must be true of several nodes on one file, by the handlers' own journal."""

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
    """One attempt, as its handler saw it."""

    start: int
    end: int
    run: int
    fence: int
    node: str
    slot: int


def check_all(evidence: Evidence, faults: list[Fault], *, lease: float, lost: bool = True) -> None:
    """Every rule of the crash tests, and that no job overlaps itself. `lost`: some attempt must have been lost."""
    crash.every_acknowledged_run_exists_and_has_ended(evidence)
    crash.every_slot_has_exactly_one_fate(evidence)
    crash.every_start_is_recorded(evidence)
    crash.no_succeeded_run_executes_again(evidence)
    crash.nothing_starts_early(evidence)
    seen = crash.lost_attempts_follow_their_guarantee(evidence)
    assert seen or not lost, "no attempt was ever lost: the faults have shown nothing"
    no_job_overlaps_itself(evidence, faults, margin=settings("", lease).margin)


def spans(evidence: Evidence, job: str, faults: list[Fault]) -> list[Span]:
    """The attempts of a job, by fence. One without an end raised an error, and has its end on record; or was killed."""
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
    """With wait, [start, end] of two attempts of a job meet only if the older one's node was out for longer than
    its margin: frozen, or kept from the store by somebody who was frozen inside a write."""
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
    """Without faults: as many starts as slots, one each, but for those that were given back when all nodes stopped, and
    wait. A node that was `cut_off` from its store stopped what it ran, and began it anew: each slot was brought to its
    end once."""
    step = {STEADY: 100_000, DEEP: 500_000}[job]
    runs = [run for run in evidence.runs.values() if run.job == job and run.state is RunState.SUCCEEDED]
    assert len(runs) * step > SECOND, "too few slots to show anything"
    seen = evidence.ends if cut_off else evidence.starts
    twice = [run.id for run in runs if len(seen[run.id]) != 1]
    assert not twice, f"{job}: not executed exactly once: {twice}"
    by_slot: dict[int, int] = defaultdict(int)
    for run in runs:
        by_slot[run.slot_at] += 1
    waiting = {run.slot_at for run in evidence.runs.values() if run.job == job and run.state is RunState.SCHEDULED}
    slots = [slot for slot in range(min(by_slot), max(by_slot) + 1, step) if slot not in waiting]
    assert by_slot == dict.fromkeys(slots, 1), f"{job}: slots without a run, or with two"


def lateness(evidence: Evidence, job: str = STEADY, *, since: int = 0, until: int = 2**62, but: str = "") -> list[int]:
    """How late each slot in (since, until) started on other nodes than `but`, in microseconds."""
    return [
        start["at"] - start["slot"]
        for starts in evidence.starts.values()
        for start in starts
        if start["job"] == job and since < start["slot"] < until and start["node"] != but
    ]


def middle(values: list[int]) -> float:
    """The median, in seconds."""
    assert values
    return median(values) / SECOND
