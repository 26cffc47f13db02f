"""`upcoming` lists the next starts of all jobs in order of time; frequent ones appear once with their rate."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import onthedot as otd
from onthedot.clock import SECOND, to_micros
from onthedot.model.job import Job, JobRecord, JobState, Schedule
from onthedot.model.task import Noop
from onthedot.model.window import ScheduleState, SlotException
from onthedot.rules.next_slots import Gathered, Start, upcoming
from onthedot.schedules import schedule_id

NOW = to_micros(datetime(2026, 11, 18, 12, 0, 0, 500_000, tzinfo=UTC))


def state(name: str, schedule: Schedule, *, exceptions: tuple[SlotException, ...] = ()) -> ScheduleState:
    record = JobRecord(1, 1, Job(name=name, task=Noop(), schedules=(schedule,)), JobState.ACTIVE, NOW, NOW)
    given = record.job.schedules[0]
    return ScheduleState(record, schedule_id(given), 0, NOW, NOW, None, exceptions)


def rows(starts: list[Start]) -> list[tuple[str, str, float | None]]:
    return [
        (
            one.job.job.name,
            f"{datetime.fromtimestamp(one.due_at / SECOND, UTC):%d %H:%M:%S}",
            None if one.every is None else one.every / SECOND,
        )
        for one in starts
    ]


def test_starts_are_in_order_of_time_and_a_frequent_job_appears_once():
    states = [
        state("tick", otd.every("1s")),
        state("hourly", otd.cron("5 * * * *")),
        state("nightly", otd.cron("30 2 * * *")),
    ]
    assert rows(upcoming(Gathered(states), NOW, limit=5)) == [
        ("tick", "18 12:00:01", 1.0),
        ("hourly", "18 12:05:00", 3600.0),
        ("nightly", "19 02:30:00", None),
        ("nightly", "20 02:30:00", None),
        ("nightly", "21 02:30:00", None),
    ]


def test_few_starts_within_a_range_are_listed_one_by_one():
    states = [state("tick", otd.every("1s")), state("hourly", otd.cron("5 * * * *"))]
    end = NOW + 3 * 3600 * SECOND
    assert rows(upcoming(Gathered(states), NOW, limit=20, until=end)) == [
        ("tick", "18 12:00:01", 1.0),
        ("hourly", "18 12:05:00", None),
        ("hourly", "18 13:05:00", None),
        ("hourly", "18 14:05:00", None),
    ]


@pytest.mark.parametrize(
    ("expression", "a_day"),
    [("0 22-6 * * *", 9), ("10-50/10 * * * *", 120), ("5 * * * *", 24), ("* 9-17 * * 1-5", None), ("0 0 * * 1", None)],
)
@pytest.mark.parametrize("later", range(0, 86_400, 5_003))
def test_the_rate_of_a_frequent_job_is_right_at_any_hour(expression: str, a_day: int | None, later: int):
    [start] = upcoming(Gathered([state("one", otd.cron(expression))]), NOW + later * SECOND, limit=1 + later % 3)[:1]
    dense = upcoming(Gathered([state("one", otd.cron(expression))]), NOW + later * SECOND, limit=20)
    assert (start.many, [one.many for one in dense]) == (False, [True])
    assert (None if dense[0].every is None else 86_400 * SECOND / dense[0].every) == a_day


def test_skipped_slots_are_left_out():
    first = to_micros(datetime(2026, 11, 19, 2, 30, tzinfo=UTC))
    states = [state("nightly", otd.cron("30 2 * * *"), exceptions=(SlotException(first, "cancelled"),))]
    assert rows(upcoming(Gathered(states), NOW, limit=1)) == [("nightly", "20 02:30:00", None)]


def test_without_future_slots_the_list_is_empty():
    assert upcoming(Gathered(), NOW, limit=5) == []
    assert upcoming(Gathered([state("once", otd.at("2020-01-01T00:00Z"))]), NOW, limit=5) == []
