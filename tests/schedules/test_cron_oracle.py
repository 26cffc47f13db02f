"""Cron slots equal those of the oracle, around every kind of clock change and over plain calendars."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.clock import to_datetime, to_micros
from onthedot.model.job import Cron
from onthedot.schedules import next_after, slots
from tests.schedules import oracle

AROUND = timedelta(hours=8)
GAPS = st.sampled_from(["run_after", "run_after", "skip"])
FOLDS = st.sampled_from(["first", "first", "second", "both"])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(data=st.data(), gap=GAPS, fold=FOLDS)
def test_slots_around_a_clock_change_are_those_of_the_oracle(data, gap, fold):
    tz, change = data.draw(oracle.moments())
    expression = data.draw(oracle.expressions(near=change.astimezone(ZoneInfo(tz))))
    start, end = change - AROUND, change + AROUND
    expected = oracle.slots_between(expression, tz, gap, fold, start, end)
    schedule = Cron(expression=expression, tz=tz, gap=gap, fold=fold)

    assert between(schedule, start - timedelta(microseconds=1), end) == expected

    after = start + data.draw(st.timedeltas(timedelta(0), 2 * AROUND))
    first = next_after(schedule, to_micros(after), origin=0)
    later = [slot for slot in expected if slot > after]
    if later:
        assert first == to_micros(later[0])
    else:
        assert first is None or first >= to_micros(end)


@settings(max_examples=60, deadline=None)
@given(moment=oracle.moments(), minute=st.sampled_from([0, 1, 30, 59]), back=st.integers(-7, 7), gap=GAPS, fold=FOLDS)
def test_a_yearly_time_near_a_clock_change_is_found_from_years_away(moment, minute, back, gap, fold):
    tz, change = moment
    wall = change.astimezone(ZoneInfo(tz)).replace(tzinfo=None) - timedelta(hours=back)
    start, end = change - AROUND, change + AROUND
    expression = f"{minute} {wall.hour} {wall.day} {wall.month} *"
    expected = oracle.slots_between(expression, tz, gap, fold, start, end)

    found = between(Cron(expression=expression, tz=tz, gap=gap, fold=fold), start - timedelta(days=2000), end)

    assert [slot for slot in found if slot >= start] == expected


@settings(max_examples=30, deadline=None)
@given(expression=oracle.expressions(), year=st.integers(1995, 2100))
def test_dates_over_two_years_are_those_of_the_oracle(expression, year):
    parts = expression.split()
    days = parts[3] if len(parts) != 5 else parts[2]
    months_and_weekdays = " ".join(parts[-2:]) if len(parts) != 4 else "* *"
    daily = f"0 12 {days} {months_and_weekdays}"
    reading = oracle.Reading(daily)
    calendar = [date(year, 1, 1) + timedelta(days=day) for day in range(731)]

    found = between(Cron(expression=daily), datetime(year, 1, 1, tzinfo=UTC), datetime(year + 2, 1, 1, tzinfo=UTC))

    assert [slot.date() for slot in found] == [day for day in calendar if day.year < year + 2 and reading.on(day)]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), gap=GAPS, fold=FOLDS, tz=oracle.zones(), seconds=st.integers(946_684_800, 4_102_444_800))
def test_slots_ascend_and_next_after_agrees_with_them(data, gap, fold, tz, seconds):
    schedule = Cron(expression=data.draw(oracle.expressions()), tz=tz, gap=gap, fold=fold)
    after = seconds * 1_000_000 + data.draw(st.integers(0, 999_999))

    found = list(islice(slots(schedule, after, origin=0), 30))

    assert found == list(islice(slots(schedule, after, origin=0), 30)), "expected the same slots from a second call"
    assert all(earlier < later for earlier, later in zip([after, *found], found, strict=False))
    one_by_one = [after]
    for _ in found[:10]:
        slot = next_after(schedule, one_by_one[-1], origin=0)
        assert slot is not None
        one_by_one.append(slot)
    assert one_by_one[1:] == found[:10]
    if found:
        assert next_after(schedule, found[0] - 1, origin=0) == found[0], "expected the first slot from 1 µs before it"


TERMS = {
    "hour": ["22-6", "22-6/2", "23-1/2", "5", "*/7", "20-4/3,12"],
    "day": ["*", "*", "*/2", "13", *oracle.NEAR, "L", "LW", "L-1W,15", "25-5/3"],
    "month": ["*", "*", "2", "NOV-FEB", "OCT-MAR/2", "12-1", "JUN,AUG-APR/3"],
    "weekday": ["*", "*", "FRI", "*/3", *oracle.AROUND_THE_WEEK, "SAT#5", "SUN-TUE#3,FRI#L", "4-2L"],
}


@pytest.mark.parametrize("seed", range(20))
def test_random_expressions_match_the_days_and_hours_of_the_oracle(seed):
    chance = random.Random(seed)
    for _ in range(4):
        hour, day, month, weekday = (chance.choice(terms) for terms in TERMS.values())
        year = chance.choice([1999, 2000, 2023, 2024, 2026, 2100])
        reading = oracle.Reading(f"0 {hour} {day} {month} {weekday}")
        first = date(year, chance.randint(1, 12), 1)
        calendar = [first + timedelta(days=number) for number in range(370)]
        expected = [(one, at) for one in calendar if reading.on(one) for at in sorted(reading.hours)]
        start = datetime(first.year, first.month, 1, tzinfo=UTC)

        found = between(
            Cron(expression=f"0 {hour} {day} {month} {weekday}"),
            start - timedelta(seconds=1),
            start + timedelta(days=370),
        )

        assert [(slot.date(), slot.hour) for slot in found] == expected, (seed, hour, day, month, weekday)


def between(schedule: Cron, after: datetime, end: datetime) -> list[datetime]:
    found = slots(schedule, to_micros(after), origin=0)
    return [to_datetime(slot) for slot in takewhile(lambda slot: slot < to_micros(end), found)]
