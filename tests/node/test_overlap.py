"""Overlap policies and concurrency limits give every slot its exact fate, with real engines in virtual time."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SECOND, to_micros
from onthedot.model.events import AttemptEnded, RunBlocked, RunSkipped
from onthedot.model.run import NewRun
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
T0 = to_micros(START)


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore
    return lambda clock: SqliteStore.open(tmp_path / "gates.db", clock=clock, inline=True)


def every_minute(seconds: float, **options) -> otd.Scheduler:
    """Return a program whose job starts every minute and runs for `seconds`."""
    sched = otd.Scheduler("memory:", settings=otd.Settings(poll_every=30 * SECOND, expire_every=5 * SECOND))

    @sched.job(name="job", schedule=otd.every("1m"), **options)
    async def job(ctx: otd.Context) -> None:
        await asyncio.sleep(seconds)

    return sched


def watch(sched: otd.Scheduler, open_store, minutes: float):
    async def main():
        harness = Harness(START, store=open_store)
        await harness.start(sched)
        await harness.advance(minutes * 60)
        runs = await harness.runs("job")
        await harness.stop()
        await harness.store.close()
        return runs, harness.events

    return run_virtual(main())


def fates(runs) -> dict:
    """Map each minute to (state, reason of a skip, second of the start)."""
    return {
        (run.slot_at - T0) // (60 * SECOND): (
            run.state.value,
            run.reason if run.state == "skipped" else "",
            None if run.started_at is None else (run.started_at - T0) / SECOND,
        )
        for run in runs
        if run.state not in ("scheduled", "reserved")
    }


def test_a_slot_is_skipped_at_its_instant_and_a_blocked_run_names_its_holder(open_store):
    """A job starts every minute and runs for five. The fates of its slots are in the table of tests/scenarios."""
    runs, events = watch(every_minute(300), open_store, 12)
    skipped = [event for event in events if isinstance(event, RunSkipped)]
    ended = {run.slot_at: run.ended_at for run in runs if run.state == "skipped"}
    assert len(skipped) == len(ended) > 3
    assert all(0 <= ended_at - slot_at < SECOND for slot_at, ended_at in ended.items())
    assert next(event.holder for event in events if isinstance(event, RunBlocked)) == runs[0].id


def test_a_job_with_a_schedule_waits_by_default(open_store):
    runs, _ = watch(every_minute(90), open_store, 6.5)
    started = [run.started_at for run in runs if run.started_at]
    ended = [run.ended_at for run in runs if run.state == "succeeded"]
    assert all(start >= end for start, end in zip(started[1:], ended, strict=False))


def test_skip_drops_a_slot_whose_predecessor_still_runs(open_store):
    found = fates(watch(every_minute(90, overlap="skip"), open_store, 6.6)[0])
    assert [found[minute][0] for minute in range(1, 7)] == [
        "succeeded", "skipped", "succeeded", "skipped", "succeeded", "skipped",
    ]  # fmt: skip
    assert [found[minute][2] for minute in (1, 3, 5)] == [60, 180, 300]


def test_allow_starts_every_slot_on_time(open_store):
    found = fates(watch(every_minute(90, overlap="allow"), open_store, 5.2)[0])
    assert [found[minute][2] for minute in range(1, 4)] == [60, 120, 180]


def test_allow_with_a_limit_runs_at_most_that_many_at_once(open_store):
    sched = every_minute(150, overlap=otd.Overlap("allow", max_running=2))
    found = fates(watch(sched, open_store, 7.2)[0])
    assert [found[minute][2] for minute in (1, 2, 3)] == [60, 120, 210]  # the third waits for the first to end


def test_replace_cancels_the_running_attempt(open_store):
    runs, events = watch(every_minute(90, overlap="replace"), open_store, 5.2)
    found = fates(runs)
    assert [found[minute][0] for minute in (1, 2, 3, 4)] == ["cancelled"] * 4
    starts = [found[minute][2] for minute in (1, 2, 3, 4)]
    assert all(start is not None and 0 <= start - 60 * minute < 1 for minute, start in enumerate(starts, 1))
    [first] = [event for event in events if isinstance(event, AttemptEnded)][:1]
    assert (first.finish.verdict.state, first.finish.verdict.reason) == ("cancelled", "replaced")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: otd.Overlap("often"),  # type: ignore[arg-type]
            "overlap: expected one of 'wait', 'skip', 'allow', 'replace', got 'often'",
        ),
        (lambda: otd.Overlap("skip", max_waiting=2), "max_waiting: expected only with overlap 'wait'"),
        (lambda: otd.Overlap("wait", max_running=2), "max_running: expected only with overlap 'allow'"),
        (lambda: otd.Overlap("wait", max_waiting=-1), "max_waiting: expected a whole number from 0"),
        (lambda: otd.Limit(0), "concurrency: expected a whole number from 1"),
        (lambda: otd.Limit(3, key=5), "concurrency.key: expected text, got 5"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_policy_is_refused_with_a_reason(make, words):
    with pytest.raises(otd.DefinitionError) as refused:
        make()
    assert words in str(refused.value)


class ArmTakesTime(MemoryStore):
    """A memory store whose `arm` takes 2 ms, like that of a real database."""

    async def arm(self, leases, **options):
        await asyncio.sleep(0.002)
        return await super().arm(leases, **options)


def test_a_batch_of_blocked_runs_does_not_delay_the_runs_behind_it():
    """All seats go to runs that are blocked immediately. The run behind them starts before the next poll."""
    sched = otd.Scheduler("memory:", settings=otd.Settings(seats=4, ahead=4, poll_every=30 * SECOND))

    @sched.job(concurrency=otd.Limit(1))
    async def limited() -> None:
        await asyncio.sleep(300)

    @sched.job
    async def free() -> None:
        pass

    async def main():
        harness = Harness(START, store=ArmTakesTime)
        await harness.start(sched)
        await harness.advance(1)
        jobs = {record.job.name: record.id for record in await harness.store.queries.list_jobs()}
        names, now = ["limited"] * 9 + ["free"], T0 + SECOND
        await harness.store.submit([NewRun(jobs[name], f"submit:{n}", now) for n, name in enumerate(names)])
        await harness.advance(5)
        [run] = await harness.runs("free")
        await harness.stop()
        await harness.store.close()
        return run

    run = run_virtual(main())
    assert run.state == "succeeded"
    assert run.started_at - run.due_at < SECOND // 10


def test_namespaces_do_not_share_a_limit_of_the_same_name(open_store):
    """Each namespace has two jobs with the same limit: one run at a time in each namespace, and two in total."""
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def work(ctx: otd.Context) -> None:
        namespace = ctx.job.partition("-")[2]
        running[namespace] += 1
        running["all"] += 1
        most.update({name: running[name] - most[name] for name in running if running[name] > most[name]})
        await asyncio.sleep(10)
        running[namespace] -= 1
        running["all"] -= 1

    sched = otd.Scheduler("memory:", settings=otd.Settings(poll_every=30 * SECOND))
    for namespace in ("default", "qa"):
        for name in (f"load-{namespace}", f"clean-{namespace}"):
            options: Any = {"schedule": otd.every("1m"), "concurrency": otd.Limit(1, name="db")}
            sched.job(name=name, namespace=namespace, **options)(work)

    async def main() -> None:
        harness = Harness(START, store=open_store)
        await harness.start(sched)
        await harness.advance("4m")
        await harness.stop()
        await harness.store.close()

    run_virtual(main())
    assert most == {"default": 1, "qa": 1, "all": 2}
