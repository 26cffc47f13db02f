"""The next slot of a job can be moved or skipped, and all other slots keep their fate."""

import asyncio
import doctest
from datetime import UTC, datetime, timedelta

import pytest

import onthedot as otd
from onthedot.clock import SECOND, to_micros
from onthedot.model.errors import SlotSettled, UnknownJob, UnknownSlot
from onthedot.model.events import SlotsSkipped
from onthedot.operations import move_slot
from onthedot.operations.move_slot import move_next_slot, new_instant
from onthedot.operations.put_job import put_job, resume_job
from onthedot.schedules import next_after
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
T0 = to_micros(START)
SETTINGS = otd.Settings(poll_every=1 * SECOND)


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore
    return lambda clock: SqliteStore.open(tmp_path / "moving.db", clock=clock, inline=True)


def program(*schedules, **options) -> otd.Scheduler:
    sched = otd.Scheduler("memory:", settings=SETTINGS)

    @sched.job(name="job", schedules=schedules, **options)
    async def job() -> None: ...

    return sched


async def change(harness: Harness, job_id: int, to=None, slot=None):
    """Move the next slot, or skip it if `to` is None, as `move_next` and `skip_next` do."""
    names = [run.id for run in await harness.runs("job")]
    return await move_next_slot(
        harness.store, job_id, slot=slot, to=to, trigger=f"manual:{len(names)}", clock=harness.clock
    )


