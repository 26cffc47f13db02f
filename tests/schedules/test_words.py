"""The reading, shown back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from onthedot.job import Cron
from onthedot.schedules import describe, parse
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
        ("*/5 * * * *", {}, "every fifth minute of every hour, UTC"),
        ("30 15 2 1", {}, "at 02:15:30 on the first day of every month, UTC"),
        ("30 15 2 *", {}, "at 02:15:30 every day, UTC"),
        ("0 9 22 * *", {}, "at 09:00 on the 22nd day of every month, UTC"),
        (
            "0 9 11,12,21,23,31 * *",
            {},
            "at 09:00 on the 11th, the 12th, the 21st, the 23rd, and the 31st day of month, UTC",
        ),
        ("0 9 * * FRI-SUN", {}, "at 09:00 on Friday through Sunday, UTC"),
        ("0 9 L * *", {}, "at 09:00 on the last day of every month, UTC"),
        ("30 2 * * *", {"gap": "skip"}, f"at 02:30 every day, UTC, {SKIP}"),
        ("30 2 * * *", {"fold": "second"}, f"at 02:30 every day, UTC, {SECOND}"),
        ("30 2 * * *", {"gap": "skip", "fold": "both"}, f"at 02:30 every day, UTC, {SKIP}, {BOTH}"),
        ("*/30 2 * * *", {"gap": "skip", "fold": "both"}, "every 30th minute from 02:00 through 02:59, UTC"),
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
def test_the_reading(text, options, expected):
    assert describe(parse(text, **options)) == expected


@settings(max_examples=40, deadline=None)
@given(schedule=schedules)
def test_every_schedule_has_a_reading_with_its_zone(schedule):
    words = describe(schedule)
    assert words == words.strip()
    assert not words[0].isupper()
    if isinstance(schedule, Cron):
        assert schedule.tz in words
