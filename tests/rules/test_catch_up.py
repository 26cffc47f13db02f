"""The catch-up policy decides which slots run, when they expire, and which are missed."""

from itertools import count, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.clock import SECOND
from onthedot.model.job import CatchUp
from onthedot.rules.catch_up import Fates, expires, fates

LATE = 30


def every(step: int, *, end: int = 10**9):
    return iter(range(step, end, step))


def plan(slots, mode="last", *, until=1000, now=0, most=10_000, **options) -> Fates:
    policy = CatchUp(mode, **options)
    return fates(iter(slots), policy, until=until, now=now, late_after=LATE, most=most)


@pytest.mark.parametrize(
    ("mode", "later", "expected"),
    [
        ("none", 200, 130),
        ("none", None, 130),
        ("last", 200, 200),
        ("last", 110, 130),  # not before it counts as late
        ("last", None, None),  # the last slot of a schedule never expires
        ("all", 200, 150),  # the window ends first
        ("all", 140, 140),  # the N-th slot comes first
        ("all", None, 150),
        ("all", 101, 130),
    ],
)
def test_a_slot_expires_by_its_policy(mode, later, expected):
    policy = CatchUp(mode, window=50 / SECOND)
    assert expires(100, later, policy, LATE) == expected


def test_future_slots_become_runs_up_to_the_horizon():
    found = plan(every(100), until=350)
    assert [slot for slot, _ in found.runs] == [100, 200, 300]
    assert (found.end, found.next_at, found.missed) == (350, 400, [])


def test_last_keeps_one_missed_slot_and_records_the_rest_as_a_range():
    found = plan(every(100), now=1050, until=1150)
    assert found.missed == [(100, 900, 9)]
    assert found.runs == [(1000, 1100), (1100, 1200)]


def test_none_keeps_only_slots_that_are_not_late_yet():
    found = plan(every(100), "none", now=1020, until=1100)
    assert found.missed == [(100, 900, 9)]
    assert found.runs == [(1000, 1030), (1100, 1130)]


def test_all_keeps_the_last_n():
    found = plan(every(100), "all", now=1050, until=1100, limit=3)
    assert found.missed == [(100, 700, 7)]
    assert [slot for slot, _ in found.runs] == [800, 900, 1000, 1100]


def test_all_keeps_the_slots_in_its_window():
    found = plan(every(100), "all", now=1050, until=1100, limit=1000, window=260 / SECOND)
    assert found.missed == [(100, 700, 7)]


def test_an_exhausted_schedule_has_no_next_slot():
    found = plan([100, 200], until=1000)
    assert (found.end, found.next_at) == (1000, None)
    assert found.runs[-1] == (200, None)


def test_one_call_handles_a_limited_number_of_slots():
    first = plan(every(1), now=100_000, until=100_000, most=1000)
    assert (first.end, first.next_at, first.missed, first.runs) == (1000, 1001, [(1, 1000, 1000)], [])


@given(
    step=st.integers(1, 50),
    now=st.integers(0, 3000),
    ahead=st.integers(0, 500),
    mode=st.sampled_from(["none", "last", "all"]),
    limit=st.integers(1, 20),
    window=st.integers(1, 2000),
    most=st.integers(1, 40),
)
def test_every_slot_gets_exactly_one_fate_for_any_size_of_steps(step, now, ahead, mode, limit, window, most):
    until, watermark = now + ahead, 0
    runs, missed, steps = [], 0, 0
    while watermark < until:
        slots = (slot for slot in count(step, step) if slot > watermark)
        found = plan(slots, mode, now=now, until=until, limit=limit, window=window / SECOND, most=most)
        assert found.end > watermark
        runs += found.runs
        missed += sum(n for _, _, n in found.missed)
        watermark, steps = found.end, steps + 1
    expected = list(takewhile(lambda slot: slot <= until, count(step, step)))
    assert len(runs) + missed == len(expected)
    assert [slot for slot, _ in runs] == expected[missed:]  # the oldest ones are missed
    assert all(expiry is None or expiry > now for _, expiry in runs)
    assert steps <= len(expected) // most + 1
