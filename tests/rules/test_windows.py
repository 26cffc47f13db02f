"""From a schedule's state to the window that is recorded."""

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


@pytest.mark.parametrize(
    ("catch_up", "runs"),
    [
        (otd.CatchUp("none"), 0),
        (otd.CatchUp("last"), 1),
        (otd.CatchUp("all", limit=7), 7),
        (otd.CatchUp("all", limit=7, window="20s"), 0),
    ],
)
def test_the_last_slots_of_an_interval_that_has_ended_expire_as_if_they_were_walked(catch_up, runs):
    """No slot comes after them that would make them expire: under last the newest runs, however late it is; under all
    they have their whole window."""
    every = otd.every("1s", end=datetime(2026, 6, 1, 11, 59, tzinfo=UTC))
    off = state(job(every, catch_up=catch_up), every, watermark=NOW - 3_600 * SECOND, origin=NOW - 7_200 * SECOND)
    window = plan_window(off, until=NOW + 5 * SECOND, now=NOW, late_after=LATE)
    assert window is not None
    newest = NOW - MINUTE
    assert [slot.slot_at for slot in window.slots] == [newest - n * SECOND for n in reversed(range(runs))]
    assert [(skip.last, skip.count) for skip in window.skips] == [(newest - runs * SECOND, 3_540 - runs)]
    assert window.next_at is None


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


# ── exceptions: slots whose fate was given ahead ─────────────────────────────────────────────────────────────


def minutes(*ranges: SkipRange) -> list[tuple[int, int, int, str]]:
    """Ranges in minutes from now."""
    return [((one.first - NOW) // MINUTE, (one.last - NOW) // MINUTE, one.count, one.reason) for one in ranges]


def excepting(schedule, *fates: SlotException, watermark=NOW) -> ScheduleState:
    return replace(state(job(schedule), schedule, watermark=watermark), exceptions=fates)


def test_a_slot_that_was_given_its_fate_is_that_skip_and_no_run():
    every = otd.every("1m")
    moved = excepting(
        every, SlotException(NOW + MINUTE, "moved"), SlotException(NOW + 2 * MINUTE, "cancelled", recorded=True)
    )
    window = plan_window(moved, until=NOW + 3 * MINUTE, now=NOW, late_after=LATE)
    assert window is not None
    assert [slot.slot_at for slot in window.slots] == [NOW + 3 * MINUTE]
    assert minutes(*window.skips) == [(1, 1, 1, "moved")]
    assert settle(window, moved.exceptions) == window


def test_what_was_missed_around_it_is_cut_into_parts():
    """The unrecorded one is an entry of its own, the recorded one has one, and what is no slot only parts the range."""
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


def test_a_year_off_is_counted_around_it_too():
    every, year = otd.every("1s"), 365 * 86_400
    off = excepting(every, SlotException(NOW - 1000 * SECOND, "moved"), watermark=NOW - year * SECOND)
    window = plan_window(off, until=NOW, now=NOW, late_after=LATE)
    assert window is not None
    assert [skip.reason for skip in window.skips] == ["missed", "moved", "missed"]
    assert sum(skip.count for skip in window.skips) + len(window.slots) == year


def test_an_edit_keeps_what_was_given_ahead():
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
def test_a_resume_keeps_what_was_given_ahead(missed, late, gone):
    """It is none of what was missed: neither is it run late, nor does it take the place of one that is."""
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
    """What was given ahead as it was given, the newest of the others late, the rest skipped: as walking them says."""
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
    """The slots that the ranges say they count."""
    found = []
    for skip in skips:
        if skip.reason == reason:
            part = [slot for slot in came if skip.first <= slot <= skip.last]
            assert (skip.first, skip.last, skip.count) == (part[0], part[-1], len(part))
            found += part
    return found


@pytest.mark.parametrize(("missed", "late"), KEPT.items())
@pytest.mark.parametrize("quick", [otd.every("1s"), otd.cron("* * * * * *", tz="Europe/Berlin")])
def test_a_long_pause_of_a_quick_job_is_counted(quick, missed, late):
    """An engine resumes on the loop that starts its runs: a month of seconds keeps nobody waiting, and no memory."""
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
    assert time.process_time() - began < 1, "to walk them takes ten seconds while memory is traced"


def test_what_a_dropped_schedule_owed_is_recorded_around_it():
    every, other = otd.every("1m"), otd.every("1h")
    moved = excepting(every, SlotException(NOW - 2 * MINUTE, "moved", recorded=True), watermark=NOW - 4 * MINUTE)
    [_, closing] = edit_windows(job(other), {moved.schedule_id: moved}, now=NOW, lookahead=MINUTE, late_after=LATE)
    assert minutes(*closing.skips) == [(-3, -3, 1, "edited"), (-1, 0, 2, "edited")]
