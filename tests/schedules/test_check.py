"""`check` refuses every invalid schedule with a clear message, and accepts every valid one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onthedot.model.errors import ScheduleError
from onthedot.model.job import At, Cron, Every, FixedDelay, In
from onthedot.schedules import check

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001
AWARE = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def anything(**fields: Any) -> Any:
    """Return fields that may have the wrong type, without a complaint of mypy."""
    return fields


BAD = [
    (Cron(expression="0 0 31 2 *"), ["expected a date that exists, got '0 0 31 2 *', which never comes"]),
    (Cron(expression="0 0 30,31 feb *"), ["never comes", "check day, month and weekday"]),
    (Cron(expression="0 0 31 4,6,9,11 *"), ["never comes"]),
    (Cron(expression="0 0 */25 * MON#2"), ["never comes"]),
    (Cron(expression="61 * * * *"), ["minute: expected 0-59, got '61'"]),
    (Cron(expression="* * *"), ["expected 5 fields (minute hour day month weekday), or 6"]),
    (Cron(**anything(expression=None)), ["expected text like '30 2 * * *', got NoneType None"]),
    (Cron(**anything(expression=["*"])), ["got list"]),
    (Cron(expression="@daily", tz="Europe/Berln"), ["unknown time zone 'Europe/Berln', did you mean 'Europe/Berlin'?"]),
    (Cron(expression="@daily", tz="../../etc/passwd"), ["expected the name of a time zone", "'../../etc/passwd'"]),
    (Cron(**anything(expression="@daily", tz=None)), ["tz: expected the name of a time zone", "got None"]),
    (
        Cron(**anything(expression="@daily", gap="skipp")),
        ["gap: expected 'run_after' or 'skip', got 'skipp'", "did you mean 'skip'?"],
    ),
    (Cron(**anything(expression="@daily", gap=None)), ["gap: expected 'run_after' or 'skip', got None"]),
    (Cron(**anything(expression="@daily", fold="last")), ["fold: expected 'first' or 'second' or 'both', got 'last'"]),
    (Cron(**anything(expression="@daily", run_once="yes")), ["run_once: expected true or false, got 'yes'"]),
    (Cron(expression="@daily", id="a b"), ["id: expected a letter or digit", "got 'a b'"]),
    (Cron(expression="@daily", id="x" * 65), ["id: expected"]),
    (Cron(expression="@daily", id="a:b"), ["got 'a:b'"]),
    (Cron(**anything(expression="@daily", id=7)), ["id: expected", "got 7"]),
    (Every(interval=timedelta(0)), ["interval: expected a length of time above zero"]),
    (Every(interval=-HOUR), ["interval: expected a length of time above zero"]),
    (Every(interval=timedelta(milliseconds=9)), ["interval: expected at least 10ms, got 9ms"]),
    (Every(interval=timedelta(days=40_000)), ["interval: expected at most 36525 days, got 40000 days"]),
    (Every(**anything(interval=5)), ["interval: expected a timedelta, got int 5"]),
    (Every(**anything(interval=HOUR, run_once=1)), ["run_once: expected true or false, got 1"]),
    (Every(interval=HOUR, anchor=NAIVE), ["anchor: expected a point in time with an offset"]),
    (
        Every(**anything(interval=HOUR, anchor="2026-01-01T00:00Z")),
        ["anchor: expected a datetime with a time zone, got str"],
    ),
    (FixedDelay(delay=timedelta(0)), ["delay: expected a length of time above zero"]),
    (FixedDelay(delay=timedelta(milliseconds=1)), ["delay: expected at least 10ms, got 1ms"]),
    (FixedDelay(delay=HOUR, start=NAIVE), ["start: expected a point in time with an offset"]),
    (At(instant=NAIVE), ["instant: expected a point in time with an offset"]),
    (At(**anything(instant=None)), ["instant: expected a datetime with a time zone, got NoneType"]),
    (In(delay=timedelta(0)), ["delay: expected a length of time above zero"]),
    (In(**anything(delay="10m")), ["delay: expected a timedelta, got str '10m'"]),
    ("@daily", ["expected a schedule", "got str '@daily'", "parse()"]),
]


@pytest.mark.parametrize(("schedule", "parts"), BAD)
def test_an_invalid_schedule_is_refused_with_a_reason(schedule, parts):
    with pytest.raises(ScheduleError) as refused:
        check(schedule)
    for part in parts:
        assert part in str(refused.value)


def test_all_problems_are_reported_together():
    bad = Cron(**anything(expression="61 25 * * *", tz="Nowhere/Land", gap="x", fold="y", run_once=0, id="?"))
    with pytest.raises(ScheduleError) as refused:
        check(bad)
    subjects = [problem.split(":")[0] for problem in refused.value.problems]
    assert subjects == ["minute", "hour", "tz", "gap", "fold", "run_once", "id"]


@pytest.mark.parametrize(
    "schedule",
    [
        Cron(expression="0 0 29 2 *"),
        Cron(expression="0 0 29 2 */7"),
        Cron(expression="0 0 31 2 MON"),  # one of both must match: Mondays in February
        Cron(expression="0 0 L 2 *", tz="Asia/Kathmandu", gap="skip", fold="both", run_once=True, id="last.of-feb_1"),
        Every(interval=timedelta(milliseconds=10)),
        Every(interval=HOUR, anchor=AWARE, run_once=True, id="0"),
        FixedDelay(delay=HOUR, start=AWARE),
        At(instant=AWARE),
        In(delay=timedelta(microseconds=1)),
    ],
)
def test_a_valid_schedule_is_accepted(schedule):
    check(schedule)
