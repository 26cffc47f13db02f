"""`describe` puts every schedule into correct English, with its zone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings

from onthedot.model.job import Cron
from onthedot.schedules import cron, describe, parse
from tests.schedules import oracle
from tests.schedules.strategies import schedules

SKIP, SECOND, BOTH = (
    "left out when the clocks skip it",
    "the second time when the clocks show it twice",
    "both times when the clocks show it twice",
)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("30 2 * * *", {"tz": "Europe/Berlin"}, "at 02:30 every day, Europe/Berlin"),
        ("30 2 * * *", {}, "at 02:30 every day, UTC"),
        ("@daily", {}, "at 00:00 every day, UTC"),
        ("@hourly", {"tz": "Asia/Tokyo"}, "at the start of every hour, Asia/Tokyo"),
        ("*/5 * * * *", {}, "every 5 minutes, UTC"),
        ("30 15 2 1", {"seconds": True}, "at 02:15:30 on the 1st of every month, UTC"),
        ("30 15 2 *", {"seconds": True}, "at 02:15:30 every day, UTC"),
        ("0 9 22 * *", {}, "at 09:00 on the 22nd of every month, UTC"),
        (
            "0 9 11,12,21,23,31 * *",
            {},
            "at 09:00 on the 11th, 12th, 21st, 23rd and 31st of every month, UTC",
        ),
        ("0 9 * * FRI-SUN", {}, "at 09:00, Friday through Sunday, UTC"),
        ("0 9 L * *", {}, "at 09:00 on the last day of every month, UTC"),
        ("30 2 * * *", {"gap": "skip"}, f"at 02:30 every day, UTC, {SKIP}"),
        ("30 2 * * *", {"fold": "second"}, f"at 02:30 every day, UTC, {SECOND}"),
        ("30 2 * * *", {"gap": "skip", "fold": "both"}, f"at 02:30 every day, UTC, {SKIP}, {BOTH}"),
        ("*/30 2 * * *", {"gap": "skip", "fold": "both"}, "every 30 minutes from 02:00 through 02:30 every day, UTC"),
        ("30 2 * * *", {"run_once": True}, "once, at the first match of: at 02:30 every day, UTC"),
        ("every 1h30m", {}, "every 1h30m, counted from 1970-01-01 00:00 UTC"),
        ("every 1h30m from 2026-01-01T00:00Z", {}, "every 1h30m, counted from 2026-01-01 00:00 UTC"),
        (
            "every 1h30m",
            {"run_once": True},
            "once, at the first match of: every 1h30m, counted from 1970-01-01 00:00 UTC",
        ),
        ("gap 10m", {}, "10m after the end of the last run, the first at once"),
        ("gap 10m from 2026-01-01T00:00Z", {}, "10m after the end of the last run, the first at 2026-01-01 00:00 UTC"),
        ("at 2026-01-01T01:00:30+01:00", {}, "once, at 2026-01-01 00:00:30 UTC"),
        ("in 10m", {}, "once, 10m after it was created"),
    ],
)
def test_a_schedule_is_described(text, options, expected):
    assert describe(parse(text, **options)) == expected


CRON = [
    ("* * * * *", "every minute"),
    ("* * * * * *", "every second"),
    ("*/2 * * * * *", "every 2 seconds"),
    ("*/5 * * * *", "every 5 minutes"),
    ("*/7 * * * *", "every 7 minutes from minute 0 through 56 of every hour"),
    ("*/30 * * * *", "every 30 minutes"),
    ("0 * * * *", "at the start of every hour"),
    ("30 * * * *", "at minute 30 of every hour"),
    ("15,45 * * * *", "at minutes 15 and 45 of every hour"),
    ("5/15 * * * *", "at minutes 5, 20, 35 and 50 of every hour"),
    ("2/5 * * * *", "every 5 minutes from minute 2 through 57 of every hour"),
    ("0,10,17 * * * *", "at minutes 0, 10 and 17 of every hour"),
    ("10-20 * * * *", "every minute from minute 10 through 20 of every hour"),
    ("10-50/10 * * * *", "every 10 minutes from minute 10 through 50 of every hour"),
    ("*/5 9-17 * * *", "every 5 minutes from 09:00 through 17:55 every day"),
    ("*/5 22-6 * * *", "every 5 minutes from 22:00 through 06:55 every day"),
    ("0 9-17 * * *", "every hour from 09:00 through 17:00 every day"),
    ("0 */2 * * *", "every 2 hours from 00:00 through 22:00 every day"),
    ("0 22-6/2 * * *", "every 2 hours from 22:00 through 06:00 every day"),
    ("0 */5 * * *", "every 5 hours from 00:00 through 20:00 every day"),
    ("30 2 * * *", "at 02:30 every day"),
    ("0 2,14 * * *", "at 02:00 and 14:00 every day"),
    ("0 1,5,8 * * *", "at 01:00, 05:00 and 08:00 every day"),
    ("0,30 9-17 * * *", "every 30 minutes from 09:00 through 17:30 every day"),
    ("15,45 9-17 * * *", "at minutes 15 and 45 of every hour from 09:15 through 17:45 every day"),
    ("0,10,17 9-17 * * *", "at minutes 0, 10 and 17 of every hour from 09:00 through 17:17 every day"),
    ("*/10 */2 * * *", "every 10 minutes during every other hour from 00:00 through 22:50 every day"),
    ("*/5 1,5,8 * * *", "every 5 minutes during hours 1, 5 and 8 every day"),
    ("*/20 2 * * *", "every 20 minutes from 02:00 through 02:40 every day"),
    ("*/30 2 * * *", "every 30 minutes from 02:00 through 02:30 every day"),
    ("0,30 2 * * *", "every 30 minutes from 02:00 through 02:30 every day"),
    ("0,15 2 * * *", "at 02:00 and 02:15 every day"),
    ("*/10 */5 * * * *", "every 10 seconds of every 5th minute of every hour"),
    ("*/2 */2 * * * *", "every 2 seconds of every other minute of every hour"),
    ("15,45 * * * * *", "at seconds 15 and 45 of every minute"),
    ("30 * * * * *", "at second 30 of every minute"),
    ("30 */5 * * * *", "at second 30 of every 5th minute of every hour"),
    ("* 30 2 * * *", "every second of 02:30 every day"),
    ("30 15 2 * * *", "at 02:15:30 every day"),
    (
        "*/20 9-17 * NOV-FEB MON-FRI",
        "every 20 minutes from 09:00 through 17:40, Monday through Friday, from November through February",
    ),
    ("0 9 * * MON", "at 09:00 on Mondays"),
    ("0 9 * * MON-FRI", "at 09:00, Monday through Friday"),
    ("0 9 * * 1,3,5", "at 09:00 on Mondays, Wednesdays and Fridays"),
    ("0 9 * * 0,7", "at 09:00 on Sundays"),
    ("0 9 * * FRI-SUN", "at 09:00, Friday through Sunday"),
    ("0 9 * * FRI-MON", "at 09:00, Friday through Monday"),
    ("0 9 * * SAT,SUN", "at 09:00 on Saturdays and Sundays"),
    ("0 9 * * MON-WED,SAT", "at 09:00 on Mondays through Wednesdays and Saturdays"),
    ("0 9 22 * *", "at 09:00 on the 22nd of every month"),
    ("0 9 1,15 * *", "at 09:00 on the 1st and 15th of every month"),
    ("0 9 1-7 * *", "at 09:00 on the 1st through 7th of every month"),
    ("0 9 11,12,21,23,31 * *", "at 09:00 on the 11th, 12th, 21st, 23rd and 31st of every month"),
    ("0 9 */2 * *", "at 09:00 on every other day from the 1st through the 31st of every month"),
    ("0 9 */30 * *", "at 09:00 on the 1st and 31st of every month"),
    ("0 9 */10 * *", "at 09:00 on the 1st, 11th, 21st and 31st of every month"),
    ("0 9 28-3 * *", "at 09:00 on the 1st through 3rd and 28th through 31st of every month"),
    ("0 9 L * *", "at 09:00 on the last day of every month"),
    ("0 9 L-1 * *", "at 09:00 on the day before the last day of every month"),
    ("0 9 L-3 * *", "at 09:00 on the 3rd day before the last day of every month"),
    ("0 9 LW * *", "at 09:00 on the last weekday (Monday to Friday) of every month"),
    (
        "0 9 L-3W * *",
        "at 09:00 on the weekday (Monday to Friday) nearest to the 3rd day before the last day of every month",
    ),
    ("0 9 15W * *", "at 09:00 on the weekday (Monday to Friday) nearest to the 15th of every month"),
    ("0 9 1W,15W * *", "at 09:00 on the weekdays (Monday to Friday) nearest to the 1st and the 15th of every month"),
    ("0 9 1,L * *", "at 09:00 on the 1st and the last day of every month"),
    ("0 9 * * 5#2", "at 09:00 on the second Friday of every month"),
    ("0 9 * * 5L", "at 09:00 on the last Friday of every month"),
    ("0 9 * * MON-FRI#1", "at 09:00 on the first Monday, Tuesday, Wednesday, Thursday and Friday of every month"),
    ("0 9 * * MON#1,MON#3", "at 09:00 on the first and third Monday of every month"),
    ("0 9 * * SAT-SUN#L,SUN#1", "at 09:00 on the first Sunday and the last Saturday and Sunday of every month"),
    ("0 9 * * MON,FRI#2", "at 09:00 on Mondays and on the second Friday of every month"),
    ("23 12 * Jan-Mar *", "at 12:23 every day from January through March"),
    ("23 12 * NOV-FEB *", "at 12:23 every day from November through February"),
    ("23 12 * 1,6 *", "at 12:23 every day in January and June"),
    ("23 12 1 */3 *", "at 12:23 on the 1st of January, April, July and October"),
    ("23 12 24 12 *", "at 12:23 on the 24th of December"),
    ("23 12 1 NOV-FEB *", "at 12:23 on the 1st of every month from November through February"),
    ("0 0 13 * FRI", "at 00:00 on the 13th of every month or on Fridays"),
    ("0 0 13 6 FRI", "at 00:00 on the 13th of June or on Fridays in June"),
    ("0 0 1-7 * MON", "at 00:00 on the 1st through 7th of every month or on Mondays"),
    ("0 0 13 * MON-FRI", "at 00:00 on the 13th of every month or Monday through Friday"),
    ("0 0 */2 * FRI", "at 00:00 on every other day from the 1st through the 31st of every month, if it is a Friday"),
    (
        "0 0 */2 * MON,WED,FRI",
        "at 00:00 on every other day from the 1st through the 31st of every month, "
        "if it is a Monday, Wednesday or Friday",
    ),
    ("0 0 13 * */2", "at 00:00 on the 13th of every month, if it is a Tuesday, Thursday, Saturday or Sunday"),
    (
        "0 0 */2 * FRI#2",
        "at 00:00 on every other day from the 1st through the 31st of every month, "
        "if it is the second Friday of the month",
    ),
    ("0 9 * 6 MON", "at 09:00 on Mondays in June"),
    ("0 9 * 6 MON-FRI", "at 09:00, Monday through Friday, in June"),
    ("* * * 6 *", "every minute in June"),
    ("*/5 * * * MON-FRI", "every 5 minutes, Monday through Friday"),
    ("*/5 * 1 * *", "every 5 minutes on the 1st of every month"),
    ("*/5 * * 6-8 SUN", "every 5 minutes on Sundays from June through August"),
    ("0 * * * SAT,SUN", "at the start of every hour on Saturdays and Sundays"),
    ("0 0 29 2 *", "at 00:00 on the 29th of February"),
    ("0 0 L 2 *", "at 00:00 on the last day of February"),
    ("0-29/10 * * * *", "every 10 minutes from minute 0 through 20 of every hour"),
    ("0 0 0 1 1 *", "at 00:00 on the 1st of January"),
    ("0 0 1 1 *", "at 00:00 on the 1st of January"),
    ("0 0 13 * 0-6", "at 00:00 every day"),
    ("* 2 * * *", "every minute from 02:00 through 02:59 every day"),
    ("*/10 * 2 * * *", "every 10 seconds from 02:00 through 02:59 every day"),
    ("* * 2 * * *", "every second from 02:00 through 02:59 every day"),
    ("5 5 5 5 5", "at 05:05 on the 5th of May or on Fridays in May"),
    ("* * 13 * *", "every minute on the 13th of every month"),
    ("0,1,2,30 * * * *", "at minutes 0 through 2 and 30 of every hour"),
]


@pytest.mark.parametrize(("expression", "expected"), CRON)
def test_a_cron_expression_is_described_in_english(expression, expected):
    assert describe(cron(expression)) == f"{expected}, UTC"


ODD_ENGLISH = re.compile(r"second second|(\b\w+day\b) and \1\b|\b(\w+) \2\b|every \d+th day of month|  |,,|1th|2th|3th")


@settings(max_examples=30, deadline=None)
@given(expression=oracle.expressions())
def test_no_description_is_bad_english(expression):
    words = describe(Cron(expression=expression))
    odd = ODD_ENGLISH.search(re.sub(r"1[123]th", "", words))
    assert odd is None, (expression, words)


@settings(max_examples=40, deadline=None)
@given(schedule=schedules)
def test_every_description_names_the_zone(schedule):
    words = describe(schedule)
    assert words == words.strip()
    assert not words[0].isupper()
    if isinstance(schedule, Cron):
        assert schedule.tz in words
