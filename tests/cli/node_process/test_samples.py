"""The sample jobs: a heartbeat, a report, a job that fails twice, and a sleep."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

import onthedot as otd
from onthedot.cli.node_process.samples import add_missing_samples, add_samples
from onthedot.model.events import AttemptEnded, AttemptStarted
from onthedot.model.job import Call, Job
from onthedot.model.task import Noop
from onthedot.stores.sqlite import SqliteStore
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


def added(path: Path, *stored: Job) -> tuple[bool, list[str]]:
    """Whether the samples were added to a store with these jobs, and which jobs the program then has."""

    async def live() -> bool:
        store = await SqliteStore.open(path)
        for job in stored:
            await store.put_job(job)
        await store.close()
        return await add_missing_samples(sched, f"sqlite:///{path}")

    sched = otd.Scheduler("memory:")
    return asyncio.run(live()), list(sched.jobs)


def test_a_store_without_other_jobs_gets_the_samples(tmp_path: Path):
    own = list(samples().jobs.values())
    names = ["heartbeat", "minute_report", "flaky_import", "nap"]
    assert added(tmp_path / "empty.db") == (True, names)
    assert added(tmp_path / "again.db", *own) == (True, names)
    assert added(tmp_path / "one-removed.db", *own[1:]) == (True, names)
    for url in ("memory:", f"sqlite:///{tmp_path}/none.db"):
        fresh = otd.Scheduler("memory:")
        assert asyncio.run(add_missing_samples(fresh, url))
        assert list(fresh.jobs) == names
    assert not (tmp_path / "none.db").exists()


def test_a_store_with_jobs_of_its_own_gets_no_samples(tmp_path: Path):
    backup = Job(name="backup", task=Noop())
    assert added(tmp_path / "own.db", backup) == (False, [])
    assert added(tmp_path / "elsewhere.db", Job(name="backup", namespace="team", task=Noop())) == (False, [])
    assert added(tmp_path / "same-name.db", Job(name="nap", task=Noop())) == (False, [])


def test_samples_that_it_has_already_go_on(tmp_path: Path):
    own = samples().jobs
    stored = (Job(name="backup", task=Noop()), own["heartbeat"], own["nap"])
    assert added(tmp_path / "mixed.db", *stored) == (False, ["heartbeat", "nap"])
