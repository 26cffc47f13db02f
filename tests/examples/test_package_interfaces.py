"""The interfaces of the package document: the example has each name of the document, and each works."""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import Micros, SystemClock
from onthedot.model.job import JobRecord
from onthedot.stores.connect import open_store
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.sql.store import SqlQueries
from tests.examples.loading import load

PAGE = Path(__file__).parents[2] / "docs" / "interfaces.md"

CALLS = {
    "Scheduler": ("Register", "Start", "Stop", "Pause", "Resume", "Remove"),
    "Schedule": ("NextRun",),
    "BackendProvider": ("SaveJob", "LoadJobs", "UpdateStatus", "AcquireLock", "ReleaseLock"),
    "JobExecutor": ("Execute",),
}
FIELDS = {"Job": ("Name", "Schedule", "RetryPolicy", "Timeout", "Handler")}
TYPES = ("JobHandler", "RetryPolicy", "JobStatus")

HALF_A_MINUTE = timedelta(seconds=30)


class ManualClock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self._now = SystemClock().now()

    def now(self) -> Micros:
        return self._now

    def steady(self) -> Micros:
        return self._now

    def turn(self, length: timedelta) -> None:
        self._now += length // timedelta(microseconds=1)


@pytest.fixture
def example(tmp_path, monkeypatch):
    return load("package_interfaces", tmp_path, monkeypatch)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory:", "sqlite:///interfaces.db"])
async def store(request, clock, example) -> AsyncIterator[Store]:
    opened = await open_store(request.param, clock=clock)
    yield opened
    await opened.close()


# ── the names ────────────────────────────────────────────────────────────────────────────────────────────────


def dotted(table: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [f"{owner}.{name}" for owner, names in table.items() for name in names]


def rows() -> dict[str, tuple[str, list[str]]]:
    """The rows of the page: name → its form in the example, and the names that implement it."""
    found = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: (written.replace(r"\|", "|"), re.findall(r"`([^`]+)`", behind)) for name, written, behind in found}


def test_the_page_has_every_name_of_the_document_and_no_other():
    assert sorted(rows()) == sorted([*dotted(CALLS), *dotted(FIELDS), *TYPES])


@pytest.mark.parametrize("name", dotted(CALLS))
def test_a_call_has_the_signature_on_the_page(name, example):
    owner, _, method = name.partition(".")
    signature = inspect.signature(getattr(getattr(example, owner), method))
    _, *parameters = signature.parameters.values()
    assert str(signature.replace(parameters=parameters)).replace("'", "") == rows()[name][0]


def test_a_job_has_the_fields_on_the_page(example):
    assert {f"Job.{field.name}": field.type for field in fields(example.Job)} == {
        name: rows()[name][0] for name in dotted(FIELDS)
    }


def test_the_types_are_those_on_the_page(example):
    assert (example.RetryPolicy, example.JobStatus.__name__) == (otd.Retry, rows()["JobStatus"][0])
    assert example.JobHandler.__name__ == "Callable"


@pytest.mark.parametrize("name", rows())
def test_the_names_that_implement_an_interface_exist(name):
    behind = rows()[name][1]
    assert behind
    for path in behind:
        assert pkgutil.resolve_name(path) is not None, path


@pytest.mark.slow
async def test_the_example_calls_every_interface(example, monkeypatch):
    called: set[str] = set()

    def watch(owner: str, name: str) -> None:
        method = getattr(getattr(example, owner), name)

        def told(*args: Any, **kwargs: Any) -> Any:
            called.add(f"{owner}.{name}")
            return method(*args, **kwargs)

        monkeypatch.setattr(getattr(example, owner), name, told)

    for one in dotted(CALLS):
        watch(*one.split("."))
    await example.main()
    assert called == set(dotted(CALLS))


