"""The sample jobs: a heartbeat, a report, a job that fails twice, and a sleep."""

from __future__ import annotations

from datetime import datetime

import onthedot as otd
from onthedot.cli.node_process.samples import add_samples
from onthedot.model.events import AttemptEnded, AttemptStarted
from onthedot.model.job import Call
from onthedot.testing import Harness, run_virtual


def samples() -> otd.Scheduler:
    sched = otd.Scheduler("memory:")
    add_samples(sched)
    return sched


def test_the_samples_are_three_handlers_and_a_sleep():
    jobs = samples().jobs
    assert list(jobs) == ["heartbeat", "minute_report", "flaky_import", "nap"]
    assert [isinstance(job.task, Call) for job in jobs.values()] == [True, True, True, False]


def test_heartbeat_runs_and_flaky_import_needs_three_attempts():
    async def live() -> Harness:
        harness = Harness(datetime.fromisoformat("2026-01-01T12:00:01+00:00"))
        await harness.start(samples())
        await harness.advance("28s")  # minute_report is a plain function, which needs threads; here are none
        await harness.stop()
        return harness

    harness = run_virtual(live())
    started = [event for event in harness.events if isinstance(event, AttemptStarted)]
    names = [event.lease.record.job.name for event in started]
    assert {name: names.count(name) for name in names} == {"heartbeat": 5, "nap": 1, "flaky_import": 3}
    ends = [
        event.finish for event in harness.events
        if isinstance(event, AttemptEnded) and event.finish.lease.record.job.name == "flaky_import"
    ]  # fmt: skip
    assert [end.verdict.state for end in ends] == ["scheduled", "scheduled", "succeeded"]
    waits = [round((end.verdict.due_at - end.ended_at) / 1_000_000) for end in ends[:2]]
    assert waits == [1, 2]


def test_minute_report_returns_the_free_disk_space():
    handler = samples().registry.get("minute_report")
    assert handler.function()["disk_free_gb"] >= 0
