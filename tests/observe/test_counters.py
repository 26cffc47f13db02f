"""Counters: events are counted by job and verdict, with quantiles of lateness and duration."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onthedot.clock import MILLISECOND
from onthedot.model.events import AttemptEnded, LeaseLost, RunRecovered, RunSkipped, SlotsSkipped
from onthedot.model.run import RunState
from onthedot.model.verdict import OutcomeKind, Verdict
from onthedot.observe import counters as module
from onthedot.observe.counters import Counters, Histogram
from tests.observe.sample_events import LOST, NOON, ONE_OF_EACH, failure, finish, lease, missed, started

DEAD = failure(state=RunState.DEAD)


def counted(*events: Any) -> dict[str, Any]:
    counters = Counters()
    for event in events:
        counters(event)
    return counters.snapshot()


def test_attempts_are_counted_by_job_and_verdict():
    snapshot = counted(
        started(), AttemptEnded(finish()),
        started(), AttemptEnded(finish(failure())),
        started(name="mail"), AttemptEnded(finish(DEAD, name="mail")),
        LeaseLost(finish(name="mail")), RunRecovered(lease(), LOST),
        RunRecovered(lease(), Verdict(RunState.LOST, OutcomeKind.LOST)),
    )  # fmt: skip
    by_name = {job["job"]: job for job in snapshot["jobs"]}
    assert by_name["import"]["started"] == 2
    assert by_name["import"]["verdicts"] == {"succeeded": 1, "failed": 1, "recovered": 1, "lost": 1}
    assert by_name["mail"]["verdicts"] == {"dead": 1, "refused": 1}
    assert snapshot["total"]["started"] == 3
    assert snapshot["total"]["verdicts"]["succeeded"] == 1


def test_lateness_and_duration_are_measured():
    snapshot = counted(started(2 * MILLISECOND), started(8 * MILLISECOND), AttemptEnded(finish()))
    late, took = snapshot["total"]["late"], snapshot["total"]["took"]
    assert (late["count"], late["sum_ms"], late["max_ms"], late["p99_ms"]) == (2, 10.0, 8.0, 8.0)
    assert 2.0 <= late["p50_ms"] <= 2.0 * 9 / 8
    assert (took["count"], took["sum_ms"]) == (1, 50.0)


def test_an_attempt_that_never_began_has_no_duration():
    assert counted(AttemptEnded(finish(began=False)))["total"]["took"]["count"] == 0


def test_skipped_slots_and_runs_are_counted():
    skipped = SlotsSkipped("import", "s", 14, NOON, NOON, "missed", "team")
    snapshot = counted(missed(), RunSkipped(lease(), "overlap:1:", 7), skipped)
    assert [(job["namespace"], job["skipped"]) for job in snapshot["jobs"]] == [("default", 2), ("team", 14)]
    assert snapshot["total"]["skipped"] == 16


def test_a_snapshot_of_everything_is_json():
    snapshot = counted(*ONE_OF_EACH)
    assert json.loads(json.dumps(snapshot)) == snapshot


def test_jobs_above_the_limit_are_counted_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_JOBS", 2)
    snapshot = counted(*(started(name=f"job-{number}") for number in range(5)), started(name="job-0"))
    assert [(job["job"], job["started"]) for job in snapshot["jobs"]] == [("…", 3), ("job-0", 2), ("job-1", 1)]
    assert snapshot["total"]["started"] == 6


@pytest.mark.parametrize("part", [0.01, 0.5, 0.9, 0.99, 1.0])
def test_a_quantile_is_at_most_an_eighth_too_large(part: float):
    values = sorted(number**3 for number in range(1, 300))
    spread = Histogram()
    for value in values:
        spread.add(value)
    exact = values[max(0, -(-round(part * 1_000) * len(values) // 1_000) - 1)]
    found = spread.quantile(part)
    assert found is not None
    assert exact <= found <= exact * 9 / 8


def test_an_empty_histogram_has_no_quantile_and_early_starts_count_as_zero():
    spread = Histogram()
    assert spread.quantile(0.5) is None
    spread.add(-5)
    assert (spread.quantile(0.5), spread.total) == (0, 0)
