"""Every kind of schedule yields its slots in order, within its bounds, and counts them correctly."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onthedot.clock import SECOND, to_datetime, to_micros
from onthedot.model.duration import micros
from onthedot.model.errors import ScheduleError
from onthedot.model.job import Cron, Every, FixedDelay
from onthedot.schedules import (
    at,
    check,
    count_between,
    cron,
    describe,
    every,
    gap,
    in_,
    last_before,
    next_after,
    schedule_id,
    slots,
)
from tests.schedules.strategies import crons, everys, schedules, with_options

YEAR_2000, YEAR_2100 = (to_micros(datetime(year, 1, 1, tzinfo=UTC)) for year in (2000, 2100))
MARCH, OCTOBER = (to_micros(datetime(2026, month, 20, tzinfo=UTC)) for month in (3, 10))
NEW_YEAR = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
DAY = 86_400 * SECOND
moments = st.integers(YEAR_2000, YEAR_2100)
recurring = crons | everys | with_options(crons | everys)


@settings(max_examples=50, deadline=None)
@given(schedule=schedules, after=moments, origin=moments, last_end=st.none() | moments)
def test_slots_ascend_and_next_after_returns_the_first(schedule, after, origin, last_end):
    check(schedule)
    found = list(islice(slots(schedule, after, origin=origin, last_end=last_end), 5))
    assert next_after(schedule, after, origin=origin, last_end=last_end) == (found[0] if found else None)
    assert all(earlier < later for earlier, later in zip([after, *found], found, strict=False))
    if found:
        counted = count_between(schedule, after, found[-1], origin=origin, last_end=last_end)
        assert counted == len(found)


@settings(max_examples=40, deadline=None)
@given(schedule=crons | everys, origin=moments)
def test_run_once_keeps_exactly_the_first_slot_after_the_origin(schedule, origin):
    fields = {name: getattr(schedule, name) for name in schedule.__slots__}
    once: Cron | Every = type(schedule)(**{**fields, "run_once": True})
    often: Cron | Every = type(schedule)(**{**fields, "run_once": False})
    first = next_after(often, origin, origin=origin)
    assert first is not None
    for after in (origin - 10**12, origin, first - 1):
        assert list(slots(once, after, origin=origin)) == [first]
    for after in (first, first + 10**12):
        assert list(slots(once, after, origin=origin)) == []


@settings(max_examples=40, deadline=None)
@given(schedule=crons | everys, after=moments, origin=moments)
def test_last_before_equals_the_one_found_by_iterating(schedule, after, origin):
    found = list(islice(slots(schedule, after, origin=origin), 5))
    for number, slot in enumerate(found):
        earlier = found[number - 1] if number else None
        assert last_before(schedule, slot, after=after, origin=origin) == earlier
        assert last_before(schedule, slot + 1, after=after, origin=origin) == slot


@settings(max_examples=60, deadline=None)
@given(schedule=recurring, after=moments, origin=moments, walked=st.integers(1, 200), more=st.integers(0, 10**7))
@example(schedule=cron("30 2 * * *", tz="Europe/Berlin"), after=MARCH, origin=0, walked=60, more=0)
@example(schedule=cron("0 3 * * *", tz="Europe/Berlin"), after=MARCH, origin=0, walked=60, more=0)
@example(schedule=cron("0,30 2,3 * * *", tz="Europe/Berlin"), after=MARCH, origin=0, walked=60, more=0)
@example(schedule=cron("0,30 2,3 * * *", tz="Europe/Berlin", gap="skip"), after=MARCH, origin=0, walked=60, more=0)
@example(schedule=cron("30 2 * * *", tz="Europe/Berlin", fold="both"), after=OCTOBER, origin=0, walked=60, more=0)
@example(schedule=cron("*/20 * * * * *", tz="Europe/Berlin"), after=OCTOBER, origin=0, walked=2_000, more=0)
def test_count_between_equals_the_number_found_by_iterating(schedule, after, origin, walked, more):
    found = list(islice(slots(schedule, after, origin=origin), walked))
    until = (found[-1] if found else after) + more
    found += takewhile(until.__ge__, slots(schedule, found[-1], origin=origin)) if found else []
    assert count_between(schedule, after, until, origin=origin) == len(found)
    middle = found[len(found) // 2] if found else after
    assert count_between(schedule, middle, until, origin=origin) == len([slot for slot in found if slot > middle])
    assert count_between(schedule, middle, after, origin=origin) == 0


def test_a_count_does_not_start_at_the_beginning_of_the_schedule():
    """Resuming a job bisects its pause and counts about forty times."""
    weekly = cron("0 0 * * 1", start="1900-01-01T00:00Z", max_count=10_000)
    end = YEAR_2000 + 365 * DAY
    assert count_between(weekly, YEAR_2000, end, origin=0) == 52  # from now on the last slot is cached
    began = time.process_time()
    counted = {count_between(weekly, end - days * DAY, end, origin=0) for days in range(1, 41)}
    assert time.process_time() - began < 0.5, "expected no iteration from 1900, which takes 0.1 s per count"
    assert counted == set(range(min(counted), max(counted) + 1))


@pytest.mark.parametrize("many", [cron("* * * * * *", tz="Europe/Berlin"), cron("* * * * * *", max_count=10_000)])
def test_a_year_of_seconds_is_counted_without_iterating(many):
    began = time.process_time()
    assert count_between(many, YEAR_2000, YEAR_2000 + 365 * DAY, origin=YEAR_2000) in (365 * 86_400, 10_000)
    assert time.process_time() - began < 1, "expected no iteration over 30 million slots, which takes half a minute"


def test_at_has_one_slot_until_it_has_passed():
    moment = at("2026-01-01T00:00Z")
    assert next_after(moment, NEW_YEAR - 1, origin=0) == NEW_YEAR
    assert next_after(moment, NEW_YEAR, origin=0) is None
    assert list(slots(moment, 0, origin=0)) == [NEW_YEAR]


def test_an_at_before_its_origin_is_still_a_slot():
    assert next_after(at("2026-01-01T00:00Z"), NEW_YEAR - 1, origin=NEW_YEAR + 10**9) == NEW_YEAR


def test_in_counts_from_the_origin():
    soon = in_("10m")
    assert next_after(soon, NEW_YEAR, origin=NEW_YEAR) == NEW_YEAR + 600_000_000
    assert next_after(soon, NEW_YEAR + 600_000_000, origin=NEW_YEAR) is None
    assert list(slots(soon, 0, origin=NEW_YEAR)) == [NEW_YEAR + 600_000_000]
    assert count_between(soon, NEW_YEAR, NEW_YEAR + 600_000_000, origin=NEW_YEAR) == 1
    assert count_between(soon, NEW_YEAR, NEW_YEAR + 599_999_999, origin=NEW_YEAR) == 0


def test_in_beyond_the_calendar_is_never():
    late = to_micros(datetime(9999, 12, 31, 23, 59, tzinfo=UTC))
    assert next_after(in_("10m"), late, origin=late) is None


HOUR = 3600 * SECOND


@settings(max_examples=100, deadline=None)
@given(
    interval=st.integers(1, 50),
    anchor=st.integers(-200, 200),
    after=st.integers(-200, 200),
    width=st.integers(0, 300),
)
def test_every_equals_the_grid_found_by_trying_each_instant(interval, anchor, after, width):
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
    assert next_after(every("1h"), NEW_YEAR + 1, origin=0) == NEW_YEAR + HOUR
    anchored = every("7h", anchor="2026-01-01T00:00Z")
    assert next_after(anchored, NEW_YEAR, origin=0) == NEW_YEAR + 7 * HOUR
    assert next_after(anchored, NEW_YEAR - HOUR, origin=0) == NEW_YEAR
    assert next_after(anchored, NEW_YEAR - 8 * HOUR, origin=0) == NEW_YEAR - 7 * HOUR


def test_every_hour_means_real_hours_when_the_clocks_change():
    night = to_micros(datetime(2026, 10, 24, 23, tzinfo=UTC))
    assert list(islice(slots(every("1h"), night, origin=0), 3)) == [night + HOUR, night + 2 * HOUR, night + 3 * HOUR]


def test_a_far_anchor_needs_no_iteration():
    schedule = every("10ms", anchor="0002-01-01T00:00Z")
    assert next_after(schedule, NEW_YEAR, origin=0) == NEW_YEAR + 10_000
    assert count_between(schedule, NEW_YEAR, NEW_YEAR + 10**15, origin=0) == 10**11


def test_run_once_is_only_the_first_step_after_the_origin():
    once = every("1h", run_once=True)
    assert list(slots(once, 0, origin=NEW_YEAR + 5)) == [NEW_YEAR + HOUR]
    assert list(slots(once, NEW_YEAR + HOUR, origin=NEW_YEAR + 5)) == []
    assert count_between(once, 0, NEW_YEAR + 10 * HOUR, origin=NEW_YEAR + 5) == 1
    assert next_after(once, NEW_YEAR, origin=NEW_YEAR + HOUR) == NEW_YEAR + 2 * HOUR, (
        "expected the slot after the origin, not the origin itself"
    )


def test_every_ends_with_the_calendar():
    last = to_micros(datetime(9999, 12, 31, 23, tzinfo=UTC))
    assert next_after(every("1h"), last, origin=0) is None
    assert count_between(every("1h"), last - HOUR, last + 100 * HOUR, origin=0) == 1


@pytest.mark.parametrize("interval", [timedelta(0), timedelta(seconds=-1)])
def test_an_interval_that_is_not_positive_is_refused_even_without_check(interval):
    with pytest.raises(ScheduleError, match="above zero"):
        next_after(Every(interval=interval), NEW_YEAR, origin=0)


def test_fixed_delay_counts_from_the_last_end():
    pause = gap("10m")
    assert next_after(pause, NEW_YEAR, origin=0, last_end=NEW_YEAR) == NEW_YEAR + 600 * SECOND
    assert next_after(pause, NEW_YEAR + HOUR, origin=0, last_end=NEW_YEAR) == NEW_YEAR + HOUR + 1, (
        "expected the next microsecond, because the delay has passed"
    )


def test_fixed_delay_begins_at_its_start_or_at_once():
    assert next_after(gap("10m"), NEW_YEAR, origin=0) == NEW_YEAR + 1
    assert next_after(gap("10m", start="2026-01-01T01:00Z"), NEW_YEAR, origin=0) == NEW_YEAR + HOUR
    assert next_after(gap("10m", start="2026-01-01T01:00Z"), NEW_YEAR + 2 * HOUR, origin=0) == NEW_YEAR + 2 * HOUR + 1
    assert (
        next_after(gap("10m", start="2026-01-01T09:00Z"), NEW_YEAR, origin=0, last_end=NEW_YEAR)
        == NEW_YEAR + 600 * SECOND
    )


@given(
    delay=st.timedeltas(timedelta(milliseconds=10), timedelta(days=400)),
    after=st.integers(0, 2 * NEW_YEAR),
    last_end=st.none() | st.integers(0, 2 * NEW_YEAR),
)
def test_fixed_delay_always_has_exactly_one_slot_ahead(delay, after, last_end):
    found = list(slots(FixedDelay(delay=delay), after, origin=0, last_end=last_end))
    assert found == [max(after + 1, after + 1 if last_end is None else last_end + micros(delay))]


decade = st.integers(NEW_YEAR, NEW_YEAR + 3_650 * DAY)
often = (crons | everys).map(lambda one: replace(one, run_once=False))


@settings(max_examples=60, deadline=None)
@given(schedule=often, origin=decade, count=st.integers(1, 12), after=decade, with_start=st.booleans())
def test_max_count_keeps_the_first_slots(schedule, origin, count, after, with_start):
    floor, options = origin, {}
    if with_start:
        floor, options = after - 1, {"start": to_datetime(after)}
    first = list(islice(slots(schedule, floor, origin=origin), count))
    counted = replace(schedule, max_count=count, **options)
    assert list(slots(counted, 0, origin=origin)) == first
    for number, slot in enumerate(first):
        assert list(slots(counted, slot, origin=origin)) == first[number + 1 :]
        assert next_after(counted, slot - 1, origin=origin) == slot
        assert last_before(counted, slot + 1, after=0, origin=origin) == slot
    assert count_between(counted, 0, first[-1] + 10_000 * DAY, origin=origin) == len(first)


@settings(max_examples=60, deadline=None)
@given(schedule=often, origin=decade, start=decade, end=decade)
def test_no_slot_lies_outside_start_and_end(schedule, origin, start, end):
    start, end = sorted((start, end))
    inside = takewhile(end.__ge__, slots(schedule, start - 1, origin=origin))
    expected = list(islice(inside, 20))
    bounded = replace(schedule, start=to_datetime(start), end=to_datetime(end))
    assert list(islice(slots(bounded, 0, origin=origin), 20)) == expected
    assert next_after(bounded, end, origin=origin) is None
    if expected:
        assert count_between(bounded, 0, expected[-1], origin=origin) == len(expected)


def test_start_and_end_may_be_slots_themselves():
    daily = cron("@daily", start="2026-01-02T00:00Z", end="2026-01-04T00:00Z")
    assert [(slot - NEW_YEAR) // DAY for slot in slots(daily, 0, origin=NEW_YEAR)] == [1, 2, 3]


def test_local_bounds_are_in_the_schedules_zone():
    assert cron("@daily", tz="Europe/Berlin", start="2026-01-02T00:00").start == datetime(2026, 1, 1, 23, tzinfo=UTC)


def test_a_far_last_slot_is_not_computed_early():
    """The last slot is 833 years ahead. The work depends on the time that has passed only."""
    monthly = cron("@monthly", max_count=10_000)
    assert next_after(monthly, NEW_YEAR, origin=NEW_YEAR) == NEW_YEAR + 31 * DAY
    assert len(list(islice(slots(monthly, NEW_YEAR, origin=NEW_YEAR), 30))) == 30


def test_bounds_are_part_of_the_id_and_of_the_description():
    plain = every("1h")
    given = [
        every("1h", start="2026-01-01T00:00Z"), every("1h", end="2026-01-01T00:00Z"), every("1h", max_count=3),
        every("1h", jitter="30s"), every("1h", args={"a": 1}), every("1h", args={"a": 2}),
    ]  # fmt: skip
    assert len({schedule_id(one) for one in [plain, *given]}) == 7
    everything = every(
        "1h", start="2026-01-01T00:00Z", end="2026-02-01T00:00Z", max_count=3, jitter="30s", args={"a": 1}
    )
    assert describe(everything) == (
        "every 1h, counted from 1970-01-01 00:00 UTC, from 2026-01-01 00:00 UTC on, until 2026-02-01 00:00 UTC, "
        "3 times in all, up to 30s later, with a=1"
    )


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"max_count": 0}, "max_count: expected a whole number from 1 to 10000, got 0"),
        ({"max_count": True}, "max_count: expected a whole number"),
        ({"max_count": 10_001}, "max_count: expected a whole number"),
        ({"max_count": 2, "run_once": True}, "run_once: it means max_count=1"),
        ({"start": "2026-02-01T00:00Z", "end": "2026-01-01T00:00Z"}, "end: expected an instant after start"),
        (
            {"start": "2026-01-01T00:01Z", "end": "2026-01-01T00:02Z"},
            "end: expected a slot from 2026-01-01T00:01:00+00",
        ),
        ({"jitter": "2d"}, "jitter: expected at most 1 days"),
        ({"jitter": "0s"}, "jitter: expected"),
        ({"args": {"a": object()}}, "args: expected JSON"),
        ({"args": [1]}, "args: expected a mapping of names to values, got list [1]"),
    ],
)
def test_bad_options_are_refused_with_a_reason(options, part):
    for build in (lambda: every("1h", **options), lambda: cron("@hourly", **options)):
        with pytest.raises(ScheduleError) as refused:
            build()
        assert part in str(refused.value)
