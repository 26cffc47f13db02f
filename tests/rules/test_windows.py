"""A window gives each slot of a schedule exactly one fate: a run or a skip with the right reason."""

import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onthedot as otd
from onthedot.clock import SECOND, to_micros
from onthedot.model.job import Call, Job, JobRecord, JobState
from onthedot.model.window import ScheduleState, SkipRange, Slot, SlotException
from onthedot.rules.moved_slots import runs_over, settle
from onthedot.rules.windows import MOST_SLOTS, edit_windows, plan_window, resume_windows
from onthedot.schedules import schedule_id, slots

NOW = to_micros(datetime(2026, 6, 1, 12, 0, tzinfo=UTC))
LATE = 30 * SECOND
MINUTE = 60 * SECOND


def job(*schedules, catch_up=None) -> Job:
    return Job(name="j", task=Call(handler="j"), schedules=schedules, catch_up=catch_up or otd.CatchUp())


def state(definition: Job, schedule, *, watermark, origin=NOW - 9 * MINUTE, last_end=None) -> ScheduleState:
    record = JobRecord(1, 1, definition, JobState.ACTIVE, 0, 0)
    return ScheduleState(record, schedule_id(schedule), origin, watermark, watermark, last_end)


def test_a_window_continues_from_the_watermark():
    every = otd.every("1m")
    window = plan_window(state(job(every), every, watermark=NOW), until=NOW + 150 * SECOND, now=NOW, late_after=LATE)
    assert window is not None
    assert (window.start, window.end, window.next_at) == (NOW, NOW + 150 * SECOND, NOW + 3 * MINUTE)
    assert window.slots == [Slot(NOW + n * MINUTE, NOW + (n + 1) * MINUTE) for n in (1, 2)]
    assert window.skips == []


def test_missed_slots_are_one_range():
    every = otd.every("1m")
    late = state(job(every), every, watermark=NOW - 60 * MINUTE)
    window = plan_window(late, until=NOW, now=NOW, late_after=LATE)
    assert window is not None
    [skip] = window.skips
    assert (skip.first, skip.last, skip.count, skip.reason) == (NOW - 59 * MINUTE, NOW - MINUTE, 59, "missed")
    assert [slot.slot_at for slot in window.slots] == [NOW]


def test_a_long_outage_is_processed_in_bounded_steps():
    cron = otd.cron("* * * * * *")
    window = plan_window(state(job(cron), cron, watermark=NOW - 86_400 * SECOND), until=NOW, now=NOW, late_after=LATE)
    assert window is not None
    assert window.skips[0].count == MOST_SLOTS
    assert window.end == NOW - 86_400 * SECOND + MOST_SLOTS * SECOND
    assert window.next_at == window.end + SECOND


@pytest.mark.parametrize("catch_up", [otd.CatchUp("none"), otd.CatchUp("last"), otd.CatchUp("all", limit=7)])
def test_a_year_of_missed_slots_is_one_step_for_an_interval(catch_up):
    """The slots are counted without iteration, with the same result."""
    every, year = otd.every("1s"), 365 * 86_400
    off = state(job(every, catch_up=catch_up), every, watermark=NOW - year * SECOND, origin=NOW - 2 * year * SECOND)
    window = plan_window(off, until=NOW + 5 * SECOND, now=NOW, late_after=LATE)
    assert window is not None
    [skip] = window.skips
    assert skip.count + len(window.slots) == year + 5
    assert skip.first == NOW - (year - 1) * SECOND
    assert window.slots[0].slot_at == skip.last + SECOND
    assert skip.last == NOW - 30 * SECOND  # no slot younger than late_after is missed
    assert (window.end, window.next_at) == (NOW + 5 * SECOND, NOW + 6 * SECOND)


