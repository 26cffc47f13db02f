"""`lint` reports odd schedules with a kind, a text and advice, and reports no plain ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.clock import to_micros
from onthedot.schedules import at, cron, every, gap, in_, parse
from onthedot.schedules.lint import lint
from tests.schedules.strategies import schedules

NOW = to_micros(datetime(2026, 1, 1, 12, tzinfo=UTC))
BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("schedule", "kinds", "said"),
    [
        (cron("0 9 * * *", tz=BERLIN), [], ""),
        (cron("@daily"), [], ""),
        (cron("*/15 * * * *"), [], ""),
        (cron("0 0 L * *"), [], ""),
        (every("1h"), [], ""),
        (every("1d", anchor="2026-01-01T09:00Z"), [], ""),
        (gap("10m"), [], ""),
        (in_("10m"), [], ""),
        (at("2026-06-01T00:00Z"), [], ""),
        (cron("*/7 * * * *"), ["uneven"], "every 7 minutes does not divide an hour: after minute 56 comes minute 0"),
        (cron("0 */5 * * *"), ["uneven"], "does not divide a day: after hour 20 comes hour 0, 4 hours later"),
        (cron("*/40 * * * * *"), ["seconds", "uneven"], "the first is the second"),
        (cron("0 0 */2 * *"), ["uneven"], "begins anew on the first of each month"),
        (cron("0 0 13 * FRI"), ["both_days"], "either one suffices, not both together"),
        (cron("0 0 */2 * FRI"), ["both_days", "uneven"], "both must match"),
        (cron("0 0 29 2 *"), ["rare"], "once in 4 years; next on 2028-02-29"),
        (cron("0 0 31 * *"), ["months"], "not every month has a day 31"),
        (cron("0 0 30,31 * *"), ["months"], "not every month has a day 30"),
        (cron("0 2 * *", seconds=True), ["four_fields"], "second 0, minute 2, hour *, day *"),
        (cron("30 2 * * *", tz=BERLIN), ["clocks_repeat"],
         "02:00 to 03:00 twice: it runs the first time; on 2026-03-29 they skip from 02:00 to 03:00: it runs right "
         "after, at 03:00"),
        (cron("10-5 * * * *"), ["wrapped"], "minute 10-5: from 10 past 59 to 5, 56 of 60 minutes"),
        (cron("0 10-5 * * *"), ["wrapped"], "hour 10-5: from 10 past 23 to 5, 20 of 24 hours"),
        (cron("50-10 22-4 * * *"), [], ""),
        (cron("30 2 * * *", tz=BERLIN, gap="skip"), ["clocks_skip", "clocks_repeat"],
         "on 2026-03-29 the clocks in Europe/Berlin skip from 02:00 to 03:00: its start on that day is left out"),
        (cron("0,30 2 * * *", tz=BERLIN), ["clocks_skip", "clocks_repeat"], "2 starts become one, right after"),
        (cron("0 2,3 * * *", tz=BERLIN), ["clocks_skip", "clocks_repeat"], "2 starts become one, right after"),
        (cron("30 2,3 * * *", tz=BERLIN), ["clocks_repeat"], ""),
        (cron("30 1,2 * * *", tz=BERLIN, gap="skip"), ["clocks_skip", "clocks_repeat"],
         "1 of 2 starts on that day are left out"),
        (cron("*/20 2 * * *", tz=BERLIN), ["clocks_skip"],
         "on 2026-03-29 the clocks in Europe/Berlin skip from 02:00 to 03:00: all 3 starts on that day are left out"),
        (cron("*/20 2 * * *", tz=BERLIN, gap="skip"), ["clocks_skip"], "all 3 starts on that day are left out"),
        (cron("*/20 1-3 * * *", tz=BERLIN), ["clocks_skip"], "3 of 9 starts on that day are left out"),
        (cron("0 */2 * * *", tz=BERLIN), ["clocks_skip"], "1 of 12 starts on that day are left out"),
        (cron("* 2 * * SUN", tz=BERLIN), ["clocks_skip"], "all 60 starts on that day are left out"),
        (cron("* 2 * * MON", tz=BERLIN), [], ""),
        (cron("*/20 2 1 1 *", tz=BERLIN), [], ""),
        (cron("* * * * *", tz=BERLIN), [], ""),
        (cron("*/20 * * * *", tz=BERLIN), [], ""),
        (cron("0 * * * *", tz=BERLIN), [], ""),
        (cron("0 * * * *", tz="Australia/Lord_Howe"), ["clocks_skip"], "1 of 24 starts on that day are left out"),
        (cron("*/30 * * * *", tz="Australia/Lord_Howe"), [], ""),
        (cron("*/20 2 * * *", tz="Asia/Tokyo"), [], ""),
        (cron("0 0 31W * *"), ["months"], "not every month has a day 31"),
        (cron("0 0 28,31 * *"), [], ""),
        (cron("0 0 31,L * *"), [], ""),
        (cron("30 2 * * *", tz=BERLIN, fold="both"), ["clocks_repeat"],
         "on 2026-10-25 the clocks in Europe/Berlin show 02:00 to 03:00 twice: it runs both times"),
        (cron("@daily", tz="America/Havana", gap="skip"), ["clocks_skip", "clocks_repeat"], "skip from 00:00 to 01:00"),
        (cron("@daily", run_once=True), ["once"], "it runs once, at its first match"),
        (cron("@daily", end="2025-01-01"), ["never"], "never comes any more"),
        (every("1h", end="2025-01-01T00:00Z"), ["never"], "never comes any more"),
        (at("2025-06-01T00:00Z"), ["past"], "it lies in the past"),
        (at("2025-06-01T00:00Z", "2026-06-01T00:00Z"), ["past"], "1 of 2 instants lie in the past"),
        (every("10m", jitter="10m"), ["jitter"], "jitter (10m) is not less than the distance of slots (10m)"),
        (every("2d"), ["uneven"], "is counted from 1970-01-01"),
        (every("7h"), ["uneven"], "does not divide a day"),
    ],
)  # fmt: skip
def test_odd_schedules_are_reported_and_plain_ones_are_not(schedule, kinds, said):
    found = lint(schedule, NOW)
    assert [one.kind for one in found] == kinds, found
    assert said in " ".join(one.text for one in found)
    assert all(one.text and one.advice for one in found)


@settings(deadline=None, max_examples=100)
@given(schedules, st.integers(0, 2 * 10**15))
def test_every_schedule_can_be_checked(schedule, now):
    assert all(one.text and one.advice for one in lint(schedule, now))


def test_an_h_expression_without_a_job_can_be_checked():
    assert lint(parse("H H * * *"), NOW) == []
