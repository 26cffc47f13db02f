"""Checks that must hold for a cluster under every fault, based on what the handlers themselves have noted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onthedot.clock import SECOND
from onthedot.model.run import TERMINAL, RunState
from tests.chaos.evidence import Evidence, Start
from tests.chaos.node import CAREFUL, DEEP, ERRAND, STEP, TICK


def check_all(evidence: Evidence) -> None:
    """Check everything that must hold under every fault."""
    assert not evidence.violations, "\n".join(map(str, evidence.violations[:20]))
    nothing_acknowledged_is_lost(evidence)
    every_slot_has_one_fate(evidence)
    nothing_starts_early(evidence)
    every_succeeded_run_ended_once(evidence)
    careful_jobs_start_at_most_once(evidence)


def nothing_acknowledged_is_lost(evidence: Evidence) -> None:
    missing = [run for run in evidence.notes.acknowledged if run not in evidence.runs]
    assert not missing, f"acknowledged, but not stored: {missing[:9]}"
    not_done = [run for run in evidence.notes.acknowledged if evidence.runs[run].state is not RunState.SUCCEEDED]
    assert not not_done, f"acknowledged, but not succeeded: {not_done[:9]}"


def every_slot_has_one_fate(evidence: Evidence) -> None:
    """Check that each slot, from the first one of its job to the last one that was awaited, has one ended run."""
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
        assert len(seen) > 3, f"{job}: expected more than three slots"
        expected = set(range(min(seen), evidence.until + 1, STEP))
        assert seen.keys() == expected, f"{job}: {sorted(seen.keys() ^ expected)[:9]} have no fate, or are no slots"
        assert set(seen.values()) == {1}, f"{job}: planned twice: {[slot for slot, n in seen.items() if n > 1][:9]}"


def nothing_starts_early(evidence: Evidence) -> None:
    early = [start for start in evidence.notes.starts if start.late < 0]
    assert not early, f"{len(early)} starts were early: {early[:5]}"


def every_succeeded_run_ended_once(evidence: Evidence) -> None:
    """Check that a run that has succeeded is not executed again."""
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
    """Check that each slot was started once (no worker had a fault). Return the number of slots."""
    wanted = [run for run in evidence.runs.values() if _counts(run.job, run.slot_at, evidence)]
    starts = Counter(start.run for start in evidence.notes.starts)
    wrong = [(run.job, run.slot_at, starts[run.id]) for run in wanted if starts[run.id] != 1]
    assert not wrong, f"{len(wrong)} slots did not start exactly once: {wrong[:9]}"
    return len(wanted)


def _counts(job: str, slot: int, evidence: Evidence) -> bool:
    return job != ERRAND and slot <= evidence.until


# ── lateness ─────────────────────────────────────────────────────────────────────────────────────────────────


def ticks(evidence: Evidence, since: int, until: int) -> list[Start]:
    """Return the first start of each slot in [since, until], of the jobs that take no time."""
    first: dict[int, Start] = {}
    for start in evidence.notes.starts:
        if start.job.startswith(TICK) and since <= start.slot <= until:
            first.setdefault(start.run, start)
    return list(first.values())


def lateness(starts: Iterable[Start]) -> list[float]:
    """Return how late these starts were, in seconds, sorted."""
    found = sorted(start.late / SECOND for start in starts)
    assert found, "no starts to judge"
    return found


def taken_up_again(evidence: Evidence, node: str, at: int) -> list[float]:
    """Return when other nodes restarted the executions that were open on a node at an instant, in seconds after it."""
    ends = evidence.notes.ends
    cut = {
        start.run
        for start in evidence.notes.starts
        if start.node == node and start.at <= at and ends.get((start.run, start.fence), at + 1) > at
        and start.job.startswith(DEEP)
    }  # fmt: skip
    again = [start for start in evidence.notes.starts if start.run in cut and start.node != node]
    assert cut <= {start.run for start in again}, f"not executed again: {cut - {start.run for start in again}}"
    return [(start.at - at) / SECOND for start in again]
