"""Checks what must be true after any number of kills. Each message names the runs that break a rule."""

from __future__ import annotations

from onthedot.model.after import COUNTING
from onthedot.model.run import TERMINAL, RunState, after_trigger
from tests.crash.kit import Evidence
from tests.crash.victim import ALWAYS, CAREFUL, FOLLOWER, SETTINGS

_GRID = {"always": 100_000, "careful": 150_000, "long": 300_000, "stubborn": 400_000}


def check_all(evidence: Evidence) -> None:
    every_acknowledged_run_exists_and_has_ended(evidence)
    every_slot_has_exactly_one_fate(evidence)
    every_start_is_recorded(evidence)
    no_succeeded_run_executes_again(evidence)
    assert lost_attempts_follow_their_guarantee(evidence), "no attempt was lost: the kills tested nothing"
    nothing_starts_early(evidence)
    every_finished_parent_has_one_follower(evidence)


def every_acknowledged_run_exists_and_has_ended(evidence: Evidence) -> None:
    missing = [run for run in evidence.acknowledged if run not in evidence.runs]
    assert not missing, f"acknowledged, but missing: {missing}"
    open_runs = [run for run in evidence.acknowledged if evidence.runs[run].state not in TERMINAL]
    assert not open_runs, f"acknowledged, but not ended: {open_runs}"


def every_slot_has_exactly_one_fate(evidence: Evidence) -> None:
    for job, step in _GRID.items():
        state = evidence.schedules[job]
        fates: dict[int, int] = {}
        for run in evidence.runs.values():
            if run.job == job:
                assert run.trigger == f"schedule:{state.schedule_id}"
                fates[run.slot_at] = fates.get(run.slot_at, 0) + 1
        for skip in evidence.skips:
            if skip.job == job:
                slots = range(skip.first, skip.last + 1, step)
                assert len(slots) == skip.count, (
                    f"{job}: a range of {len(slots)} skipped slots has the count {skip.count}"
                )
                for slot in slots:
                    fates[slot] = fates.get(slot, 0) + 1
        first = state.origin - state.origin % step + step
        expected = set(range(first, state.watermark + 1, step))
        assert len(expected) > 10, f"{job}: too few slots for a meaningful test"
        assert fates.keys() == expected, f"{job}: {sorted(fates.keys() ^ expected)[:9]} have no fate or are not slots"
        assert set(fates.values()) == {1}, f"{job}: planned twice: {[s for s, n in fates.items() if n > 1][:9]}"


def every_start_is_recorded(evidence: Evidence) -> None:
    for run_id, starts in evidence.starts.items():
        run, attempts = evidence.runs[run_id], evidence.attempts[run_id]
        recorded = {(attempt.attempt, attempt.fence) for attempt in attempts}
        unknown = [s for s in starts if (s["attempt"], s["fence"]) not in recorded]
        assert not unknown, f"run {run_id} ({run.job}) executed without a recorded attempt: {unknown}"
        assert [attempt.attempt for attempt in attempts] == list(range(1, len(attempts) + 1))
        fences = [attempt.fence for attempt in attempts]
        assert fences == sorted(set(fences)), f"run {run_id}: fences {fences} do not increase"
        assert len({attempt.lease_id for attempt in attempts}) == len(attempts)


def no_succeeded_run_executes_again(evidence: Evidence) -> None:
    for run_id, run in evidence.runs.items():
        if run.state is not RunState.SUCCEEDED:
            continue
        outcomes = [attempt.outcome for attempt in evidence.attempts[run_id]]
        assert outcomes.count("succeeded") == 1, f"run {run_id}: {outcomes}"
        assert outcomes[-1] == "succeeded", f"run {run_id}: {outcomes}"
        last_start = max(evidence.starts[run_id], key=lambda start: start["fence"])
        assert last_start["fence"] == evidence.attempts[run_id][-1].fence
        assert len(evidence.starts[run_id]) <= len(outcomes), f"run {run_id} started more often than it was armed"
        assert evidence.ends[run_id], f"run {run_id} succeeded, but its handler did not reach its end"


def lost_attempts_follow_their_guarantee(evidence: Evidence) -> int:
    """Returns how many lost attempts there were."""
    lost_seen = 0
    for run_id, run in evidence.runs.items():
        outcomes = [attempt.outcome for attempt in evidence.attempts[run_id]]
        lost_seen += outcomes.count("lost")
        if run.job == CAREFUL:
            assert len(evidence.starts[run_id]) <= 1, f"at_most_once, but run {run_id} started more than once"
            assert len(outcomes) <= 1
            # If the worker stops after arming and before the start, the run is lost: it may not be armed again.
            assert (run.state is RunState.LOST) == (outcomes in (["lost"], ["released"])), f"{run_id}: {outcomes}"
            assert outcomes != ["released"] or not evidence.starts[run_id], f"run {run_id} was released, and started"
        elif run.state in TERMINAL:
            assert run.state is not RunState.LOST, f"at_least_once, but run {run_id} ({run.job}) is lost"
            if run.state is RunState.DEAD:
                assert outcomes.count("lost") == 4, f"run {run_id} ({run.job}) is dead after {outcomes}"
    return lost_seen


def nothing_starts_early(evidence: Evidence) -> None:
    for starts in evidence.starts.values():
        for start in starts:
            assert start["at"] >= start["slot"], f"{start['slot'] - start['at']} µs early: {start}"
    assert SETTINGS.node_ttl == 1_000_000


def every_finished_parent_has_one_follower(evidence: Evidence) -> None:
    """The end of a run and the insert of its follower are one write: neither exists without the other."""
    parents = [run for run in evidence.runs.values() if run.job in (ALWAYS, CAREFUL) and run.state in COUNTING]
    expected = sorted((after_trigger(run.id), run.ended_at) for run in parents)
    found = sorted((run.trigger, run.slot_at) for run in evidence.runs.values() if run.job == FOLLOWER)
    assert len(expected) > 10, "too few ends for a meaningful test"
    assert found == expected, f"{set(found) ^ set(expected)} have no follower, several followers, or no parent"
