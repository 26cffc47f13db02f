"""Cron slots in nights of clock changes equal hand-written lists (Berlin and New York, times in UTC)."""

from __future__ import annotations

from itertools import takewhile

import pytest

from onthedot.clock import to_datetime, to_micros
from onthedot.schedules import at, cron, slots

BERLIN_SPRING = ("Europe/Berlin", "2026-03-29T00:00Z", "2026-03-29T03:00Z")  # 02:00 -> 03:00 at 01:00 UTC
BERLIN_AUTUMN = ("Europe/Berlin", "2026-10-24T23:30Z", "2026-10-25T02:30Z")  # 03:00 -> 02:00 at 01:00 UTC
NEW_YORK_SPRING = ("America/New_York", "2026-03-08T06:00Z", "2026-03-08T09:00Z")  # 02:00 -> 03:00 at 07:00 UTC
NEW_YORK_AUTUMN = ("America/New_York", "2026-11-01T04:30Z", "2026-11-01T08:00Z")  # 02:00 -> 01:00 at 06:00 UTC

NIGHTS = [
    # A fixed time in the gap runs right after it. Several such times become one slot.
    (BERLIN_SPRING, "30 2 * * *", {}, ["01:00"]),
    (BERLIN_SPRING, "0 2 * * *", {}, ["01:00"]),
    (BERLIN_SPRING, "59 2 * * *", {}, ["01:00"]),
    (BERLIN_SPRING, "0,30 2 * * *", {}, ["01:00"]),
    (BERLIN_SPRING, "30 2,3 * * *", {}, ["01:00", "01:30"]),
    (BERLIN_SPRING, "0 2,3 * * *", {}, ["01:00"]),
    (BERLIN_SPRING, "0 3 * * *", {}, ["01:00"]),
    (BERLIN_SPRING, "30 1-4 * * *", {}, ["00:30", "01:00", "01:30", "02:30"]),
    (BERLIN_SPRING, "15 30 2 * * *", {}, ["01:00"]),
    (BERLIN_SPRING, "15 30 2 29", {}, ["01:00"]),
    (BERLIN_SPRING, "30 2 29 3 *", {}, ["01:00"]),
    (BERLIN_SPRING, "30 2 * * *", {"gap": "skip"}, []),
    (BERLIN_SPRING, "30 2,3 * * *", {"gap": "skip"}, ["01:30"]),
    (BERLIN_SPRING, "15 30 2 * * *", {"gap": "skip"}, []),
    # Wildcards keep their interval and skip times that no clock shows.
    (BERLIN_SPRING, "*/30 * * * *", {}, ["00:00", "00:30", "01:00", "01:30", "02:00", "02:30"]),
    (BERLIN_SPRING, "0 * * * *", {}, ["00:00", "01:00", "02:00"]),
    (BERLIN_SPRING, "30 * * * *", {}, ["00:30", "01:30", "02:30"]),
    (BERLIN_SPRING, "*/30 2 * * *", {}, []),
    (BERLIN_SPRING, "30 */2 * * *", {}, ["02:30"]),
    (NEW_YORK_SPRING, "30 2 * * *", {}, ["07:00"]),
    (NEW_YORK_SPRING, "30 2 * * *", {"gap": "skip"}, []),
    (NEW_YORK_SPRING, "30 1 * * *", {}, ["06:30"]),
    (NEW_YORK_SPRING, "30 3 * * *", {}, ["07:30"]),
    (NEW_YORK_SPRING, "*/30 * * * *", {}, ["06:00", "06:30", "07:00", "07:30", "08:00", "08:30"]),
    (NEW_YORK_SPRING, "0 * * * *", {}, ["06:00", "07:00", "08:00"]),
    # A fixed time that is shown twice runs once, unless `fold` says otherwise.
    (BERLIN_AUTUMN, "30 2 * * *", {}, ["00:30"]),
    (BERLIN_AUTUMN, "0 2 * * *", {}, ["00:00"]),
    (BERLIN_AUTUMN, "0 3 * * *", {}, ["02:00"]),
    (BERLIN_AUTUMN, "0,30 2 * * *", {}, ["00:00", "00:30"]),
    (BERLIN_AUTUMN, "30 2 * * *", {"fold": "second"}, ["01:30"]),
    (BERLIN_AUTUMN, "30 2 * * *", {"fold": "both"}, ["00:30", "01:30"]),
    (BERLIN_AUTUMN, "0,30 2 * * *", {"fold": "second"}, ["01:00", "01:30"]),
    (BERLIN_AUTUMN, "0,30 2 * * *", {"fold": "both"}, ["00:00", "00:30", "01:00", "01:30"]),
    (BERLIN_AUTUMN, "0 30 2 * * *", {}, ["00:30"]),
    (BERLIN_AUTUMN, "0 30 2 25", {"fold": "second"}, ["01:30"]),
    (BERLIN_AUTUMN, "*/30 * * * *", {}, ["23:30", "00:00", "00:30", "01:00", "01:30", "02:00"]),
    (BERLIN_AUTUMN, "0 * * * *", {}, ["00:00", "01:00", "02:00"]),
    (BERLIN_AUTUMN, "*/30 2 * * *", {}, ["00:00", "00:30", "01:00", "01:30"]),
    (NEW_YORK_AUTUMN, "30 1 * * *", {}, ["05:30"]),
    (NEW_YORK_AUTUMN, "30 1 * * *", {"fold": "second"}, ["06:30"]),
    (NEW_YORK_AUTUMN, "30 1 * * *", {"fold": "both"}, ["05:30", "06:30"]),
    (NEW_YORK_AUTUMN, "30 2 * * *", {}, ["07:30"]),
    (NEW_YORK_AUTUMN, "*/30 * * * *", {}, ["04:30", "05:00", "05:30", "06:00", "06:30", "07:00", "07:30"]),
    (NEW_YORK_AUTUMN, "0 * * * *", {}, ["05:00", "06:00", "07:00"]),
]


