"""From a schedule's state to the window that is recorded."""

from datetime import UTC, datetime

import pytest

import onthedot as otd
from onthedot.clock import SECOND, to_micros
from onthedot.job import Call, Job, JobRecord, JobState
from onthedot.plan.windows import MOST_SLOTS, edit_windows, plan_window
from onthedot.schedules import schedule_id
from onthedot.stores.base import ScheduleState, Slot

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


def test_a_long_outage_is_worked_off_in_bounded_steps():
    cron = otd.cron("* * * * * *")
    window = plan_window(state(job(cron), cron, watermark=NOW - 86_400 * SECOND), until=NOW, now=NOW, late_after=LATE)
    assert window is not None
    assert window.skips[0].count == MOST_SLOTS
    assert window.end == NOW - 86_400 * SECOND + MOST_SLOTS * SECOND
    assert window.next_at == window.end + SECOND


@pytest.mark.parametrize("catch_up", [otd.CatchUp("none"), otd.CatchUp("last"), otd.CatchUp("all", limit=7)])
def test_a_year_off_is_one_step_for_an_interval(catch_up):
    """Counted instead of walked, and the same as if it had been walked."""
    every, year = otd.every("1s"), 365 * 86_400
    off = state(job(every, catch_up=catch_up), every, watermark=NOW - year * SECOND, origin=NOW - 2 * year * SECOND)
    window = plan_window(off, until=NOW + 5 * SECOND, now=NOW, late_after=LATE)
    assert window is not None
    [skip] = window.skips
    assert skip.count + len(window.slots) == year + 5
    assert skip.first == NOW - (year - 1) * SECOND
    assert window.slots[0].slot_at == skip.last + SECOND
    assert skip.last == NOW - 30 * SECOND  # nothing younger than late_after is missed
    assert (window.end, window.next_at) == (NOW + 5 * SECOND, NOW + 6 * SECOND)


def test_a_fixed_delay_counts_from_the_last_end_and_moves_to_its_own_slot():
    gap = otd.gap("10m")
    waiting = state(job(gap), gap, watermark=NOW - 20 * MINUTE, last_end=NOW - 15 * MINUTE)
    window = plan_window(waiting, until=NOW, now=NOW, late_after=LATE)
    assert window is not None
    assert (window.slots, window.end, window.next_at) == ([Slot(NOW - 5 * MINUTE, None)], NOW - 5 * MINUTE, None)


def test_a_schedule_that_the_job_no_longer_has_is_left_alone():
    assert plan_window(state(job(), otd.every("1m"), watermark=NOW), until=NOW, now=NOW, late_after=LATE) is None


def test_a_new_job_comes_with_the_runs_of_its_next_moments():
    definition = job(otd.every("10s"), otd.gap("1h"), otd.in_("5s"))
    every, gap, once = edit_windows(definition, {}, now=NOW, lookahead=30 * SECOND, late_after=LATE)
    assert [slot.slot_at - NOW for slot in every.slots] == [10 * SECOND, 20 * SECOND, 30 * SECOND]
    assert (len(gap.slots), gap.delay, gap.next_at) == (1, 3600 * SECOND, None)
    assert [slot.slot_at - NOW for slot in once.slots] == [5 * SECOND]
    assert once.next_at is None


def test_an_edit_keeps_the_origin_of_what_survives():
    once = otd.in_("10m")
    known = {schedule_id(once): state(job(once), once, watermark=NOW, origin=NOW - 590 * SECOND)}
    [window] = edit_windows(job(once), known, now=NOW, lookahead=30 * SECOND, late_after=LATE)
    assert [slot.slot_at - NOW for slot in window.slots] == [10 * SECOND]


def test_what_a_dropped_schedule_still_owed_is_recorded():
    dropped, kept = otd.every("1m"), otd.every("1h")
    known = {schedule_id(dropped): state(job(dropped), dropped, watermark=NOW - 5 * MINUTE)}
    windows = edit_windows(job(kept), known, now=NOW, lookahead=30 * SECOND, late_after=LATE)
    [closing] = [window for window in windows if window.schedule_id == schedule_id(dropped)]
    [skip] = closing.skips
    assert (closing.start, closing.end, closing.slots) == (NOW - 5 * MINUTE, NOW, ())
    assert (skip.count, skip.reason, skip.last) == (5, "edited", NOW)