@pytest.mark.parametrize(
    ("catch_up", "runs"),
    [
        (otd.CatchUp("none"), 0),
        (otd.CatchUp("last"), 1),
        (otd.CatchUp("all", limit=7), 7),
        (otd.CatchUp("all", limit=7, window="20s"), 0),
    ],
)
def test_the_last_slots_of_an_ended_interval_expire_by_its_catch_up(catch_up, runs):
    """No later slot makes them expire. With `last` the newest one runs, however late it is.

    With `all` they have their whole window.
    """
    every = otd.every("1s", end=datetime(2026, 6, 1, 11, 59, tzinfo=UTC))
    off = state(job(every, catch_up=catch_up), every, watermark=NOW - 3_600 * SECOND, origin=NOW - 7_200 * SECOND)
    window = plan_window(off, until=NOW + 5 * SECOND, now=NOW, late_after=LATE)
    assert window is not None
    newest = NOW - MINUTE
    assert [slot.slot_at for slot in window.slots] == [newest - n * SECOND for n in reversed(range(runs))]
    assert [(skip.last, skip.count) for skip in window.skips] == [(newest - runs * SECOND, 3_540 - runs)]
    assert window.next_at is None


def test_a_window_of_a_fixed_delay_ends_at_its_slot_after_the_last_end():
    gap = otd.gap("10m")
    waiting = state(job(gap), gap, watermark=NOW - 20 * MINUTE, last_end=NOW - 15 * MINUTE)
    window = plan_window(waiting, until=NOW, now=NOW, late_after=LATE)
    assert window is not None
    assert (window.slots, window.end, window.next_at) == ([Slot(NOW - 5 * MINUTE, None)], NOW - 5 * MINUTE, None)


def test_no_window_is_planned_for_a_removed_schedule():
    assert plan_window(state(job(), otd.every("1m"), watermark=NOW), until=NOW, now=NOW, late_after=LATE) is None


def test_a_new_job_gets_the_runs_of_the_look_ahead():
    definition = job(otd.every("10s"), otd.gap("1h"), otd.in_("5s"))
    every, gap, once = edit_windows(definition, {}, now=NOW, lookahead=30 * SECOND, late_after=LATE)
    assert [slot.slot_at - NOW for slot in every.slots] == [10 * SECOND, 20 * SECOND, 30 * SECOND]
    assert (len(gap.slots), gap.delay, gap.next_at) == (1, 3600 * SECOND, None)
    assert [slot.slot_at - NOW for slot in once.slots] == [5 * SECOND]
    assert once.next_at is None


def test_an_edit_keeps_the_origin_of_schedules_that_stay():
    once = otd.in_("10m")
    known = {schedule_id(once): state(job(once), once, watermark=NOW, origin=NOW - 590 * SECOND)}
    [window] = edit_windows(job(once), known, now=NOW, lookahead=30 * SECOND, late_after=LATE)
    assert [slot.slot_at - NOW for slot in window.slots] == [10 * SECOND]


def test_overdue_slots_of_a_removed_schedule_are_recorded_as_edited():
    dropped, kept = otd.every("1m"), otd.every("1h")
    known = {schedule_id(dropped): state(job(dropped), dropped, watermark=NOW - 5 * MINUTE)}
    windows = edit_windows(job(kept), known, now=NOW, lookahead=30 * SECOND, late_after=LATE)
    [closing] = [window for window in windows if window.schedule_id == schedule_id(dropped)]
    [skip] = closing.skips
    assert (closing.start, closing.end, closing.slots) == (NOW - 5 * MINUTE, NOW, ())
    assert (skip.count, skip.reason, skip.last) == (5, "edited", NOW)


# ── exceptions: slots that were moved or cancelled ahead ─────────────────────────────────────────────────────


