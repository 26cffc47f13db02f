"""What must be true of a cluster whatever was done to it, by what the jobs themselves have noted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onthedot.clock import SECOND
from onthedot.model.run import TERMINAL, RunState
from tests.chaos.evidence import Evidence, Start
from tests.chaos.node import CAREFUL, DEEP, ERRAND, STEP, TICK


def check_all(evidence: Evidence) -> None:
    """What holds under every fault."""
    assert not evidence.violations, "\n".join(map(str, evidence.violations[:20]))
    nothing_acknowledged_is_lost(evidence)
    every_slot_has_one_fate(evidence)
    nothing_starts_early(evidence)
    what_succeeded_came_to_its_end_once(evidence)
    careful_jobs_start_at_most_once(evidence)


def nothing_acknowledged_is_lost(evidence: Evidence) -> None:
    missing = [run for run in evidence.notes.acknowledged if run not in evidence.runs]
    assert not missing, f"acknowledged, but gone: {missing[:9]}"
    not_done = [run for run in evidence.notes.acknowledged if evidence.runs[run].state is not RunState.SUCCEEDED]
    assert not not_done, f"acknowledged, but not done: {not_done[:9]}"


def every_slot_has_one_fate(evidence: Evidence) -> None:
    """From the first slot of a job to the last one that was waited for: one run each, and it has ended."""
    slots: dict[str, Counter[int]] = {record.job.name: Counter() for record in evidence.jobs}
    for run in evidence.runs.values():
        if run.trigger.startswith("schedule:") and run.slot_at <= evidence.until:
            slots[run.job][run.slot_at] += 1
            assert run.state in TERMINAL, f"{run.job}, slot {run.slot_at}: still {run.state}"
    for skip in evidence.skips:
        slots[skip.job].update(range(skip.first, skip.last + 1, STEP))
    for job, seen in slots.items():
        if job == ERRAND:
            continue
        assert len(seen) > 3, f"{job}: too few slots to show anything"
        expected = set(range(min(seen), evidence.until + 1, STEP))
        assert seen.keys() == expected, f"{job}: {sorted(seen.keys() ^ expected)[:9]} have no fate, or no business"
        assert set(seen.values()) == {1}, f"{job}: planned twice: {[slot for slot, n in seen.items() if n > 1][:9]}"


def nothing_starts_early(evidence: Evidence) -> None:
    early = [start for start in evidence.notes.starts if start.late < 0]
    assert not early, f"{len(early)} starts were early: {early[:5]}"


def what_succeeded_came_to_its_end_once(evidence: Evidence) -> None:
    """Nothing that has succeeded is executed again."""
    ends = Counter(run for run, _ in evidence.notes.ends)
    for run in evidence.runs.values():
        if run.state is RunState.SUCCEEDED:
            attempts = evidence.attempts[run.id]
            outcomes = [attempt.outcome for attempt in attempts]
            assert outcomes.count("succeeded") == 1, f"run {run.id}: {outcomes}"
            assert outcomes[-1] == "succeeded", f"run {run.id}: {outcomes}"
            assert (run.id, attempts[-1].fence) in evidence.notes.ends, f"run {run.id} succeeded without an end"
            assert ends[run.id] <= len(attempts)


def careful_jobs_start_at_most_once(evidence: Evidence) -> None:
    starts = Counter(start.run for start in evidence.notes.starts if start.job.startswith(CAREFUL))
    twice = [run for run, count in starts.items() if count > 1]
    assert not twice, f"at most once, but started more often: {twice[:9]}"


def every_slot_started_exactly_once(evidence: Evidence) -> int:
    """No node that executes was touched: one start for each slot. How many there were."""
    wanted = [run for run in evidence.runs.values() if _counts(run.job, run.slot_at, evidence)]
    starts = Counter(start.run for start in evidence.notes.starts)
    wrong = [(run.job, run.slot_at, starts[run.id]) for run in wanted if starts[run.id] != 1]
    assert not wrong, f"{len(wrong)} slots did not start exactly once: {wrong[:9]}"
    return len(wanted)


def _counts(job: str, slot: int, evidence: Evidence) -> bool:
    return job != ERRAND and slot <= evidence.until


# ── lateness ─────────────────────────────────────────────────────────────────────────────────────────────────


def ticks(evidence: Evidence, since: int, until: int) -> list[Start]:
    """The first start of each slot in [since, until] of the jobs that take no time."""
    first: dict[int, Start] = {}
    for start in evidence.notes.starts:
        if start.job.startswith(TICK) and since <= start.slot <= until:
            first.setdefault(start.run, start)
    return list(first.values())


def lateness(starts: Iterable[Start]) -> list[float]:
    """In seconds, the least first."""
    found = sorted(start.late / SECOND for start in starts)
    assert found, "no starts to judge"
    return found


def taken_up_again(evidence: Evidence, node: str, at: int) -> list[float]:
    """How many seconds after an instant each execution that a node had not ended by then was begun anew elsewhere."""
    ends = evidence.notes.ends
    cut = {
        start.run
        for start in evidence.notes.starts
        if start.node == node and start.at <= at and ends.get((start.run, start.fence), at + 1) > at
        and start.job.startswith(DEEP)
    }  # fmt: skip
    again = [start for start in evidence.notes.starts if start.run in cut and start.node != node]
    assert cut <= {start.run for start in again}, f"not taken up again: {cut - {start.run for start in again}}"
    return [(start.at - at) / SECOND for start in again]
