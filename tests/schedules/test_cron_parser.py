"""Cron text is split into fields, and an error names the bad field."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.model.errors import ScheduleError
from onthedot.schedules import cron_fields
from onthedot.schedules.cron_parser import read_fields
from tests.schedules import oracle


@pytest.mark.parametrize(
    ("expression", "second", "minute", "hour", "day", "month", "weekday"),
    [
        ("30 15 2 1", "30", "15", "2", "1", "*", "*"),
        ("15 2 1 jun mon", "0", "15", "2", "1", "JUN", "MON"),
        ("30 15 2 1 6 mon", "30", "15", "2", "1", "6", "MON"),
        ("  @Weekly ", "0", "0", "0", "*", "*", "0"),
        ("*/5 1-3,7 2/4 L,LW jan-mar/2 5l,fri#2,sat-sun", "*/5", "1-3,7", "2/4", "L,LW", "JAN-MAR/2", "5L,5#2,SAT-SUN"),
        ("5-5/2 * * *", "5", "*", "*", "*", "*", "*"),
    ],
)
def test_each_field_is_read(expression, second, minute, hour, day, month, weekday):
    assert cron_fields(expression) == {
        "second": second,
        "minute": minute,
        "hour": hour,
        "day": day,
        "month": month,
        "weekday": weekday,
    }


BAD = [
    ("61 * * * *", ["minute: expected 0-59, got '61'", "'minute hour day month weekday'"]),
    ("* 24 * * *", ["hour: expected 0-23, got '24'"]),
    ("* * 0 * *", ["day: expected 1-31, got '0'"]),
    ("* * * 13 *", ["month: expected 1-12 or JAN-DEC, got '13'"]),
    ("* * * * 8", ["weekday: expected 0-7 or SUN-SAT, got '8'"]),
    ("* * * JUNE *", ["month: expected", "got 'JUNE'", "did you mean 'JUN'?"]),
    ("60 * * * * *", ["second: expected 0-59, got '60'", "'second minute hour day month weekday'"]),
    ("0 61 * *", ["minute: expected 0-59, got '61'", "'second minute hour day'"]),
    ("x * * * *", ["minute: expected 0-59, a range 'a-b', a step '*/n' or a list of these, got 'X'"]),
    ("1,,2 * * * *", ["minute: expected", "got ''"]),
    ("-5 * * * *", ["minute: expected", "got ''"]),
    ("1-2-3 * * * *", ["minute: expected", "got '2-3'"]),
    ("²  * * * *", ["minute: expected", "got '²'"]),
    ("*/0 * * * *", ["minute: expected a step from 1 to 60 after '/', got '0'"]),
    ("*/x * * * *", ["minute: expected a step from 1 to 60 after '/', got 'X'"]),
    ("*/5/5 * * * *", ["minute: expected a step from 1 to 60 after '/', got '5/5'"]),
    ("*/90 * * * *", ["minute: expected a step from 1 to 60", "'every 90m'"]),
    ("* * * * 1#6", ["weekday: expected #1 to #5 or #L after the weekday, got '#6'"]),
    ("* * L-31 * *", ["day: expected 1 to 30 days before the last, like 'L-3', got 'L-31'"]),
    ("* * L-0 * *", ["day: expected 1 to 30 days before the last"]),
    ("* * 32W * *", ["day: expected 1-31, got '32'"]),
    ("* * 1-5W * *", ["day: expected one day before 'W', like '15W' or 'LW', got '1-5W'"]),
    ("* * 5W-7 * *", ["day: expected 1-31, a range 'a-b'", "got '5W'"]),
    ("* * * * L", ["weekday: 'L' needs a weekday before it: '6L' or 'SATL' is the last Saturday"]),
    ("* * * * 5L-6", ["weekday: expected", "got '5L'"]),
    ("* * * * MON#", ["weekday: expected #1 to #5 or #L after the weekday, got '#'"]),
    ("* * * * 1/2#3", ["weekday: expected"]),
    ("* * * * 15W", ["weekday: expected", "got '15W'"]),
    ("1 1 */100,1-7 * MON", ["day: expected a step from 1 to 31", "write '*' as the day and 'MON#1' as the weekday"]),
    ("1 1 */100,8-14 * 5", ["write '*' as the day and '5#2' as the weekday"]),
    ("L * * * *", ["minute: expected", "got 'L'"]),
    ("0 0 ? * MON", ["day: '?' is not supported; write '*'"]),
    ("61 25 * * *", ["minute: expected 0-59, got '61'", "hour: expected 0-23, got '25'"]),
    (f"{'9' * 900} * * * *", ["minute: expected"]),
    ("* " * 600, ["expected at most 1000 characters, got 1200"]),
    ("* * *", ["expected 5 fields (minute hour day month weekday), or 6 with the second in front", "got 3"]),
    ("", ["expected 5 fields", "got 0"]),
    ("0 0 0 1 1 * 2026", ["got 7", "a year field is not supported"]),
    ("@reboot", ["'@reboot' names no time"]),
    ("@every 5m", ["is an interval", "'every 5m'"]),
    (
        "@fortnightly",
        ["unknown alias '@fortnightly'; known: @annually, @daily, @hourly, @midnight, @monthly, @weekly, @yearly"],
    ),
    ("@dayly", ["unknown alias '@dayly', did you mean '@daily'?"]),
    (5, ["expected text like '30 2 * * *', got int 5"]),
    (["*"], ["got list ['*']"]),
]


@pytest.mark.parametrize(("expression", "parts"), BAD)
def test_an_error_names_the_field_and_the_problem(expression, parts):
    with pytest.raises(ScheduleError) as refused:
        read_fields(expression)
    for part in parts:
        assert part in str(refused.value)


def test_every_bad_field_is_reported_separately():
    with pytest.raises(ScheduleError) as refused:
        read_fields("61 25 32 13 8")
    assert [problem.split(":")[0] for problem in refused.value.problems] == [
        "minute",
        "hour",
        "day",
        "month",
        "weekday",
    ]


@settings(max_examples=50, deadline=None)
@given(expression=oracle.expressions())
def test_normalised_fields_are_read_back_unchanged(expression):
    fields = read_fields(expression)
    assert read_fields(" ".join(fields)) == fields
    assert read_fields(expression.lower()) == fields


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet="0123456789*/,-#LW?@ \tmonJANß²", max_size=40) | st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        fields = read_fields(text)
    except ScheduleError:
        return
    assert len(fields) == 6
    assert all(fields)