def minutes(*ranges: SkipRange) -> list[tuple[int, int, int, str]]:
    """Return ranges as (first, last, count, reason), in minutes from now."""
    return [((one.first - NOW) // MINUTE, (one.last - NOW) // MINUTE, one.count, one.reason) for one in ranges]


def excepting(schedule, *fates: SlotException, watermark=NOW) -> ScheduleState:
    return replace(state(job(schedule), schedule, watermark=watermark), exceptions=fates)


def test_an_exception_becomes_a_skip_and_no_run():
    every = otd.every("1m")
    moved = excepting(
        every, SlotException(NOW + MINUTE, "moved"), SlotException(NOW + 2 * MINUTE, "cancelled", recorded=True)
    )
    window = plan_window(moved, until=NOW + 3 * MINUTE, now=NOW, late_after=LATE)
    assert window is not None
    assert [slot.slot_at for slot in window.slots] == [NOW + 3 * MINUTE]
    assert minutes(*window.skips) == [(1, 1, 1, "moved")]
    assert settle(window, moved.exceptions) == window


def test_exceptions_divide_a_range_of_missed_slots():
    """An unrecorded exception gets its own skip, a recorded one has it already, and one at no slot only divides."""
    every = otd.every("1m")
    fates = [SlotException(NOW - 50 * MINUTE, "moved"), SlotException(NOW - 30 * MINUTE, "cancelled", recorded=True)]
    late = excepting(every, *fates, SlotException(NOW - 20 * MINUTE + 1, "moved"), watermark=NOW - 60 * MINUTE)
    window = plan_window(late, until=NOW, now=NOW, late_after=LATE)
    assert window is not None
    assert minutes(*window.skips) == [
        (-59, -51, 9, "missed"),
        (-50, -50, 1, "moved"),
        (-49, -31, 19, "missed"),
        (-29, -20, 10, "missed"),
        (-19, -1, 19, "missed"),
    ]
    assert not runs_over(window, late.exceptions)


def test_a_year_of_missed_slots_is_counted_around_an_exception():
    every, year = otd.every("1s"), 365 * 86_400
    off = excepting(every, SlotException(NOW - 1000 * SECOND, "moved"), watermark=NOW - year * SECOND)
    window = plan_window(off, until=NOW, now=NOW, late_after=LATE)
    assert window is not None
    assert [skip.reason for skip in window.skips] == ["missed", "moved", "missed"]
    assert sum(skip.count for skip in window.skips) + len(window.slots) == year


def test_an_edit_keeps_exceptions():
    every = otd.every("1m")
    moved = excepting(every, SlotException(NOW + MINUTE, "moved"))
    [window] = edit_windows(job(every), {moved.schedule_id: moved}, now=NOW, lookahead=2 * MINUTE, late_after=LATE)
    assert [slot.slot_at for slot in window.slots] == [NOW + 2 * MINUTE]
    assert minutes(*window.skips) == [(1, 1, 1, "moved")]


@pytest.mark.parametrize(
    ("missed", "late", "gone"),
    [
        ("none", [], [(-5, -4, 2, "paused"), (-3, -3, 1, "moved"), (-2, -1, 2, "paused")]),
        ("last", [-1], [(-5, -4, 2, "paused"), (-3, -3, 1, "moved"), (-2, -2, 1, "paused")]),
        ("all", [-5, -4, -2, -1], [(-3, -3, 1, "moved")]),
    ],
)
def test_a_resume_keeps_exceptions(missed, late, gone):
    """An exception is no missed slot: it does not run late, and does not count as the last one."""
    every = otd.every("1m")
    fates = [SlotException(NOW - 3 * MINUTE, "moved"), SlotException(NOW, "cancelled", recorded=True)]
    paused = excepting(every, *fates, watermark=NOW - 6 * MINUTE)
    [window] = resume_windows([paused], missed=missed, now=NOW, lookahead=MINUTE, late_after=LATE)
    assert [(slot.slot_at - NOW) // MINUTE for slot in window.slots] == [*late, 1]
    assert minutes(*window.skips) == gone


KEPT = {"none": 0, "last": 1, "all": MOST_SLOTS}


@settings(max_examples=60, deadline=None)
@given(
    schedule=st.sampled_from(
        [
            otd.every("1m"),
            otd.every("7s"),
            otd.every("1m", max_count=40),
            otd.cron("* * * * *", max_count=30),
            otd.cron("*/5 * * * * *"),
            otd.cron("0,30 2,3 * * *", tz="Europe/Berlin", fold="both"),
            otd.at("2026-06-01T11:58Z", "2026-06-01T11:59Z", "2026-06-01T12:01Z"),
        ]
    ),
    missed=st.sampled_from(["none", "last", "all"]),
    pause=st.integers(-2, 200).map(lambda half: half * MINUTE // 2),
    given_ahead=st.sets(st.integers(-60, 1), max_size=4),
    recorded=st.booleans(),
)
def test_a_resume_gives_each_slot_of_the_pause_one_fate(schedule, missed, pause, given_ahead, recorded):
    """Exceptions keep their fate, the newest other slots run late, and the rest are skipped, as iteration shows."""
    fates = [SlotException(NOW + minute * MINUTE, "moved", recorded=recorded) for minute in sorted(given_ahead)]
    paused = excepting(schedule, *fates, watermark=NOW - pause)
    [window] = resume_windows([paused], missed=missed, now=NOW, lookahead=MINUTE, late_after=LATE)

    came = list(takewhile(NOW.__ge__, slots(schedule, NOW - pause, origin=paused.origin)))
    ahead = {one.slot_at for one in fates}
    others = [slot for slot in came if slot not in ahead]
    late = others[-KEPT[missed] :] if KEPT[missed] else []
    told = [slot for slot in came if slot in ahead and not recorded]
    assert [slot.slot_at for slot in window.slots if slot.slot_at <= NOW] == late
    assert _expanded(window.skips, "paused", came) == others[: len(others) - len(late)]
    assert [skip.first for skip in window.skips if skip.reason == "moved" and skip.first <= NOW] == told


def _expanded(skips: Sequence[SkipRange], reason: str, came: list[int]) -> list[int]:
    """Return the slots in the ranges of this reason, and check the counts."""
    found = []
    for skip in skips:
        if skip.reason == reason:
            part = [slot for slot in came if skip.first <= slot <= skip.last]
            assert (skip.first, skip.last, skip.count) == (part[0], part[-1], len(part))
            found += part
    return found


@pytest.mark.parametrize(("missed", "late"), KEPT.items())
@pytest.mark.parametrize("quick", [otd.every("1s"), otd.cron("* * * * * *", tz="Europe/Berlin")])
def test_a_long_pause_of_a_frequent_job_is_counted_without_iteration(quick, missed, late):
    """An engine resumes on the loop that starts runs, so that a month of seconds must not take time or memory."""
    month = 30 * 24 * 60 * MINUTE
    paused = state(job(quick), quick, watermark=NOW - month, origin=NOW - month)
    began = time.process_time()
    tracemalloc.start()
    try:
        [window] = resume_windows([paused], missed=missed, now=NOW, lookahead=MINUTE, late_after=LATE)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    [gone] = window.skips
    assert gone.count == month // SECOND - late
    assert (gone.first, gone.last) == (NOW - month + SECOND, NOW - late * SECOND)
    assert len([slot for slot in window.slots if slot.slot_at <= NOW]) == late
    assert most < 1_000_000
    assert time.process_time() - began < 1, "expected no iteration, which takes ten seconds while memory is traced"


def test_overdue_slots_of_a_removed_schedule_are_recorded_around_an_exception():
    every, other = otd.every("1m"), otd.every("1h")
    moved = excepting(every, SlotException(NOW - 2 * MINUTE, "moved", recorded=True), watermark=NOW - 4 * MINUTE)
    [_, closing] = edit_windows(job(other), {moved.schedule_id: moved}, now=NOW, lookahead=MINUTE, late_after=LATE)
    assert minutes(*closing.skips) == [(-3, -3, 1, "edited"), (-1, 0, 2, "edited")]
