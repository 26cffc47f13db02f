"""Windows are written only if they fit the stored state; stale ones are refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from onthedot.model.errors import RevisionConflict, WindowStale
from onthedot.model.window import ScheduleState, SkipRange, Slot, SlotException, Window
from onthedot.rules.window_writes import (
    Insert,
    Planned,
    SchedulePosition,
    begun,
    behind,
    check_added,
    check_dropped,
    check_edge,
    check_exceptions,
    check_past,
    check_revision,
    choose_windows,
    inserts_of,
    lengthened,
    slots_with_fates,
    without,
)


class Given:
    """Exceptions by schedule id."""

    def __init__(self, **fates: SlotException) -> None:
        self._fates = fates

    def of(self, job_id: int, schedule_id: str) -> tuple[SlotException, ...]:
        return (self._fates[schedule_id],) if schedule_id in self._fates else ()


def seen(job_id: int = 1) -> ScheduleState:
    return cast("ScheduleState", SimpleNamespace(record=SimpleNamespace(id=job_id)))


def window(start: int, end: int, *slots: int, name: str = "s", skips: tuple[SkipRange, ...] = ()) -> Window:
    return Window(name, start, end, None, slots=[Slot(slot, None) for slot in slots], skips=list(skips))


def test_only_windows_that_begin_at_the_watermark_are_accepted():
    windows = [(seen(), window(10, 20)), (seen(), window(15, 30)), (seen(2), window(5, 9))]
    answers, taken = choose_windows(windows, [SchedulePosition(10, False), SchedulePosition(10, False), None], Given())
    assert answers == [True, False, False]
    assert [(one.job_id, one.window.end, one.delayed) for one in taken] == [(1, 20, False)]


def test_a_window_may_continue_the_previous_one_of_the_same_call():
    windows = [(seen(), window(10, 20)), (seen(), window(20, 30)), (seen(), window(10, 20, name="other"))]
    answers, taken = choose_windows(windows, [SchedulePosition(10, True)] * 3, Given())
    assert answers == [True, True, True]
    assert all(one.delayed for one in taken)


def test_a_range_of_skips_over_an_exception_is_not_accepted():
    over = window(10, 20, skips=(SkipRange(11, 15, 5, "missed"),))
    answers, taken = choose_windows(
        [(seen(), over)], [SchedulePosition(10, False)], Given(s=SlotException(13, "cancelled", False))
    )
    assert (answers, taken) == ([False], [])


def test_a_slot_with_an_exception_becomes_a_skip():
    fate = SlotException(12, "cancelled", False)
    planned = Planned.settled(Given(s=fate), 1, window(10, 20, 11, 12))
    assert [slot.slot_at for slot in planned.window.slots] == [11]
    assert planned.window.skips == [SkipRange(12, 12, 1, "cancelled")]
    assert planned.exceptions == (fate,)


def test_runs_are_inserted_in_the_order_of_their_instants_for_each_target():
    late = replace(window(0, 9, 7, 2), targets=("a", "b"))
    runs = inserts_of([Planned(1, late, False), Planned(2, window(0, 9, 5, name="t"), True)])
    assert [(run.job_id, run.due_at, run.target, run.delayed) for run in runs] == [
        (1, 2, "a", False), (1, 2, "b", False), (2, 5, "", True), (1, 7, "a", False), (1, 7, "b", False),
    ]  # fmt: skip
    assert runs[2] == Insert(2, "schedule:t", 5, None, None, True, "", 5)


def test_a_window_cut_at_an_instant_keeps_only_what_comes_after():
    whole = window(0, 9, 3, 6, skips=(SkipRange(1, 2, 2, "missed"), SkipRange(8, 8, 1, "missed")))
    rest = behind(whole, 5)
    assert ([slot.slot_at for slot in rest.slots], [skip.first for skip in rest.skips], rest.end) == ([6], [8], 9)
    assert behind(whole, 12).end == 12
    begins = begun(whole, 5)
    assert ([slot.slot_at for slot in begins.slots], begins.start, begins.end) == ([6], 5, 9)


def test_a_slot_at_the_instant_of_another_run_is_skipped():
    whole = window(0, 9, 3, 6, skips=(SkipRange(8, 8, 1, "no_node"),))
    rest = without(whole, {6, 7})
    assert ([slot.slot_at for slot in rest.slots], [(skip.first, skip.reason) for skip in rest.skips]) == (
        [3],
        [(6, "edited"), (8, "no_node")],
    )
    assert without(whole, {5}) is whole
    assert without(replace(whole, delay=1), {6}).slots == whole.slots


LAST = SkipRange(1, 5, 5, "missed")
SKIP = SkipRange(8, 9, 2, "missed")


def test_a_skip_that_continues_the_last_range_makes_it_longer():
    assert lengthened(SKIP, LAST, 5, [3, 12]) == SkipRange(1, 9, 7, "missed")


@pytest.mark.parametrize(
    ("last", "edge", "fated"),
    [(None, 5, []), (LAST, 6, []), (replace(LAST, reason="paused"), 5, []), (LAST, 5, [7])],
    ids=["no range", "not adjacent", "another reason", "a slot between has another fate"],
)
def test_any_other_skip_becomes_a_new_range(last: SkipRange | None, edge: int, fated: list[int]):
    assert lengthened(SKIP, last, edge, fated) is None


def test_slots_and_exceptions_are_the_slots_with_fates():
    assert slots_with_fates(window(0, 9, 4), [SlotException(6, "cancelled", True)]) == [4, 6]


def window_until_20(start: int = 10, *skips: SkipRange, next_at: int | None = None) -> Window:
    return Window("s", start, 20, next_at, skips=list(skips))


def test_future_slots_can_be_cancelled_but_not_missed():
    check_past(window_until_20(10, SkipRange(11, 15, 5, "missed")), 15)
    check_past(window_until_20(10, SkipRange(11, 15, 5, "cancelled")), 12)
    with pytest.raises(WindowStale, match="slots up to 15 cannot be missed at 12; read the store's clock"):
        check_past(window_until_20(10, SkipRange(11, 15, 5, "missed")), 12)


def test_a_schedule_with_slots_without_a_fate_cannot_be_removed():
    check_dropped("s", 10, None, None, 30)
    check_dropped("s", 10, 25, window_until_20(10, next_at=None), 30)
    check_dropped("s", 35, 45, window_until_20(5), 30)
    for closing in (None, window_until_20(10, next_at=25)):
        with pytest.raises(WindowStale, match="schedule 's': its slot at 25 has no fate yet"):
            check_dropped("s", 10, 25, closing, 30)
    with pytest.raises(WindowStale):  # a pause withdrew slots after the window was computed
        check_dropped("s", 10, 45, window_until_20(40, next_at=45), 30)
    with pytest.raises(WindowStale):  # slots were planned later, and a pause withdrew some of them
        check_dropped("s", 10, None, window_until_20(5, next_at=25), 30)


def test_a_window_may_not_begin_after_the_watermark():
    check_edge(window_until_20(10), 10, 30)
    with pytest.raises(WindowStale, match="schedule 's': the window starts at 10, after 9; read the store's") as stale:
        check_edge(window_until_20(10), 9, 30)
    assert (stale.value.watermark, stale.value.now) == (9, 30)


@pytest.mark.parametrize(
    ("slots", "next_at", "delay", "accepted"),
    [
        ([], None, None, True),
        ([], 16, None, True),
        ([16], 12, None, True),
        ([15], None, None, False),
        ([], 15, None, False),
        ([11], None, 5, True),
        ([12], None, 5, False),
        ([], 12, 5, False),
    ],
)
def test_an_added_schedule_has_no_slot_before_the_edit(slots, next_at, delay, accepted):
    added = Window("s", 10, 20, next_at, slots=[Slot(slot, None) for slot in slots], delay=delay)
    if accepted:
        check_added(added, 15, grid=False)
        return
    with pytest.raises(WindowStale, match=r"schedule 's': its slot at 1[25] has passed before the edit; ") as stale:
        check_added(added, 15, grid=False)
    assert (stale.value.watermark, stale.value.now) == (10, 15)


def test_an_added_interval_begins_at_the_edit_or_earlier():
    check_added(Window("s", 10, 20, None, slots=[Slot(12, None)]), 15, grid=True)
    with pytest.raises(WindowStale, match="schedule 's': the window starts at 10, after 9"):
        check_added(window_until_20(10), 9, grid=True)


def test_a_range_of_skips_may_not_contain_an_exception():
    skips = SkipRange(11, 15, 5, "missed")
    check_exceptions(window_until_20(10, skips), [SlotException(16, "cancelled")], 30)
    with pytest.raises(WindowStale, match="runs over an exception; read it again") as stale:
        check_exceptions(window_until_20(10, skips), [SlotException(13, "cancelled")], 30)
    assert (stale.value.watermark, stale.value.now) == (10, 30)


def test_a_revision_is_compared_if_the_caller_has_read_one():
    check_revision("job", None, 3)
    check_revision("job", 3, 3)
    with pytest.raises(RevisionConflict, match=r"^job 'job': expected revision 2, found 3; read it again$"):
        check_revision("job", 2, 3)
    with pytest.raises(RevisionConflict, match=r"^job 7: expected revision 2, found 3"):
        check_revision(7, 2, 3)