# ── the scheduler and its executor ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["coroutine", "function"])
async def test_a_registered_job_is_executed_with_its_retries(example, kind):
    tries: list[int] = []

    def work(context: otd.Context) -> str:
        tries.append(context.attempt)
        if context.attempt == 1:
            raise ConnectionError("once")
        return f"at try {context.attempt}"

    async def work_async(context: otd.Context) -> str:
        return work(context)

    handler = work if kind == "function" else work_async
    job = example.Job("report", RetryPolicy=example.RetryPolicy(2, delay="1ms"), Handler=handler)
    scheduler = example.Scheduler()
    scheduler.Register(job)
    await scheduler.Start()
    try:
        assert await example.JobExecutor(scheduler).Execute(job) == "at try 2"
    finally:
        await scheduler.Stop()
    assert tries == [1, 2]


async def test_execute_raises_errors_of_the_handler_and_time_outs(example):
    async def fails(ctx: otd.Context) -> None:
        raise RuntimeError("no")

    def too_long(ctx: otd.Context) -> None:
        ctx.cancelled.wait(20)

    scheduler, jobs = example.Scheduler(), [
        example.Job("fails", Handler=fails),
        example.Job("too_long", Timeout=timedelta(milliseconds=20), Handler=too_long),
    ]  # fmt: skip
    for job in jobs:
        scheduler.Register(job)
    await scheduler.Start()
    try:
        executor = example.JobExecutor(scheduler)
        with pytest.raises(otd.RunFailed, match="RuntimeError: no"):
            await executor.Execute(jobs[0])
        with pytest.raises(otd.RunFailed, match="took longer than its time-out"):
            await executor.Execute(jobs[1])
    finally:
        await scheduler.Stop()


async def test_each_interface_can_be_faked(example):
    """Plain objects can replace the scheduler and the store in tests of a service."""

    class Fake:
        """Executes nothing, and records the submitted names."""

        def __init__(self) -> None:
            self.asked: list[str] = []

        async def submit(self, name: str) -> Fake:
            self.asked.append(name)
            return self

        async def result(self) -> str:
            return "made up"

        @property
        def inner(self) -> Fake:
            return self

    fake = Fake()
    assert await example.JobExecutor(fake).Execute(example.Job("report")) == "made up"
    assert fake.asked == ["report"]

    class Unavailable(SqlQueries):
        async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
            raise otd.StoreUnavailable("away")

    store = MemoryStore()
    store.queries = Unavailable(store.database)
    with pytest.raises(otd.StoreUnavailable):
        await example.BackendProvider(store).LoadJobs()
    scheduler = example.Scheduler(MemoryStore())
    scheduler.Register(example.Job("report", Handler=lambda ctx: "for real"))
    await scheduler.Start()
    try:
        assert await example.JobExecutor(scheduler).Execute(example.Job("report")) == "for real"
    finally:
        await scheduler.Stop()


async def test_a_job_is_paused_resumed_and_removed(example):
    scheduler = example.Scheduler()
    scheduler.Register(example.Job("report", example.Schedule(otd.every("1h")), Handler=lambda ctx: None))
    await scheduler.Start()
    try:
        for change, state in ((scheduler.Pause, "paused"), (scheduler.Resume, "active")):
            await change("report")
            assert (await scheduler.inner.get_job("report")).state == state
        await scheduler.Remove("report")
        assert await scheduler.inner.get_job("report") is None
        with pytest.raises(otd.UnknownJob):
            await scheduler.Pause("report")
    finally:
        await scheduler.Stop()


def test_a_job_without_a_handler_is_refused(example):
    with pytest.raises(otd.DefinitionError, match="expected a Handler, got none"):
        example.Scheduler().Register(example.Job("report"))


def test_next_run_works_for_cron_intervals_and_timestamps(example):
    noon = datetime(2027, 1, 1, 12, tzinfo=UTC)
    assert example.Schedule(otd.cron("0 9 * * *")).NextRun(noon) == datetime(2027, 1, 2, 9, tzinfo=UTC)
    assert example.Schedule(otd.every("1h")).NextRun(noon) == datetime(2027, 1, 1, 13, tzinfo=UTC)
    assert example.Schedule(otd.at("2027-06-01T00:00Z")).NextRun(noon) == datetime(2027, 6, 1, tzinfo=UTC)
    assert example.Schedule(otd.at("2026-06-01T00:00Z")).NextRun(noon) is None


