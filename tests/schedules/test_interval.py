"""Steps of real time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.clock import to_micros
from onthedot.model.duration import micros
from onthedot.model.errors import ScheduleError
from onthedot.model.job import Every, FixedDelay
from onthedot.schedules import count_between, every, gap, next_after, slots

T = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
SECOND = 1_000_000
HOUR = 3600 * SECOND


@settings(max_examples=100, deadline=None)
@given(
    interval=st.integers(1, 50),
    anchor=st.integers(-200, 200),
    after=st.integers(-200, 200),
    width=st.integers(0, 300),
)
def test_every_is_the_grid_found_by_trying_each_instant(interval, anchor, after, width):
    schedule = Every(
        interval=timedelta(microseconds=interval),
        anchor=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=anchor),
    )
    grid = [instant for instant in range(after + 1, after + 401) if (instant - anchor) % interval == 0]

    assert list(islice(slots(schedule, after, origin=0), len(grid))) == grid
    assert next_after(schedule, after, origin=0) == after + interval - (after - anchor) % interval
    until = after + width
    assert count_between(schedule, after, until, origin=0) == sum(1 for slot in grid if slot <= until)


def test_every_counts_from_the_epoch_or_the_anchor_in_both_directions():
    assert next_after(every("1h"), T + 1, origin=0) == T + HOUR
    anchored = every("7h", anchor="2026-01-01T00:00Z")
    assert next_after(anchored, T, origin=0) == T + 7 * HOUR
    assert next_after(anchored, T - HOUR, origin=0) == T
    assert next_after(anchored, T - 8 * HOUR, origin=0) == T - 7 * HOUR


def test_an_hour_is_an_hour_in_the_night_when_clocks_change():
    night = to_micros(datetime(2026, 10, 24, 23, tzinfo=UTC))
    assert list(islice(slots(every("1h"), night, origin=0), 3)) == [night + HOUR, night + 2 * HOUR, night + 3 * HOUR]


def test_a_far_anchor_costs_no_walk():
    schedule = every("10ms", anchor="0002-01-01T00:00Z")
    assert next_after(schedule, T, origin=0) == T + 10_000
    assert count_between(schedule, T, T + 10**15, origin=0) == 10**11


def test_run_once_is_the_first_step_after_the_origin_and_no_other():
    once = every("1h", run_once=True)
    assert list(slots(once, 0, origin=T + 5)) == [T + HOUR]
    assert list(slots(once, T + HOUR, origin=T + 5)) == []
    assert count_between(once, 0, T + 10 * HOUR, origin=T + 5) == 1
    assert next_after(once, T, origin=T + HOUR) == T + 2 * HOUR, "the origin itself is not after the origin"


def test_every_ends_with_the_calendar():
    last = to_micros(datetime(9999, 12, 31, 23, tzinfo=UTC))
    assert next_after(every("1h"), last, origin=0) is None
    assert count_between(every("1h"), last - HOUR, last + 100 * HOUR, origin=0) == 1


@pytest.mark.parametrize("interval", [timedelta(0), timedelta(seconds=-1)])
def test_an_interval_that_goes_nowhere_is_refused_also_unchecked(interval):
    with pytest.raises(ScheduleError, match="above zero"):
        next_after(Every(interval=interval), T, origin=0)


def test_fixed_delay_counts_from_the_last_end():
    pause = gap("10m")
    assert next_after(pause, T, origin=0, last_end=T) == T + 600 * SECOND
    assert next_after(pause, T + HOUR, origin=0, last_end=T) == T + HOUR + 1, "already past: at once"


def test_fixed_delay_begins_at_its_start_or_at_once():
    assert next_after(gap("10m"), T, origin=0) == T + 1
    assert next_after(gap("10m", start="2026-01-01T01:00Z"), T, origin=0) == T + HOUR
    assert next_after(gap("10m", start="2026-01-01T01:00Z"), T + 2 * HOUR, origin=0) == T + 2 * HOUR + 1
    assert next_after(gap("10m", start="2026-01-01T09:00Z"), T, origin=0, last_end=T) == T + 600 * SECOND


@given(
    delay=st.timedeltas(timedelta(milliseconds=10), timedelta(days=400)),
    after=st.integers(0, 2 * T),
    last_end=st.none() | st.integers(0, 2 * T),
)
def test_fixed_delay_has_one_slot_always_ahead(delay, after, last_end):
    found = list(slots(FixedDelay(delay=delay), after, origin=0, last_end=last_end))
    assert found == [max(after + 1, after + 1 if last_end is None else last_end + micros(delay))]
