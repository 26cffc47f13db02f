"""What was read or computed at another time than it is recorded at."""

from __future__ import annotations

import pytest

from onthedot.model.errors import RevisionConflict, WindowStale
from onthedot.model.window import SkipRange, Slot, SlotException, Window
from onthedot.rules.window_checks import (
    check_added,
    check_dropped,
    check_edge,
    check_exceptions,
    check_past,
    check_revision,
)


def window(start: int = 10, *skips: SkipRange, next_at: int | None = None) -> Window:
    return Window("s", start, 20, next_at, skips=list(skips))


def test_slots_that_lie_ahead_cannot_be_missed_but_cancelled():
    check_past(window(10, SkipRange(11, 15, 5, "missed")), 15)
    check_past(window(10, SkipRange(11, 15, 5, "cancelled")), 12)
    with pytest.raises(WindowStale, match="slots up to 15 cannot be missed at 12; read the store's clock"):
        check_past(window(10, SkipRange(11, 15, 5, "missed")), 12)


def test_a_schedule_is_not_dropped_with_slots_that_have_no_fate():
    check_dropped("s", 10, None, None, 30)
    check_dropped("s", 10, 25, window(10, next_at=None), 30)
    check_dropped("s", 35, 45, window(5), 30)
    for closing in (None, window(10, next_at=25)):
        with pytest.raises(WindowStale, match="schedule 's': its slot at 25 has no fate yet"):
            check_dropped("s", 10, 25, closing, 30)
    with pytest.raises(WindowStale):  # a pause has taken slots back since the window was computed
        check_dropped("s", 10, 45, window(40, next_at=45), 30)
    with pytest.raises(WindowStale):  # slots were planned since, and a pause has taken some of them back
        check_dropped("s", 10, None, window(5, next_at=25), 30)


def test_a_window_leaves_nothing_out_behind_the_edge():
    check_edge(window(10), 10, 30)
    with pytest.raises(WindowStale, match="schedule 's': the window starts at 10, after 9; read the store's") as stale:
        check_edge(window(10), 9, 30)
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


def test_an_added_grid_begins_with_the_edit_at_the_latest():
    check_added(Window("s", 10, 20, None, slots=[Slot(12, None)]), 15, grid=True)
    with pytest.raises(WindowStale, match="schedule 's': the window starts at 10, after 9"):
        check_added(window(10), 9, grid=True)


def test_a_range_of_skips_does_not_run_over_an_exception():
    skips = SkipRange(11, 15, 5, "missed")
    check_exceptions(window(10, skips), [SlotException(16, "cancelled")], 30)
    with pytest.raises(WindowStale, match="runs over an exception; read it again") as stale:
        check_exceptions(window(10, skips), [SlotException(13, "cancelled")], 30)
    assert (stale.value.watermark, stale.value.now) == (10, 30)


def test_a_revision_is_compared_if_the_caller_has_read_one():
    check_revision("job", None, 3)
    check_revision("job", 3, 3)
    with pytest.raises(RevisionConflict, match=r"^job 'job': expected revision 2, found 3; read it again$"):
        check_revision("job", 2, 3)
    with pytest.raises(RevisionConflict, match=r"^job 7: expected revision 2, found 3"):
        check_revision(7, 2, 3)
