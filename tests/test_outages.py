"""After an outage, and in nights of clock changes, exactly the right slots run, in virtual time."""

import asyncio
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

import onthedot as otd
from onthedot.clock import SECOND, to_datetime
from onthedot.model.events import RunMissed, SlotsSkipped
from onthedot.model.policies import CatchUpMode
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual

# Rare polls make a virtual hour fast. They change no result, because no start waits for a poll.
QUIET = otd.Settings(poll_every=30 * SECOND, expire_every=10 * SECOND, reap_every=10 * SECOND)


@pytest.fixture(params=["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
def open_store(request, tmp_path):
    """A function that opens a store for a harness; the same tables hold on each store."""
    if request.param == "memory":
        return MemoryStore
    return lambda clock: SqliteStore.open(tmp_path / "outage.db", clock=clock, inline=True)


def every_ten_minutes(catch_up: otd.CatchUp) -> otd.Scheduler:
    sched = otd.Scheduler("memory:", settings=QUIET)

    @sched.job(schedule=otd.cron("*/10 * * * *"), catch_up=catch_up)
    async def job() -> None: ...

    return sched


def clock_times(instants) -> list[str]:
    return [to_datetime(instant).strftime("%H:%M") for instant in instants]


OUTAGES = {
    # policy: (runs caught up at 13:05, skipped ranges (first, last, count))
    "none": (otd.CatchUp("none"), [], [("10:10", "13:00", 18)]),
    "last": (otd.CatchUp("last"), ["13:00"], [("10:10", "12:50", 17)]),
    "all, five slots": (
        otd.CatchUp("all", limit=5),
        ["12:20", "12:30", "12:40", "12:50", "13:00"],
        [("10:10", "12:10", 13)],
    ),
    "all, one hour": (
        otd.CatchUp("all", window="1h"),
        ["12:10", "12:20", "12:30", "12:40", "12:50", "13:00"],
        [("10:10", "12:00", 12)],
    ),
    "all, all of it": (
        otd.CatchUp("all", limit=100, window="1d"),
        [*(f"{hour}:{minute:02}" for hour in (10, 11, 12) for minute in range(0, 60, 10)), "13:00"][1:],
        [],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop", "crash"])
@pytest.mark.parametrize("policy", OUTAGES)
def test_an_outage_of_three_hours_is_caught_up_by_the_policy(policy, end, open_store):
    catch_up, caught_up, skipped = OUTAGES[policy]

    async def scenario():
        harness = Harness(datetime(2026, 6, 1, 9, 45, tzinfo=UTC), store=open_store)
        await harness.start(every_ten_minutes(catch_up))
        await harness.advance_to(datetime(2026, 6, 1, 10, 5, tzinfo=UTC))
        await getattr(harness, end)()
        await harness.advance_to(datetime(2026, 6, 1, 13, 5, tzinfo=UTC))
        await harness.start(every_ten_minutes(catch_up))
        await harness.advance("10m")
        runs, skips = await harness.runs("job"), await harness.skips("job")
        await harness.stop()
        await harness.store.close()
        return runs, skips, harness.events

    runs, skips, events = run_virtual(scenario())
    done = [run for run in runs if run.state == "succeeded"]
    assert clock_times(run.slot_at for run in done) == ["09:50", "10:00", *caught_up, "13:10"]
    late = [run for run in done if run.started_at - run.due_at > 30_000_000]
    assert clock_times(run.slot_at for run in late) == caught_up
    assert {(run.started_at - to_micros_at(13, 5)) < 1_000_000 for run in late} <= {True}
    ranges = [(*clock_times([skip.first, skip.last]), skip.count) for skip in skips]
    assert ranges == skipped
    assert {skip.reason for skip in skips} <= {"missed"}
    assert {run.state for run in runs} <= {"succeeded", "scheduled", "reserved"}
    told = [event for event in events if isinstance(event, SlotsSkipped)]
    assert sum(event.slots for event in told) == sum(count for _, _, count in skipped)


def to_micros_at(hour: int, minute: int) -> int:
    return int(datetime(2026, 6, 1, hour, minute, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("mode", "succeeded", "missed_run", "skipped"),
    [
        ("none", ["10:00", "13:10"], ["10:10"], [("10:20", "13:00", 17)]),
        ("last", ["10:00", "13:00", "13:10"], ["10:10"], [("10:20", "12:50", 16)]),
    ],
)
def test_a_slot_planned_before_the_outage_obeys_the_same_policy(mode, succeeded, missed_run, skipped, open_store):
    sched = every_ten_minutes(otd.CatchUp(mode))

    async def scenario():
        harness = Harness(datetime(2026, 6, 1, 9, 55, tzinfo=UTC), store=open_store)
        await harness.start(sched)
        await harness.advance_to(datetime(2026, 6, 1, 10, 9, 45, tzinfo=UTC))
        await harness.crash()
        await harness.advance_to(datetime(2026, 6, 1, 13, 5, tzinfo=UTC))
        await harness.start(sched)
        await harness.advance("10m")
        runs, skips = await harness.runs("job"), await harness.skips("job")
        await harness.stop()
        await harness.store.close()
        return runs, skips, harness.events

    runs, skips, events = run_virtual(scenario())
    assert clock_times(run.slot_at for run in runs if run.state == "succeeded") == succeeded
    assert clock_times(run.slot_at for run in runs if run.state == "skipped") == missed_run
    assert [run.reason for run in runs if run.state == "skipped"] == ["missed"]
    assert [(*clock_times([skip.first, skip.last]), skip.count) for skip in skips] == skipped
    assert [clock_times([event.run.slot_at]) for event in events if isinstance(event, RunMissed)] == [missed_run]


BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
NIGHTS = [
    # zone, night, expression, options, starts in UTC
    (BERLIN, "2026-03-29", "30 2 * * *", {}, ["01:00"]),  # 02:30 does not exist: right after the gap
    (BERLIN, "2026-03-29", "30 2 * * *", {"gap": "skip"}, []),
    (BERLIN, "2026-03-29", "0 3 * * *", {}, ["01:00"]),
    (BERLIN, "2026-03-29", "30 * * * *", {}, ["23:30", "00:30", "01:30", "02:30", "03:30"]),
    (BERLIN, "2026-10-25", "30 2 * * *", {}, ["00:30"]),  # 02:30 comes twice: the first
    (BERLIN, "2026-10-25", "30 2 * * *", {"fold": "second"}, ["01:30"]),
    (BERLIN, "2026-10-25", "30 2 * * *", {"fold": "both"}, ["00:30", "01:30"]),
    (BERLIN, "2026-10-25", "30 * * * *", {}, ["22:30", "23:30", "00:30", "01:30", "02:30", "03:30", "04:30"]),
    (NEW_YORK, "2026-03-08", "30 2 * * *", {}, ["07:00"]),
    (NEW_YORK, "2026-03-08", "30 2 * * *", {"gap": "skip"}, []),
    (NEW_YORK, "2026-03-08", "*/30 1-3 * * *", {}, ["06:00", "06:30", "07:00", "07:30"]),
    (NEW_YORK, "2026-11-01", "30 1 * * *", {}, ["05:30"]),
    (NEW_YORK, "2026-11-01", "30 1 * * *", {"fold": "second"}, ["06:30"]),
    (NEW_YORK, "2026-11-01", "0 * * * *", {}, ["05:00", "06:00", "07:00", "08:00", "09:00", "10:00"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("zone", "night", "expression", "options", "starts"), NIGHTS)
def test_a_cron_job_starts_on_time_in_a_night_of_a_clock_change(zone, night, expression, options, starts):
    sched = otd.Scheduler("memory:", settings=QUIET)
    schedule = otd.cron(expression, tz=zone, **options)

    @sched.job(schedule=schedule)
    async def job() -> None: ...

    async def scenario():
        evening = datetime.fromisoformat(night).replace(tzinfo=ZoneInfo(zone))  # midnight, wall clock
        harness = Harness(evening)
        await harness.start(sched)
        await harness.advance_to(evening.replace(hour=5, minute=45).astimezone(UTC))
        runs, skips = await harness.runs("job"), await harness.skips("job")
        await harness.stop()
        return runs, skips

    runs, skips = run_virtual(scenario())
    done = [run for run in runs if run.state == "succeeded"]
    assert clock_times(run.slot_at for run in done) == starts
    assert all(0 <= run.started_at - run.due_at < 1000 for run in done)
    assert [run for run in runs if run.state not in ("succeeded", "scheduled", "reserved")] == []
    assert skips == []


@pytest.mark.parametrize(
    ("night", "caught_up", "missed"),
    [
        # the node is down from 00:30 to 04:30 of the wall clock; `30 2 * * *` in Berlin, catch-up "last"
        ("2026-03-29", ["01:00"], 0),
        ("2026-10-25", ["00:30"], 0),
    ],
)
def test_a_slot_missed_in_a_night_of_a_clock_change_is_caught_up_once(night, caught_up, missed, open_store):
    sched = otd.Scheduler("memory:", settings=QUIET)

    @sched.job(schedule=otd.cron("30 2 * * *", tz=BERLIN))
    async def job() -> None: ...

    async def scenario():
        midnight = datetime.fromisoformat(night).replace(tzinfo=ZoneInfo(BERLIN))
        harness = Harness(midnight, store=open_store)
        await harness.start(sched)
        await harness.advance("30m")
        await harness.crash()
        await harness.advance_to(midnight.replace(hour=4, minute=30).astimezone(UTC))
        await harness.start(sched)
        await harness.advance("1m")
        runs, skips = await harness.runs("job"), await harness.skips("job")
        await harness.stop()
        await harness.store.close()
        return runs, skips

    runs, skips = run_virtual(scenario())
    assert clock_times(run.slot_at for run in runs if run.state == "succeeded") == caught_up
    assert sum(skip.count for skip in skips) == missed


SLOTS = [f"12:00:{second:02}" for second in range(3, 21, 3)]  # of a job that runs every three seconds


def after_an_outage(open_store, overlap: otd.Overlap, catch_up: CatchUpMode, *, takes: float = 0.1):
    """Crash the node from 12:00:01 to 12:00:20. Return the slots that ran, in order, and why the others did not."""
    sched, ran, running = otd.Scheduler("memory:"), [], []

    @sched.job(schedule=otd.every("3s"), overlap=overlap, catch_up=catch_up)
    async def tick(ctx: otd.Context) -> None:
        ran.append(f"{ctx.scheduled_at:%H:%M:%S}")
        running.append(ctx.run_id)
        assert len(running) <= {"allow": overlap.max_running or len(SLOTS)}.get(overlap.mode, 1)
        await asyncio.sleep(takes)
        running.remove(ctx.run_id)

    async def scenario():
        harness = Harness(datetime(2026, 6, 1, 12, tzinfo=UTC), store=open_store)
        await harness.start(sched)
        await harness.advance("1s")
        await harness.crash()
        await harness.advance("19s")
        await harness.restart()
        await harness.advance("800ms")
        slots = {run.id: f"{run.slot:%H:%M:%S}" for run in await harness.runs("tick")}
        skipped = {}
        for run in await harness.runs("tick", state="skipped"):
            [named] = [slots[other] for other in slots if f"run {other} " in str(run.error)]
            skipped[slots[run.id]] = (run.reason, named)
        await harness.stop()
        await harness.store.close()
        return skipped

    skipped = run_virtual(scenario())
    return ran, skipped


@pytest.mark.parametrize("catch_up", ["none", "last", "all"])
@pytest.mark.parametrize(
    "overlap", [otd.Overlap("wait"), otd.Overlap("wait", max_waiting=0), otd.Overlap("allow")], ids=str
)
def test_wait_and_allow_run_all_overdue_slots_in_order(overlap, catch_up, open_store):
    assert after_an_outage(open_store, overlap, catch_up) == (SLOTS, {})


def test_allow_runs_overdue_slots_at_the_same_time_up_to_its_limit(open_store):
    assert after_an_outage(open_store, otd.Overlap("allow", max_running=2), "last") == (SLOTS, {})


@pytest.mark.parametrize("catch_up", ["none", "last"])
@pytest.mark.parametrize(("mode", "reason"), [("skip", "missed"), ("replace", "replaced")])
def test_skip_and_replace_run_the_newest_overdue_slot_only(mode, reason, catch_up, open_store):
    ran, skipped = after_an_outage(open_store, otd.Overlap(mode), catch_up)
    assert ran == SLOTS[-1:]
    assert skipped == dict.fromkeys(SLOTS[:-1], (reason, SLOTS[-1]))


@pytest.mark.parametrize("mode", ["skip", "replace"])
def test_skip_and_replace_run_all_overdue_slots_if_all_are_caught_up(mode, open_store):
    assert after_an_outage(open_store, otd.Overlap(mode), "all") == (SLOTS, {})
