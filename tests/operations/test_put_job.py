"""Pause, resume, delete, trigger and cancel give every slot its exact fate."""

import asyncio
from datetime import UTC, datetime

import pytest

import onthedot as otd
from onthedot.clock import SECOND, to_micros
from onthedot.model.errors import UnknownJob
from onthedot.model.events import AttemptEnded, JobResumed
from onthedot.operations.put_job import resume_job
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual
from tests.watching import Watch

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
T0 = to_micros(START)
SETTINGS = otd.Settings(poll_every=1 * SECOND)


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore
    return lambda clock: SqliteStore.open(tmp_path / "controls.db", clock=clock, inline=True)


def every_ten_seconds(**options) -> otd.Scheduler:
    sched = otd.Scheduler("memory:", settings=SETTINGS)

    @sched.job(name="job", schedule=otd.every("10s"), **options)
    async def job() -> None: ...

    return sched


def play(scenario, open_store, sched=None):
    """Run a scenario on a started harness, and return its answer, the fates by second, the skips and the events."""

    async def main():
        harness = Harness(START, store=open_store)
        await harness.start(sched or every_ten_seconds())
        record = await harness.store.queries.get_job("job")
        assert record is not None
        answer = await scenario(harness, record.id)
        runs, skips = await harness.runs("job"), await harness.skips("job")
        await harness.stop()
        await harness.store.close()
        fates = {(run.slot_at - T0) // SECOND: (run.state.value, run.reason) for run in runs}
        ranges = [((skip.first - T0) // SECOND, (skip.last - T0) // SECOND, skip.count, skip.reason) for skip in skips]
        return answer, fates, ranges, harness.events

    return run_virtual(main())


async def resume(harness: Harness, job_id: int, missed="none", dry_run=False):
    return await resume_job(
        harness.store, job_id, missed=missed, clock=harness.clock, settings=SETTINGS, dry_run=dry_run
    )


def done(fates) -> list[int]:
    return [second for second, (state, _) in fates.items() if state == "succeeded"]


@pytest.mark.parametrize(
    ("missed", "runs", "skipped"),
    [
        ("none", [10, 20, 70, 80], [(30, 60, 4, "paused")]),
        ("last", [10, 20, 60, 70, 80], [(30, 50, 3, "paused")]),
        ("all", [10, 20, 30, 40, 50, 60, 70, 80], []),
    ],
)
def test_slots_of_a_pause_run_or_are_skipped_as_resume_says(missed, runs, skipped, open_store):
    async def scenario(harness, job_id):
        await harness.advance("25s")
        await harness.store.pause_job(job_id, reason="")
        await harness.advance("40s")
        preview = await resume(harness, job_id, missed, dry_run=True)
        answer = await resume(harness, job_id, missed)
        await harness.advance("20s")
        return preview, answer

    (preview, answer), fates, ranges, _ = play(scenario, open_store, every_ten_seconds(overlap="allow"))
    assert preview == answer
    assert done(fates) == runs
    assert ranges == skipped
    planned = {(slot - T0) // SECOND for slot in answer.slots}
    assert set(runs) - {10, 20} <= planned


def test_a_pause_with_an_end_resumes_by_itself(open_store):
    async def scenario(harness, job_id):
        await harness.advance("15s")
        await harness.store.pause_job(job_id, reason="deploy", until=T0 + 42 * SECOND)
        await harness.advance("50s")

    _, fates, ranges, events = play(scenario, open_store)
    assert done(fates) == [10, 50, 60]
    assert ranges == [(20, 40, 3, "paused")]
    assert [event.skipped for event in events if isinstance(event, JobResumed)] == [3]


def test_a_pause_survives_a_restart_with_another_definition(open_store):
    async def scenario(harness, job_id):
        await harness.advance("15s")
        await harness.store.pause_job(job_id, reason="by hand")
        await harness.stop()
        await harness.start(every_ten_seconds(timeout="5s"))
        await harness.advance("30s")
        record = await harness.store.queries.get_job("job")
        assert record is not None
        return record

    record, fates, _, _ = play(scenario, open_store)
    assert (record.state, record.pause_reason, record.revision) == ("paused", "by hand", 2)
    assert done(fates) == [10]


def test_a_deleted_job_runs_no_more_slots(open_store):
    async def scenario(harness, job_id):
        await harness.advance("25s")
        cancelled = await harness.store.delete_job(job_id)
        await harness.advance("60s")
        return cancelled, await harness.store.queries.get_job("job")

    (cancelled, record), fates, _, _ = play(scenario, open_store)
    assert cancelled == 3  # the slots of the look-ahead
    assert record is None
    assert done(fates) == [10, 20]
    assert {fate for fate in fates.values() if fate[0] != "succeeded"} == {("cancelled", "deleted")}


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'controls.db'}"


@pytest.mark.parametrize("kind", ["coroutine", "function"])
async def test_a_running_attempt_is_cancelled(url, kind):
    import threading

    sched = otd.Scheduler(url, settings=otd.Settings(seats=2))
    begun, let_go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @sched.job(name="coroutine", retry=otd.Retry(5))
    async def coroutine() -> None:
        begun.set()
        await asyncio.sleep(3600)

    @sched.job(name="function", retry=otd.Retry(5))
    def function() -> None:
        loop.call_soon_threadsafe(begun.set)
        let_go.wait(20)

    watch = Watch(sched)
    async with sched:
        run_id = (await sched.trigger(kind)).id
        await begun.wait()
        answer = await sched.cancel(run_id, why="wrong customer")
        assert (answer.kind, answer.state) == ("asked", "running")
        await watch.until_count(AttemptEnded, 1)
        run = await sched.get_run(run_id)
        let_go.set()
        again = await sched.cancel(run_id)
    assert run is not None
    assert (run.state, run.reason, run.attempts) == ("cancelled", "wrong customer", 1)
    assert run.trigger.startswith("manual:")
    assert (again.kind, again.state) == ("ended", "cancelled")


async def test_an_unknown_job_is_refused_with_the_nearest_name(url):
    sched = otd.Scheduler(url)

    @sched.job
    async def report() -> None: ...

    async with sched:
        for verb in (sched.pause, sched.resume, sched.remove, sched.trigger):
            with pytest.raises(UnknownJob, match="no job 'reprot' is stored, did you mean 'report'"):
                await verb("reprot")
        with pytest.raises(otd.DefinitionError, match="missed: expected 'none', 'last' or 'all', got 'some'"):
            await sched.resume("report", missed="some")  # type: ignore[arg-type]
        assert (await sched.cancel(999)).kind == "unknown"
        paused = await sched.pause("report", reason="audit")
        assert paused.record.pause_reason == "audit"
        run_id = (await sched.submit("report")).id
        run = await sched.get_run(run_id)
        assert run is not None
        assert run.state == "scheduled"
        resumed = await sched.resume("report")
        assert resumed.released == 1
        assert await sched.remove("report") in (0, 1)