def play(scenario, open_store, sched):
    """Run a scenario, and return its answer, the runs as (due, trigger, state, reason), the skips and the events."""

    async def main():
        harness = Harness(START, store=open_store)
        await harness.start(sched)
        record = await harness.store.queries.get_job("job")
        assert record is not None
        answer = await scenario(harness, record.id)
        runs, skips = await harness.runs("job"), await harness.skips("job")
        await harness.stop()
        await harness.store.close()
        fates = sorted(
            ((run.due_at - T0) // SECOND, run.trigger.partition(":")[0], run.state.value, run.reason) for run in runs
        )
        ranges = [((skip.first - T0) // SECOND, (skip.last - T0) // SECOND, skip.count, skip.reason) for skip in skips]
        return answer, fates, ranges, harness.events

    return run_virtual(main())


def done(fates) -> list[int]:
    return [second for second, _, state, _ in fates if state == "succeeded"]


def test_the_next_slot_is_moved_and_the_others_stay(open_store):
    async def scenario(harness, job_id):
        await harness.advance("5s")
        moved = await change(harness, job_id, to="+4s")
        await harness.advance("30s")
        return moved

    moved, fates, ranges, _ = play(scenario, open_store, program(otd.every("10s")))
    assert moved.slot == START + timedelta(seconds=10)
    assert done(fates) == [14, 20, 30]
    assert (10, "schedule", "skipped", "moved") in fates
    assert (14, "manual", "succeeded", "") in fates
    assert ranges == []


def test_a_slot_that_is_not_planned_yet_can_be_moved_or_skipped(open_store):
    """Beyond the look-ahead there is no run yet. The planner finds the exception later and reports the skip."""

    async def scenario(harness, job_id):
        for _ in range(2):
            await change(harness, job_id)
        moved = await change(harness, job_id, to="-30s", slot=START + timedelta(minutes=3))
        await harness.advance("4m30s")
        return moved

    _, fates, ranges, events = play(scenario, open_store, program(otd.every("1m")))
    assert done(fates) == [150, 240]
    assert ranges == [(60, 120, 2, "cancelled"), (180, 180, 1, "moved")]
    told = [(event.slots, event.reason) for event in events if isinstance(event, SlotsSkipped)]
    assert told == [(1, "cancelled"), (1, "cancelled"), (1, "moved")]


def test_a_moved_slot_survives_an_edit_a_pause_and_a_restart(open_store):
    async def scenario(harness, job_id):
        await change(harness, job_id, to="+2m", slot=START + timedelta(seconds=20))
        await change(harness, job_id, slot=START + timedelta(seconds=40))
        await harness.advance("5s")
        await harness.stop()
        edited = program(otd.every("10s"), owner="ops", overlap="allow")
        await harness.start(edited)
        await harness.store.pause_job(job_id, reason="")
        await harness.advance("50s")
        resumed = await resume_job(harness.store, job_id, missed="all", clock=harness.clock, settings=SETTINGS)
        await harness.advance("90s")
        return [(slot - T0) // SECOND for slot in resumed.slots]

    planned, fates, ranges, _ = play(scenario, open_store, program(otd.every("10s"), overlap="allow"))
    assert planned == [10, 30, 50, 60, 70, 80]
    assert done(fates) == [10, 30, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 140]
    assert sorted(set(range(10, 150, 10)) - set(done(fates))) == [20, 40]
    assert ranges == [(40, 40, 1, "cancelled")]


def test_a_skipped_slot_is_not_counted_as_missed_after_an_outage(open_store):
    async def scenario(harness, job_id):
        await change(harness, job_id, slot=START + timedelta(minutes=3))
        await harness.stop()
        await harness.advance("6m")
        await harness.start(program(otd.every("1m"), catch_up=otd.CatchUp("none")))
        await harness.advance("70s")

    _, fates, ranges, _ = play(scenario, open_store, program(otd.every("1m"), catch_up=otd.CatchUp("none")))
    assert ranges == [(60, 120, 2, "missed"), (180, 180, 1, "cancelled"), (240, 300, 2, "missed")]
    assert done(fates) == [360, 420]


def test_a_moved_run_obeys_the_overlap_policy(open_store):
    """A slot is moved to the instant of the next one. The two runs execute one after the other."""
    sched = otd.Scheduler("memory:", settings=SETTINGS)
    spans: list[tuple[float, float]] = []

    @sched.job(name="job", schedule=otd.every("10s"))
    async def job() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await asyncio.sleep(3)
        spans.append((begun, loop.time()))

    async def scenario(harness, job_id):
        await harness.advance("5s")
        await change(harness, job_id, to="+10s")
        await harness.advance("24s")

    _, fates, _, _ = play(scenario, open_store, sched)
    assert done(fates) == [20, 20]
    (_, first_end), (second_begun, _) = spans
    assert first_end <= second_begun


def test_a_fixed_delay_continues_from_the_new_instant(open_store):
    """Slots come 10 s after the last end. One is moved by 7 s and one is skipped; the next ones follow from there."""

    async def scenario(harness, job_id):
        await harness.advance("5s")
        moved = await change(harness, job_id, to="+7s")
        await harness.advance("20s")
        skipped = await change(harness, job_id)
        await harness.advance("25s")
        return [round((one.slot_at - T0) / SECOND) for one in (moved, skipped)]

    changed, fates, _, _ = play(scenario, open_store, program(otd.gap("10s")))
    assert changed == [10, 27]
    assert [round(second) for second in done(fates)] == [0, 17, 37, 47]


def test_the_earliest_slot_of_all_schedules_is_the_next(open_store):
    """An instant that is a slot of two schedules is skipped once for each."""
    short, long = otd.every("20m", id="a"), otd.every("30m", id="b")

    async def scenario(harness, job_id):
        hour = START + timedelta(hours=1)
        answers = [await change(harness, job_id), await change(harness, job_id)]
        answers += [await change(harness, job_id, slot=hour) for _ in range(2)]
        again = await change(harness, job_id, slot=hour)
        return [(one.schedule_id, (one.slot_at - T0) // SECOND // 60) for one in [*answers, again]]

    answers, _, _, _ = play(scenario, open_store, program(short, long))
    assert answers == [("a", 20), ("b", 30), ("a", 60), ("b", 60), ("a", 60)]


def test_an_instant_that_is_no_slot_is_refused_with_the_nearest_slots(open_store):
    async def scenario(harness, job_id):
        with pytest.raises(UnknownSlot, match=r"got 2026-06-01T12:15:00.*12:10:00\+00:00, 2026-06-01T12:20:00"):
            await change(harness, job_id, slot=START + timedelta(minutes=15))
        with pytest.raises(UnknownSlot, match=r"the nearest: 2026-06-01T12:10:00\+00:00$"):
            await change(harness, job_id, slot=START - timedelta(minutes=15))
        with pytest.raises(SlotSettled, match="expected one that lies ahead, but it is past"):
            await change(harness, job_id, slot=START - timedelta(minutes=10))
        with pytest.raises(otd.DefinitionError, match="to: expected an instant that lies ahead"):
            await change(harness, job_id, to="-11m")

    play(scenario, open_store, program(otd.every("10m")))


def test_a_job_without_a_future_slot_is_refused(open_store):
    async def scenario(harness, job_id):
        with pytest.raises(UnknownSlot, match="none of its schedules yields another one"):
            await change(harness, job_id)

    play(scenario, open_store, program())


def test_a_slot_of_an_edited_job_is_chosen_by_the_new_schedule(open_store):
    """The verb has read the old schedule. The store refuses the write, and the verb reads again."""

    async def scenario(harness, job_id):
        queries, store = harness.store.queries, harness.store
        reading, edits = queries.schedules_of, [program(otd.every("7m", id="s")).jobs["job"]]

        async def schedules_of(wanted):
            states = await reading(wanted)
            if edits:
                await put_job(store, edits.pop(), clock=harness.clock, settings=SETTINGS)
            return states

        queries.schedules_of = schedules_of
        try:
            return (await change(harness, job_id)).slot
        finally:
            queries.schedules_of = reading

    slot, *_ = play(scenario, open_store, program(otd.every("10m", id="s")))
    assert to_micros(slot) == next_after(otd.every("7m"), T0, origin=T0)


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("+1h30m", 9000),
        ("-30m", 1800),
        (timedelta(minutes=1), 3660),
        (datetime(1970, 1, 1, 5, tzinfo=UTC), 18000),
        ("1970-01-01T05:00Z", 18000),
        ("1970-01-01T05:00", 14400),
        ("now", 100),
    ],
)
def test_a_slot_may_be_moved_to_these_instants(to, expected):
    moved = new_instant(to, 3600 * SECOND, now=100 * SECOND, tz="Europe/Berlin")
    assert moved == expected * SECOND


@pytest.mark.parametrize("to", ["2h", "+", "+2 parsecs", "tomorrow", "1970-01-01T00:00Z", 5])
def test_a_slot_may_not_be_moved_to_other_values(to):
    with pytest.raises(otd.DefinitionError, match=r"^to: expected"):
        new_instant(to, 3600 * SECOND, now=100 * SECOND)


async def test_the_verbs_of_the_scheduler_move_and_skip_slots(tmp_path):
    sched = otd.Scheduler(f"sqlite:///{tmp_path}/verbs.db")

    @sched.job(schedule=otd.cron("0 9 1 1 *", tz="Europe/Berlin"))
    async def report() -> None: ...

    async with sched:
        moved = await sched.move_next("report", to="+2h")
        again = await sched.skip_next("report")
        assert again.slot.year == moved.slot.year + 1
        assert moved.run_id is not None
        run = await sched.get_run(moved.run_id)
        assert run is not None
        assert run.due_at == moved.slot_at + 7200 * SECOND
        with pytest.raises(SlotSettled, match=rf"got moved; run {moved.run_id} takes its place"):
            await sched.move_next("report", to="+3h", slot=moved.slot)
        assert await sched.skip_next("report", slot=again.slot) == again
        with pytest.raises(UnknownJob, match="did you mean 'report'"):
            await sched.skip_next("reprot")


def test_the_examples_are_correct():
    result = doctest.testmod(move_slot)
    assert result.attempted > 0
    assert result.failed == 0
