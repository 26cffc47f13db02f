"""Jitter, arguments, bounds and several instants of a schedule take effect in windows and in runs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import onthedot as otd
from onthedot.clock import SECOND, to_micros
from onthedot.model.errors import ArgumentsError, DefinitionError
from onthedot.model.job import Call, Job, JobRecord, JobState
from onthedot.model.run import RunState
from onthedot.model.window import ScheduleState, SkipRange, SlotException
from onthedot.operations.put_job import put_job
from onthedot.rules.windows import edit_windows, plan_window, resume_windows
from onthedot.schedules import due_of, schedule_id
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
NOW, LATE, MINUTE = to_micros(START), 30 * SECOND, 60 * SECOND
SETTINGS = otd.Settings(poll_every=1 * SECOND)


def job(*schedules, **options) -> Job:
    return Job(name="job", task=Call(handler="job"), schedules=schedules, **options)


def state(definition: Job, *, watermark: int, number: int = 0, exceptions=()) -> ScheduleState:
    record = JobRecord(1, 1, definition, JobState.ACTIVE, 0, 0)
    name = schedule_id(definition.schedules[number])
    return ScheduleState(record, name, NOW - 9_999 * MINUTE, watermark, watermark, None, tuple(exceptions))


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore
    return lambda clock: SqliteStore.open(tmp_path / "options.db", clock=clock, inline=True)


# ── windows ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("catch_up", [otd.CatchUp("none"), otd.CatchUp("last"), otd.CatchUp("all", limit=3)])
def test_every_window_gives_a_slot_the_same_due_instant_and_arguments(catch_up):
    schedule = otd.every("1m", jitter="45s", args={"kind": "minutely"})
    definition = job(schedule, args={"kind": "own", "n": 1}, catch_up=catch_up)
    due, ahead = due_of(definition, schedule), 5 * MINUTE
    planned = plan_window(state(definition, watermark=NOW), until=NOW + ahead, now=NOW, late_after=LATE)
    [edited] = edit_windows(definition, {}, now=NOW, lookahead=ahead, late_after=LATE)
    paused = state(definition, watermark=NOW)
    [resumed] = resume_windows([paused], missed="none", now=NOW, lookahead=ahead, late_after=LATE)
    assert planned is not None
    assert planned.slots == edited.slots == resumed.slots
    assert len(planned.slots) == 5
    for slot in planned.slots:
        assert slot.due == due(slot.slot_at)
        assert slot.args == '{"kind":"minutely","n":1}'
        assert slot.expires_at is not None
        assert slot.expires_at >= slot.due + LATE


def test_a_slot_is_missed_if_its_due_instant_is_too_long_ago():
    schedule = otd.every("1m", jitter="59s")
    definition = job(schedule, catch_up=otd.CatchUp("none"))
    due = due_of(definition, schedule)
    window = plan_window(state(definition, watermark=NOW - 9 * MINUTE), until=NOW, now=NOW, late_after=LATE)
    assert window is not None
    alive = [slot for slot in range(NOW - 8 * MINUTE, NOW + 1, MINUTE) if due(slot) + LATE > NOW]
    assert [slot.slot_at for slot in window.slots] == alive
    assert sum(skip.count for skip in window.skips) == 9 - len(alive)


@pytest.mark.parametrize("catch_up", [otd.CatchUp("none"), otd.CatchUp("last"), otd.CatchUp("all", limit=7)])
def test_a_year_of_missed_slots_is_planned_in_one_step(catch_up):
    schedule = otd.every("1s", jitter="90s")
    definition = job(schedule, catch_up=catch_up)
    long, short = NOW - 365 * 86_400 * SECOND, NOW - 500 * SECOND
    jumped, walked = (
        plan_window(state(definition, watermark=mark), until=NOW + SECOND, now=NOW, late_after=LATE)
        for mark in (long, short)
    )
    assert jumped is not None
    assert walked is not None
    assert jumped.slots == walked.slots
    fated = [len(one.slots) + sum(skip.count for skip in one.skips) for one in (jumped, walked)]
    assert fated == [365 * 86_400 + 1, 501]


def test_a_range_of_missed_slots_ends_with_its_schedule():
    end = START - timedelta(days=100)
    definition = job(otd.every("1s", end=end))
    off = state(definition, watermark=NOW - 101 * 86_400 * SECOND)
    window = plan_window(off, until=NOW, now=NOW, late_after=LATE)
    assert window is not None
    [skip] = window.skips
    assert (skip.count, skip.last, window.next_at) == (86_399, to_micros(end) - SECOND, None)
    assert [slot.slot_at for slot in window.slots] == [to_micros(end)]  # the newest slot runs even if it is very late


def test_instants_before_the_definition_become_one_missed_range():
    moments = [START + timedelta(minutes=n) for n in (-3, -2, -1, 1, 60)]
    definition = job(otd.at(*moments))
    [window] = edit_windows(definition, {}, now=NOW, lookahead=2 * MINUTE, late_after=LATE)
    assert window.skips == [SkipRange(NOW - 3 * MINUTE, NOW - MINUTE, 3, "missed")]
    assert [slot.slot_at for slot in window.slots] == [NOW + MINUTE]
    assert (window.end, window.next_at) == (NOW + 2 * MINUTE, NOW + 60 * MINUTE)


async def test_an_edit_does_not_record_the_instants_before_the_creation_again():
    """Recorded again, they would overlap the exception of a moved instant, and the edit would stay stale."""
    definition = job(otd.at(*(START + timedelta(minutes=n) for n in (-3, -2, 1)), id="s"))
    known = state(definition, watermark=NOW, exceptions=[SlotException(NOW - 2 * MINUTE, "moved", recorded=True)])
    [window] = edit_windows(definition, {"s": known}, now=NOW, lookahead=2 * MINUTE, late_after=LATE)
    assert window.skips == ()


# ── through a node ───────────────────────────────────────────────────────────────────────────────────────────


def play(open_store, sched, length, *, at=START):
    async def main():
        harness = Harness(at, store=open_store)
        await harness.start(sched)
        await harness.advance(length)
        record = await harness.store.queries.get_job("job")
        runs, skips = await harness.runs("job"), await harness.skips("job")
        await harness.stop()
        await harness.store.close()
        return record, runs, skips

    return run_virtual(main())


def test_runs_start_with_the_jitter_and_arguments_of_their_schedule(open_store):
    sched, seen = otd.Scheduler("memory:", settings=SETTINGS), []
    minutely = otd.every("1m", jitter="40s", args={"kind": "minutely"})

    @sched.job(name="job", schedules=[minutely, otd.every("3m", id="own")], overlap="allow", args={"n": 1})
    async def handler(ctx: otd.Context, n: int, kind: str = "none") -> None:
        seen.append((kind, n, to_micros(ctx.scheduled_at)))

    _, runs, skips = play(open_store, sched, "6m50s")
    due = due_of(sched.jobs["job"], minutely)
    mine = [run for run in runs if run.trigger == f"schedule:{schedule_id(minutely)}" and run.ended_at]
    assert [run.slot_at for run in mine] == [NOW + n * MINUTE for n in range(1, 7)]
    assert all(run.due_at == due(run.slot_at) and run.started_at == run.due_at for run in mine)
    assert {kind for kind, n, _ in seen if n == 1} == {"minutely", "none"}
    assert sum(kind == "minutely" for kind, _, _ in seen) == 6
    assert skips == []


def test_a_job_is_exhausted_when_its_schedules_end(open_store):
    sched = otd.Scheduler("memory:", settings=SETTINGS)

    @sched.job(
        name="job", schedules=[otd.every("1m", max_count=3), otd.cron("* * * * *", end=START + timedelta(minutes=2))]
    )
    async def handler() -> None: ...

    record, runs, skips = play(open_store, sched, "10m")
    assert record is not None
    assert record.state is JobState.EXHAUSTED
    assert [(run.slot_at - NOW) // MINUTE for run in runs] == [1, 1, 2, 2, 3]
    assert {run.state for run in runs} == {RunState.SUCCEEDED}
    assert skips == []


def test_past_instants_are_recorded_as_missed_and_future_ones_run(open_store):
    sched = otd.Scheduler("memory:", settings=SETTINGS)

    @sched.job(name="job", schedule=otd.at(*(START + timedelta(minutes=n) for n in (-9, -5, 1, 3))))
    async def handler() -> None: ...

    record, runs, skips = play(open_store, sched, "10m")
    assert record is not None
    assert record.state is JobState.EXHAUSTED
    assert [run.slot_at for run in runs] == [NOW + MINUTE, NOW + 3 * MINUTE]
    [skip] = skips
    assert (skip.first, skip.last, skip.count, skip.reason) == (NOW - 9 * MINUTE, NOW - 5 * MINUTE, 2, "missed")


async def test_an_edited_job_keeps_the_values_of_its_h_fields():
    from onthedot.clock import SystemClock

    store = MemoryStore()
    definition = job(otd.cron("H H * * *"))
    first = await put_job(store, definition, clock=SystemClock(), settings=SETTINGS)
    again = await put_job(store, replace(definition, args={"n": 1}), clock=SystemClock(), settings=SETTINGS)
    assert (first.change, again.change) == ("created", "changed")
    [before] = first.record.job.schedules
    [after] = again.record.job.schedules
    assert before == after
    assert getattr(after, "spread", None) == "default/job"
    await store.close()


# ── arguments are checked when they are defined ──────────────────────────────────────────────────────────────


async def test_arguments_of_a_schedule_must_fit_the_handler():
    sched = otd.Scheduler("memory:")

    @sched.job(schedules=[otd.every("1h", args={"region": "eu"}), otd.every("2h", args={"regoin": "us"})])
    async def report(region: str) -> None: ...

    with pytest.raises(ArgumentsError, match="missing a required argument: 'region'"):
        await sched.start()


async def test_a_job_needs_no_argument_that_all_its_schedules_provide():
    sched = otd.Scheduler("memory:")

    @sched.job(schedules=[otd.every("1h", args={"region": "eu"}), otd.every("2h", args={"region": "us"})])
    async def report(region: str) -> None: ...

    async with sched:
        with pytest.raises(ArgumentsError, match="region"):
            await sched.trigger("report")


def test_arguments_of_a_schedule_must_be_json_and_small():
    with pytest.raises(DefinitionError, match="text as the keys"):
        otd.Scheduler("memory:").job(schedule=otd.every("1h", args={"a": {1: 2}}))(lambda a: None)
    with pytest.raises(DefinitionError, match="at most 65536"):
        otd.Scheduler("memory:").job(schedule=otd.every("1h", args={"a": "x" * 70_000}))(lambda a: None)
