"""A service built on onthedot can accept jobs of its users, store them, and run millions a day."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import onthedot as otd
from onthedot.model.job import Call

STORES = ["memory:", "sqlite:///service.db"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def program(url: str, settings: otd.Settings | None = None) -> otd.Scheduler:
    sched = otd.Scheduler(url, settings=settings)

    @sched.job
    async def send(to: str = "", copies: int = 1) -> str:
        return f"{copies} to {to}"

    return sched


@pytest.mark.parametrize("url", STORES)
async def test_one_time_and_periodic_jobs_are_accepted_and_have_ids(url):
    async with program(url) as sched:
        once = await sched.submit("send", {"to": "ada"})
        periodic = await sched.put(
            otd.Job(name="weekly", task=Call(handler="send"), schedules=(otd.every("7d"),), args={"to": "bob"})
        )
        assert await sched.result(once.id, timeout="20s") == "1 to ada"
        stored = await sched.get_job("weekly")
        assert stored is not None
        assert stored.id == periodic.record.id


@pytest.mark.parametrize("url", STORES)
async def test_a_job_is_stored_with_owner_interval_arguments_and_state(url):
    job = otd.Job(
        name="weekly", task=Call(handler="send"), schedules=(otd.every("7d"),), args={"to": "bob", "copies": 2},
        owner="u003",
    )  # fmt: skip
    async with program(url) as sched:
        await sched.put(job)
        await sched.pause("weekly", reason="holidays")
        stored = await sched.get_job("weekly")
    assert stored is not None
    assert stored.id > 0
    assert (stored.job.owner, stored.job.args) == ("u003", {"to": "bob", "copies": 2})
    [schedule] = stored.job.schedules
    assert schedule == otd.every(timedelta(days=7))
    assert (stored.state, stored.pause_reason) == ("paused", "holidays")


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_node_keeps_up_with_millions_of_runs_a_day():
    """Three million a day are 35 per second: 3,000 runs on SQLite in 85 s, with history and every commit on disk."""
    async with program("sqlite:///service.db", otd.Settings(seats=200, ahead=200)) as sched:
        async with asyncio.timeout(3_000 / 35):
            runs = await sched.submit_many(["send"] * 3_000)
            results = [await run.result() for run in runs]
        assert results == ["1 to "] * 3_000
        assert len(await sched.list_runs(states=[otd.RunState.SUCCEEDED], limit=10_000)) == 3_000
