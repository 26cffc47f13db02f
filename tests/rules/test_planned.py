"""Windows that are to be written: which are, their runs, and their entries in the ledger."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from onthedot.model.window import ScheduleState, SkipRange, Slot, SlotException, Window
from onthedot.rules.window_checks import (
    Insert,
    Planned,
    SchedulePosition,
    begun,
    behind,
    choose_windows,
    inserts_of,
    lengthened,
    slots_with_fates,
    without,
)


class Given:
    """Exceptions of schedules, by name."""

    def __init__(self, **fates: SlotException) -> None:
        self._fates = fates

    def of(self, job_id: int, schedule_id: str) -> tuple[SlotException, ...]:
        return (self._fates[schedule_id],) if schedule_id in self._fates else ()


def seen(job_id: int = 1) -> ScheduleState:
    return cast("ScheduleState", SimpleNamespace(record=SimpleNamespace(id=job_id)))


def window(start: int, end: int, *slots: int, name: str = "s", skips: tuple[SkipRange, ...] = ()) -> Window:
    return Window(name, start, end, None, slots=[Slot(slot, None) for slot in slots], skips=list(skips))


def test_only_windows_that_continue_the_watermark_are_taken():
    windows = [(seen(), window(10, 20)), (seen(), window(15, 30)), (seen(2), window(5, 9))]
    answers, taken = choose_windows(windows, [SchedulePosition(10, False), SchedulePosition(10, False), None], Given())
    assert answers == [True, False, False]
    assert [(one.job_id, one.window.end, one.delayed) for one in taken] == [(1, 20, False)]


def test_a_window_may_continue_one_that_stands_before_it():
    windows = [(seen(), window(10, 20)), (seen(), window(20, 30)), (seen(), window(10, 20, name="other"))]
    answers, taken = choose_windows(windows, [SchedulePosition(10, True)] * 3, Given())
    assert answers == [True, True, True]
    assert all(one.delayed for one in taken)


def test_a_range_of_skips_over_an_exception_is_not_taken():
    over = window(10, 20, skips=(SkipRange(11, 15, 5, "missed"),))
    answers, taken = choose_windows(
        [(seen(), over)], [SchedulePosition(10, False)], Given(s=SlotException(13, "cancelled", False))
    )
    assert (answers, taken) == ([False], [])


def test_what_was_given_ahead_is_no_run():
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


def test_behind_the_edge_there_is_only_what_lies_there():
    whole = window(0, 9, 3, 6, skips=(SkipRange(1, 2, 2, "missed"), SkipRange(8, 8, 1, "missed")))
    rest = behind(whole, 5)
    assert ([slot.slot_at for slot in rest.slots], [skip.first for skip in rest.skips], rest.end) == ([6], [8], 9)
    assert behind(whole, 12).end == 12
    begins = begun(whole, 5)
    assert ([slot.slot_at for slot in begins.slots], begins.start, begins.end) == ([6], 5, 9)


def test_an_instant_at_which_another_run_starts_is_left_out():
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
    ids=["no range", "something came after it", "another reason", "a slot between has another fate"],
)
def test_any_other_is_a_range_of_its_own(last: SkipRange | None, edge: int, fated: list[int]):
    assert lengthened(SKIP, last, edge, fated) is None


def test_slots_and_exceptions_have_fates_of_their_own():
    assert slots_with_fates(window(0, 9, 4), [SlotException(6, "cancelled", True)]) == [4, 6]