# ── the backend ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_jobs_are_saved_and_loaded_without_their_functions(example, store):
    def report(ctx: otd.Context) -> None: ...

    job = example.Job("report", example.Schedule(otd.every("1h")), otd.Retry(3), timedelta(minutes=1), report)
    await example.BackendProvider(store).SaveJob(job)
    [loaded] = await example.BackendProvider(store).LoadJobs()
    assert (loaded.Name, loaded.RetryPolicy.attempts, loaded.Timeout) == ("report", 3, timedelta(minutes=1))
    assert loaded.Schedule.NextRun(datetime(2027, 1, 1, 12, tzinfo=UTC)) == datetime(2027, 1, 1, 13, tzinfo=UTC)
    assert loaded.Handler is None
    [known] = await example.BackendProvider(store, {"report": report}).LoadJobs()
    assert known.Handler is report


async def test_a_status_pauses_resumes_and_deletes_a_job(example, store):
    backend = example.BackendProvider(store)
    await backend.SaveJob(example.Job("report", example.Schedule(otd.every("1h"))))
    for status in (example.JobStatus.PAUSED, example.JobStatus.ACTIVE):
        await backend.UpdateStatus("report", status)
        record = await store.queries.get_job("report")
        assert record is not None
        assert record.state == status
    with pytest.raises(otd.DefinitionError, match="expected active, paused or deleted"):
        await backend.UpdateStatus("report", example.JobStatus.EXHAUSTED)
    await backend.UpdateStatus("report", example.JobStatus.DELETED)
    assert await store.queries.get_job("report") is None
    with pytest.raises(otd.UnknownJob):
        await backend.UpdateStatus("report", example.JobStatus.PAUSED)


async def test_a_lock_has_one_holder_until_it_is_released(example, store):
    ours, theirs = example.BackendProvider(store), example.BackendProvider(store)
    assert await ours.AcquireLock("import", HALF_A_MINUTE)
    assert not await ours.AcquireLock("import", HALF_A_MINUTE)
    assert not await theirs.AcquireLock("import", HALF_A_MINUTE)
    assert await theirs.AcquireLock("export", HALF_A_MINUTE)
    with pytest.raises(otd.LeaseLost, match="call AcquireLock first"):
        await theirs.ReleaseLock("import")
    await ours.ReleaseLock("import")
    assert await theirs.AcquireLock("import", HALF_A_MINUTE)
    assert await ours.LoadJobs() == []


async def test_of_concurrent_requests_one_gets_the_lock(example, store):
    backends = [example.BackendProvider(store) for _ in range(20)]
    taken = await asyncio.gather(*(backend.AcquireLock("import", HALF_A_MINUTE) for backend in backends))
    assert taken.count(True) == 1
    await backends[taken.index(True)].ReleaseLock("import")
    assert await backends[0].AcquireLock("import", HALF_A_MINUTE)


async def test_an_expired_lock_passes_on_and_its_former_holder_cannot_release_it(example, store, clock):
    ours, theirs = example.BackendProvider(store), example.BackendProvider(store)
    assert await ours.AcquireLock("import", HALF_A_MINUTE)
    clock.turn(timedelta(seconds=29))
    assert not await theirs.AcquireLock("import", HALF_A_MINUTE)
    clock.turn(timedelta(seconds=2))
    first = ours.held["import"].fence
    assert await theirs.AcquireLock("import", HALF_A_MINUTE)
    assert theirs.held["import"].fence > first
    with pytest.raises(otd.LeaseLost, match="its time was over"):
        await ours.ReleaseLock("import")
    assert not await ours.AcquireLock("import", HALF_A_MINUTE)
    await theirs.ReleaseLock("import")


async def test_the_leader_lock_is_the_term(example, store, clock):
    ours, theirs = example.BackendProvider(store), example.BackendProvider(store)
    assert await ours.AcquireLock("leader", HALF_A_MINUTE)
    assert not await theirs.AcquireLock("leader", HALF_A_MINUTE)
    clock.turn(timedelta(seconds=31))
    assert await theirs.AcquireLock("leader", HALF_A_MINUTE)
    with pytest.raises(otd.LeaseLost):
        await ours.ReleaseLock("leader")
    await theirs.ReleaseLock("leader")
    assert await ours.AcquireLock("leader", HALF_A_MINUTE)
