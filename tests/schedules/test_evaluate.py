"""What holds for schedules of every kind."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.clock import to_micros
from onthedot.job import Cron, Every
from onthedot.schedules import check, count_between, last_before, next_after, slots
from tests.schedules.strategies import crons, everys, schedules

YEAR_2000, YEAR_2100 = (to_micros(datetime(year, 1, 1, tzinfo=UTC)) for year in (2000, 2100))
moments = st.integers(YEAR_2000, YEAR_2100)


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
