"""What holds for schedules of every kind."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import islice, takewhile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onthedot.clock import SECOND, to_micros
from onthedot.model.job import Cron, Every
from onthedot.schedules import at, check, count_between, cron, in_, last_before, next_after, slots
from tests.schedules.strategies import crons, everys, schedules, with_options

YEAR_2000, YEAR_2100 = (to_micros(datetime(year, 1, 1, tzinfo=UTC)) for year in (2000, 2100))
MARCH, OCTOBER = (to_micros(datetime(2026, month, 20, tzinfo=UTC)) for month in (3, 10))
DAY = 86_400 * SECOND
moments = st.integers(YEAR_2000, YEAR_2100)
recurring = crons | everys | with_options(crons | everys)


@settings(max_examples=50, deadline=None)
@given(schedule=schedules, after=moments, origin=moments, last_end=st.none() | moments)
def test_slots_ascend_from_after_and_next_after_is_the_first(schedule, after, origin, last_end):
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
def test_the_last_before_is_the_one_that_walking_finds(schedule, after, origin):
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
def test_what_is_counted_is_what_walking_finds(schedule, after, origin, walked, more):
    found = list(islice(slots(schedule, after, origin=origin), walked))
    until = (found[-1] if found else after) + more
    found += takewhile(until.__ge__, slots(schedule, found[-1], origin=origin)) if found else []
    assert count_between(schedule, after, until, origin=origin) == len(found)
    middle = found[len(found) // 2] if found else after
    assert count_between(schedule, middle, until, origin=origin) == len([slot for slot in found if slot > middle])
    assert count_between(schedule, middle, after, origin=origin) == 0


def test_a_count_does_not_go_back_to_where_a_schedule_began():
    """Who resumes a job halves its pause, and counts some forty times."""
    weekly = cron("0 0 * * 1", start="1900-01-01T00:00Z", max_count=10_000)
    end = YEAR_2000 + 365 * DAY
    assert count_between(weekly, YEAR_2000, end, origin=0) == 52  # and it is known now which is the last
    began = time.process_time()
    counted = {count_between(weekly, end - days * DAY, end, origin=0) for days in range(1, 41)}
    assert time.process_time() - began < 0.5, "a century of days takes 0.1 s to walk"
    assert counted == set(range(min(counted), max(counted) + 1))


@pytest.mark.parametrize("many", [cron("* * * * * *", tz="Europe/Berlin"), cron("* * * * * *", max_count=10_000)])
def test_a_year_of_seconds_is_counted_without_walking_them(many):
    began = time.process_time()
    assert count_between(many, YEAR_2000, YEAR_2000 + 365 * DAY, origin=YEAR_2000) in (365 * 86_400, 10_000)
    assert time.process_time() - began < 1, "some 30 million seconds take half a minute to walk"


T = to_micros(datetime(2026, 1, 1, tzinfo=UTC))


def test_at_is_its_instant_until_it_has_passed():
    moment = at("2026-01-01T00:00Z")
    assert next_after(moment, T - 1, origin=0) == T
    assert next_after(moment, T, origin=0) is None
    assert list(slots(moment, 0, origin=0)) == [T]


def test_an_at_before_its_origin_is_still_a_slot():
    assert next_after(at("2026-01-01T00:00Z"), T - 1, origin=T + 10**9) == T


def test_in_counts_from_the_origin():
    soon = in_("10m")
    assert next_after(soon, T, origin=T) == T + 600_000_000
    assert next_after(soon, T + 600_000_000, origin=T) is None
    assert list(slots(soon, 0, origin=T)) == [T + 600_000_000]
    assert count_between(soon, T, T + 600_000_000, origin=T) == 1
    assert count_between(soon, T, T + 599_999_999, origin=T) == 0


def test_in_beyond_the_calendar_is_never():
    late = to_micros(datetime(9999, 12, 31, 23, 59, tzinfo=UTC))
    assert next_after(in_("10m"), late, origin=late) is None