@pytest.mark.parametrize(("night", "expression", "options", "expected"), NIGHTS)
def test_a_night_of_a_clock_change_has_the_expected_slots(night, expression, options, expected):
    tz, start, end = night
    four = len(expression.split()) == 4
    assert times(cron(expression, tz=tz, seconds=four, **options), start, end) == expected


# Cases that evaluators of cron expressions often get wrong. Each comment gives a typical wrong answer.
TRAPS = [
    # in the second pass of the repeated hour: 01:50 of the first pass, which has passed
    (("America/New_York", "2026-11-01T06:40Z", "2026-11-01T12:00Z"), "50 1 * * *", []),
    # with seconds: Debian's rules are not applied: no slot in the gap, two in the fold
    (("Europe/Berlin", "2026-03-28T02:00Z", "2026-03-29T03:00Z"), "0 30 2 * * *", ["01:00"]),
    (("Europe/Berlin", "2026-10-24T12:00Z", "2026-10-25T12:00Z"), "0 30 2 * * *", ["00:30"]),
    # changes of half an hour: slots before 02:30 in the autumn, or before 03:30 in the spring
    (("Australia/Lord_Howe", "2026-04-04T14:40Z", "2026-04-04T16:00Z"), "*/15 2 * * *", ["15:30", "15:45"]),
    (
        ("Australia/Lord_Howe", "2026-10-03T15:05Z", "2026-10-03T17:00Z"),
        "*/15 3 * * *",
        ["16:00", "16:15", "16:30", "16:45"],
    ),
    # back over midnight (00:01 -> 23:01): the same 00:00 for ever
    (
        ("America/St_Johns", "2007-11-04T02:29Z", "2007-11-04T03:33Z"),
        "* * 4 11 *",
        ["02:30", "03:30", "03:31", "03:32"],
    ),
    # a skipped day or midnight: a slot at 00:00, which no clock showed
    (("Pacific/Apia", "2011-12-29T12:00Z", "2012-01-29T00:00Z"), "0 * 30 * *", []),
    (("America/Havana", "2026-03-07T12:00Z", "2026-03-08T09:00Z"), "*/30 0 8 * *", []),
    # 5-5/10 is 5, not 5-59/10
    (("UTC", "2026-03-08T03:00Z", "2026-03-08T04:00Z"), "5-5/10 3 * * *", ["03:05"]),
]


@pytest.mark.parametrize(("stretch", "expression", "expected"), TRAPS)
def test_known_traps_of_cron_evaluators_are_avoided(stretch, expression, expected):
    tz, start, end = stretch
    assert times(cron(expression, tz=tz), start, end) == expected


def test_fixed_times_of_a_skipped_day_run_once_right_after_it():
    # Apia had no 30 December 2011: midnight of the 31st followed that of the 30th, at 10:00 UTC.
    missing_noon = cron("0 12 30 12 *", tz="Pacific/Apia")
    assert times(missing_noon, "2011-12-29T12:00Z", "2012-01-29T00:00Z") == ["10:00"]
    assert times(cron("0 12 30 12 *", tz="Pacific/Apia", gap="skip"), "2011-12-29T12:00Z", "2012-01-29T00:00Z") == []


def times(schedule, start, end) -> list[str]:
    """Return the slots from `start` to before `end` as UTC times of day."""
    begin, stop = (to_micros(at(text).instant) for text in (start, end))
    found = takewhile(lambda slot: slot < stop, slots(schedule, begin - 1, origin=0))
    return [to_datetime(slot).strftime("%H:%M") for slot in found]
