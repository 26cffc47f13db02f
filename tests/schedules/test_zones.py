"""Time zones: bad names are refused without reading files, and years are split where the offset changes."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.clock import SECOND, to_datetime, to_micros
from onthedot.model.errors import ScheduleError
from onthedot.schedules import zones
from onthedot.schedules.zones import stretch_at, stretches_of_year, zone
from tests.schedules import oracle

HOUR = 3600 * SECOND


@settings(max_examples=60, deadline=None)
@given(tz=oracle.zones(), year=st.integers(2000, 2037))
def test_a_year_is_split_exactly_where_the_offset_changes(tz, year):
    stretches = stretches_of_year(tz, year)

    assert stretches[0].start == to_micros(datetime(year, 1, 1, tzinfo=UTC))
    assert stretches[-1].end == to_micros(datetime(year + 1, 1, 1, tzinfo=UTC))
    assert all(left.end == right.start for left, right in pairwise(stretches))
    cuts = [to_datetime(stretch.start) for stretch in stretches[1:]]
    assert cuts == [change for change in oracle.changes(tz, year) if change > to_datetime(stretches[0].start)]
    for stretch in stretches:
        for instant in (stretch.start, (stretch.start + stretch.end) // 2, stretch.end - 1):
            shown = to_datetime(instant).astimezone(ZoneInfo(tz)).replace(tzinfo=UTC)
            assert to_micros(shown) == instant + stretch.offset
            assert stretch_at(tz, instant) == stretch


def test_a_stretch_describes_the_clock_changes_around_it():
    winter, summer, autumn = stretches_of_year("Europe/Berlin", 2026)
    spring_change, autumn_change = summer.start, summer.end
    assert (winter.offset, summer.offset, autumn.offset) == (HOUR, 2 * HOUR, HOUR)
    assert summer.skipped_from == spring_change + HOUR, "expected the skipped hour to begin at 02:00"
    assert summer.repeats_from == autumn_change + HOUR, "expected the repeated hour to begin at 02:00"
    assert autumn.repeated_until == autumn_change + 2 * HOUR, "expected the repeated hour to end at 03:00"
    assert winter.skipped_from == winter.start + HOUR, "expected no skipped time at New Year"
    assert autumn.skipped_from == autumn.start + HOUR


def test_a_fold_across_new_year_is_seen_from_both_years(monkeypatch):
    # No real zone does this: at 23:45 UTC the clocks go back from 00:30 to 23:30 of the old year.
    change = to_micros(datetime(2029, 12, 31, 23, 45, tzinfo=UTC)) // SECOND
    real = zones._offset
    monkeypatch.setattr(zones, "_offset", lambda where, second: real(where, second) * (1 if second < change else 0))
    stretches_of_year.cache_clear()
    try:
        old, short = stretches_of_year("Etc/GMT-1", 2029)
        (new,) = stretches_of_year("Etc/GMT-1", 2030)
    finally:
        stretches_of_year.cache_clear()
    assert old.repeats_from == change * SECOND
    assert short.repeated_until == new.repeated_until == change * SECOND + HOUR
    assert new.skipped_from == new.start


@pytest.mark.parametrize(
    "key",
    [
        "",
        "../etc/passwd",
        "/etc/passwd",
        "Europe/../UTC",
        "Europe//Berlin",
        "Europe/Berlin/",
        "C:\\x",
        "a\0b",
        "UTC\n",
        "x" * 65,
    ],
)
def test_a_malformed_name_is_refused_without_opening_a_file(monkeypatch, key):
    monkeypatch.setattr(zones, "ZoneInfo", lambda key: pytest.fail(f"opened the file of {key!r}"))
    with pytest.raises(ScheduleError, match="expected the name of a time zone like 'Europe/Berlin'"):
        zone(key)


@pytest.mark.parametrize("key", ["localtime", "posixrules", "Factory", "right/UTC", "posix/Europe/Berlin"])
def test_a_name_that_differs_between_machines_is_refused(key):
    with pytest.raises(ScheduleError, match="differs from machine to machine"):
        zone(key)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("berlin", "did you mean 'Europe/Berlin'?"),
        ("New_York", "did you mean 'America/New_York'?"),
        ("GMT+2", "did you mean 'Etc/GMT-2'? It is 2 hours ahead of UTC: the sign in these names is reversed"),
        ("UTC-5", "did you mean 'Etc/GMT+5'? It is 5 hours behind UTC"),
        ("+01:00", "did you mean 'Etc/GMT-1'? It is 1 hour ahead of UTC"),
        ("utc+0", "did you mean 'UTC'?"),
        ("+05:30", "distances from UTC are no zones; a place, like 'Europe/Berlin'"),
        ("GMT+15", "distances from UTC are no zones"),
        ("PST", "name a place, like 'America/Los_Angeles'"),
        ("pdt", "name a place, like 'America/Los_Angeles'"),
        ("CEST", "name a place, like 'Europe/Berlin'"),
        ("IST", "name a place, like 'Asia/Kolkata'"),
        ("Europe", "unknown time zone 'Europe'"),
        ("Qwxyz", "use an IANA name like 'Europe/Berlin'"),
    ],
)
def test_an_unknown_zone_gets_the_nearest_name(key, hint):
    with pytest.raises(ScheduleError) as refused:
        zone(key)
    assert hint in str(refused.value)


def test_a_hint_never_proposes_the_opposite_sign():
    with pytest.raises(ScheduleError) as refused:
        zone("GMT+2")
    assert "Etc/GMT+2" not in str(refused.value)
