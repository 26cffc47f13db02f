"""Cron yields the right slots for rare dates and at the ends of the calendar, with bounded work."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pytest

from onthedot.clock import to_datetime, to_micros
from onthedot.model.errors import ScheduleError
from onthedot.model.job import Cron
from onthedot.schedules import cron, next_after, slots
from onthedot.schedules.calendar import Days
from onthedot.schedules.cron_slots import wall_times

START = to_micros(datetime(2026, 1, 1, tzinfo=UTC))


def dates(schedule: Cron, count: int, after: int = START) -> list[str]:
    return [to_datetime(slot).date().isoformat() for slot in islice(slots(schedule, after, origin=0), count)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29", "2036-02-29"]),
        ("0 0 29 2 */7", ["2032-02-29", "2060-02-29", "2088-02-29", "2128-02-29"]),  # on a Sunday; 2100 has none
        ("0 0 * 2 MON#5", ["2044-02-29", "2072-02-29", "2112-02-29"]),
        ("0 0 L * *", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("0 0 LW * *", ["2026-01-30", "2026-02-27", "2026-03-31"]),
        ("0 0 * * 5L", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("0 0 13 * FRI", ["2026-01-02", "2026-01-09", "2026-01-13"]),  # one of both must match
        ("0 0 */13 * FRI", ["2026-02-27", "2026-03-27", "2026-05-01"]),  # a star: both must match
        ("0 0 * * FRI-SUN", ["2026-01-02", "2026-01-03", "2026-01-04"]),
        ("@yearly", ["2027-01-01", "2028-01-01"]),
        ("@Annually", ["2027-01-01", "2028-01-01"]),
        ("@monthly", ["2026-02-01", "2026-03-01"]),
        ("@weekly", ["2026-01-04", "2026-01-11"]),
        ("@DAILY", ["2026-01-02", "2026-01-03"]),
        ("@midnight", ["2026-01-02", "2026-01-03"]),
    ],
)
def test_rare_dates_and_aliases_yield_the_right_slots(expression, expected):
    assert dates(cron(expression), len(expected)) == expected


def test_hourly_and_four_fields_yield_the_right_slots():
    assert next_after(cron("@hourly"), START, origin=0) == START + 3_600_000_000
    assert next_after(cron("30 15 2 1", seconds=True), START, origin=0) == START + (2 * 3600 + 15 * 60 + 30) * 1_000_000


def test_no_slot_comes_after_the_end_of_the_calendar():
    beyond = to_micros(datetime.max.replace(tzinfo=UTC))
    assert next_after(cron("@daily", tz="Asia/Tokyo"), beyond, origin=0) is None
    assert list(slots(cron("0 0 29 2 *"), to_micros(datetime(9990, 1, 1, tzinfo=UTC)), origin=0)) == [
        to_micros(datetime(9992, 2, 29, tzinfo=UTC)),
        to_micros(datetime(9996, 2, 29, tzinfo=UTC)),
    ]


def test_the_first_slot_of_the_calendar_follows_any_earlier_instant():
    first = next_after(cron("@daily"), -(10**20), origin=0)
    assert first is not None
    assert to_datetime(first).year == 2


def test_run_once_is_only_the_first_match_after_the_origin():
    once = cron("0 12 * * *", run_once=True)
    noon = START + 12 * 3_600_000_000
    assert list(slots(once, START - 10**12, origin=START)) == [noon]
    assert list(slots(once, noon - 1, origin=START)) == [noon]
    assert list(slots(once, noon, origin=START)) == []
    assert next_after(once, START, origin=noon) == noon + 86_400_000_000


WORK = [
    # expression, zone, highest number of months that one call may examine
    ("30 2 * * *", "Europe/Berlin", 4),
    ("*/5 * * * *", "America/New_York", 4),
    ("59 59 23 31 12 *", "UTC", 4),
    ("0 0 29 2 *", "Europe/Berlin", 12),
    ("0 0 29 2 */7", "Europe/Berlin", 80),
    ("0 0 */25 * MON#2", "UTC", 2 * 51 * 12),  # never; `check` refuses it, evaluation still ends
]


@pytest.mark.parametrize(("expression", "tz", "most"), WORK)
def test_the_work_of_one_call_is_bounded(monkeypatch, expression, tz, most):
    steps = 0

    def counted(function):
        def count(self, *args, **kwargs):
            nonlocal steps
            steps += 1
            return function(self, *args, **kwargs)

        return count

    monkeypatch.setattr(Days, "of_month", counted(Days.of_month))
    for month in (1, 2, 3, 10):
        steps = 0
        after = to_micros(datetime(2032, month, 29, 1, tzinfo=UTC))
        next_after(Cron(expression=expression, tz=tz), after, origin=0)
        assert 0 < steps <= most


def test_an_impossible_date_yields_no_slot_and_bad_fields_raise():
    assert next_after(Cron(expression="0 0 */25 * MON#2"), START, origin=0) is None
    assert next_after(Cron(expression="0 0 31 2 *"), START, origin=0) is None
    with pytest.raises(ScheduleError, match="expected 0-59"):
        next_after(Cron(expression="60 * * * *"), START, origin=0)
    with pytest.raises(ScheduleError, match="unknown time zone"):
        next_after(Cron(expression="@daily", tz="Europe/Atlantis"), START, origin=0)


def test_two_iterations_over_one_parsed_expression_are_independent():
    schedule = cron("0 12 * * *")
    one = slots(schedule, START, origin=0)
    first = next(one)
    other = slots(schedule, START + 10**15, origin=0)
    next(other)
    assert next(one) == first + 86_400_000_000
    assert wall_times("0 12 * * *") is wall_times("0 12 * * *")
