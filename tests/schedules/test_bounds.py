"""From start to end, and so many times."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.clock import SECOND, to_datetime, to_micros
from onthedot.model.errors import ScheduleError
from onthedot.schedules import count_between, cron, describe, every, last_before, next_after, schedule_id, slots
from tests.schedules.strategies import crons, everys

NEW_YEAR = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
DAY = 86_400 * SECOND
moments = st.integers(NEW_YEAR, NEW_YEAR + 3_650 * DAY)
often = (crons | everys).map(lambda one: replace(one, run_once=False))


@settings(max_examples=60, deadline=None)
@given(schedule=often, origin=moments, count=st.integers(1, 12), after=moments, with_start=st.booleans())
def test_max_count_keeps_the_first_ones(schedule, origin, count, after, with_start):
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
@given(schedule=often, origin=moments, start=moments, end=moments)
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


def test_a_far_last_slot_costs_nothing_until_it_is_near():
    """833 years of months: what is walked is bounded by the time that has passed."""
    monthly = cron("@monthly", max_count=10_000)
    assert next_after(monthly, NEW_YEAR, origin=NEW_YEAR) == NEW_YEAR + 31 * DAY
    assert len(list(islice(slots(monthly, NEW_YEAR, origin=NEW_YEAR), 30))) == 30


def test_bounds_are_part_of_the_identity_and_of_the_words():
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
def test_what_makes_no_sense_is_refused(options, part):
    for build in (lambda: every("1h", **options), lambda: cron("@hourly", **options)):
        with pytest.raises(ScheduleError) as refused:
            build()
        assert part in str(refused.value)
