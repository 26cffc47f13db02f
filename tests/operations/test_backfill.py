"""A backfill makes exactly one run for each past slot of a range, however often it is repeated."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import onthedot as otd
from onthedot.clock import SECOND, to_micros
from onthedot.model.errors import DefinitionError, UnknownJob
from onthedot.model.events import Events, RunsBackfilled
from onthedot.model.run import RunState
from onthedot.operations.backfill import Asked, backfill
from onthedot.schedules import schedule_id
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SETTINGS = otd.Settings(poll_every=1 * SECOND)


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore
    return lambda clock: SqliteStore.open(tmp_path / "backfill.db", clock=clock, inline=True)


def program(*schedules, **options) -> tuple[otd.Scheduler, list[tuple[datetime, str]]]:
    """Return a program with one job, and the list of (slot, argument) that the job was called with."""
    sched, seen = otd.Scheduler("memory:", settings=SETTINGS), []

    @sched.job(name="job", schedules=schedules, **options)
    async def job(ctx: otd.Context, kind: str = "own") -> None:
        seen.append((ctx.scheduled_at, kind))

    return sched, seen


def play(scenario, open_store, sched):
    async def main():
        harness = Harness(START, store=open_store)
        await harness.start(sched)

        async def ask(start, end, *, dry_run=False, **options):
            record = await harness.store.queries.get_job("job")
            assert record is not None
            events = Events([harness.events.append])
            asked = Asked(start, end, **options)
            return await backfill(harness.store, record, asked, dry_run=dry_run, clock=harness.clock, events=events)

        answer = await scenario(harness, ask)
        await harness.stop()
        if harness._store is not None:
            await harness.store.close()
        return answer

    return run_virtual(main())


def test_each_slot_of_the_range_runs_once_oldest_first(open_store):
    sched, seen = program(otd.every("1h", id="s"), overlap="skip")

    async def scenario(harness, ask):
        told = await ask(START - 10 * HOUR, START - 5 * HOUR)
        await harness.advance("10s")
        return told, await harness.runs("job")

    told, runs = play(scenario, open_store, sched)
    expected = [START - n * HOUR for n in (10, 9, 8, 7, 6)]
    assert [slot for slot, _ in seen] == expected  # including start, excluding end
    assert [run.id for run in runs] == list(told.run_ids)
    assert {(run.trigger, run.state, run.due_at) for run in runs} == {
        ("backfill:s", RunState.SUCCEEDED, to_micros(START))
    }
    assert (told.slots, told.created, told.existing, told.first, told.last) == (5, 5, 0, expected[0], expected[-1])


def test_the_same_backfill_again_gives_the_same_runs(open_store):
    sched, seen = program(otd.every("1h"))

    async def scenario(harness, ask):
        first = await ask(START - 5 * HOUR, START)
        await harness.advance("10s")
        again = await ask(START - 6 * HOUR, START - 3 * HOUR)
        await harness.advance("10s")
        return first, again

    first, again = play(scenario, open_store, sched)
    assert again.run_ids[1:] == first.run_ids[:2]
    assert (again.slots, again.existing, again.created) == (3, 2, 1)
    assert len(seen) == len(set(seen)) == 6


def test_a_dry_run_counts_the_slots_and_writes_nothing(open_store):
    sched, seen = program(otd.every("10s"))

    async def scenario(harness, ask):
        await harness.advance("65s")
        before = await harness.runs("job")
        told = await ask(START - HOUR, START + HOUR, dry_run=True)
        assert await harness.runs("job") == before
        return told

    told = play(scenario, open_store, sched)
    assert (told.slots, told.existing, told.succeeded, told.run_ids) == (360 + 7, 0, 6, ())
    assert len(seen) == 6
    assert str(told) == (
        "job: 367 slots from 2026-06-01T11:00Z to 2026-06-01T12:01Z, 367 new runs would be made, "
        "6 succeeded in their own time"
    )


def test_a_long_backfill_reports_its_progress(open_store):
    sched, _ = program(otd.every("1m"))

    async def scenario(harness, ask):
        await ask(START - 1_200 * HOUR / 60, START)
        return [event for event in harness.events if isinstance(event, RunsBackfilled)]

    assert play(scenario, open_store, sched) == [
        RunsBackfilled("job", 500, 1_200), RunsBackfilled("job", 1_000, 1_200), RunsBackfilled("job", 1_200, 1_200)
    ]  # fmt: skip


def test_a_backfill_covers_all_schedules_or_the_named_one(open_store):
    nightly = otd.cron("0 0 * * *", tz="Europe/Berlin", args={"kind": "nightly"})
    sched, seen = program(otd.every("12h", id="half"), nightly, otd.gap("30d", id="delay"))

    async def scenario(harness, ask):
        await harness.advance("10s")
        seen.clear()  # forget the first run of the fixed delay
        await ask("2026-05-30T00:00Z", "2026-05-31T00:00Z")
        await harness.advance("10s")
        both = [*seen]
        seen.clear()
        # Without an offset the range is local time of the schedule: the night of the 29th.
        await ask("2026-05-29T00:00", "2026-05-30T00:00", schedule=schedule_id(nightly))
        await harness.advance("10s")
        return both

    assert play(scenario, open_store, sched) == [
        (datetime(2026, 5, 30, 0, tzinfo=UTC), "own"),
        (datetime(2026, 5, 30, 12, tzinfo=UTC), "own"),
        (datetime(2026, 5, 30, 22, tzinfo=UTC), "nightly"),
    ]
    assert seen == [(datetime(2026, 5, 28, 22, tzinfo=UTC), "nightly")]


def test_a_range_in_the_future_or_without_slots_is_no_error(open_store):
    sched, _ = program(otd.every("1h"))

    async def scenario(harness, ask):
        return await ask(START + HOUR, START + 2 * HOUR), await ask(START - HOUR / 2, START - HOUR / 3)

    for told in play(scenario, open_store, sched):
        assert (told.slots, told.run_ids, str(told)) == (0, (), "job: no slot in this range has passed")


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({"limit": 4}, "limit: expected at most 4 slots in the range, got more"),
        ({"limit": 0}, "limit: expected a whole number above zero, got 0"),
        ({"schedule": "hafl"}, "schedule: expected one of job 'job' (delay, half), got 'hafl', did you mean 'half'?"),
        ({"schedule": "delay"}, "a fixed delay; its slots follow its runs"),
        ({"end": START - 9 * HOUR}, "end: expected an instant after start"),
        ({"end": "soon"}, "end: expected a point in time"),
    ],
)
def test_a_refused_backfill_writes_nothing(asked, part):
    sched, _ = program(otd.every("30m", id="half"), otd.gap("30d", id="delay"))

    async def scenario(harness, ask):
        before = await harness.runs("job")
        with pytest.raises(DefinitionError) as refused:
            await ask(**({"start": START - 5 * HOUR, "end": START} | asked))
        assert await harness.runs("job") == before
        return str(refused.value)

    assert part in play(scenario, MemoryStore, sched)


def test_the_backfill_of_a_paused_job_waits_until_it_is_resumed(open_store):
    sched, seen = program(otd.every("1h"))

    async def scenario(harness, ask):
        record = await harness.store.queries.get_job("job")
        await harness.store.pause_job(record.id, reason="x")
        await ask(START - 2 * HOUR, START)
        await harness.advance("10s")
        assert seen == []
        await harness.store.resume_job(record.id, [])
        await harness.advance("10s")

    play(scenario, open_store, sched)
    assert [slot for slot, _ in seen] == [START - 2 * HOUR, START - HOUR]


def test_the_scheduler_runs_a_backfill():
    async def main():
        sched = otd.Scheduler("memory:")
        done = asyncio.Event()

        @sched.job(schedule=otd.cron("0 9 1 1 *"))
        async def yearly(ctx: otd.Context) -> None:
            if ctx.scheduled_at.year == 2025:
                done.set()

        async with sched:
            told = await sched.backfill("yearly", "2020-01-01T00:00", "2026-01-01T00:00")
            await asyncio.wait_for(done.wait(), 30)
            with pytest.raises(UnknownJob):
                await sched.backfill("nobody", "2020-01-01T00:00", "2026-01-01T00:00")
        return told

    assert (told := asyncio.run(main())).slots == len(told.run_ids) == 6
