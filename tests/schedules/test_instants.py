"""Points in time as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given

from onthedot.model.errors import ScheduleError
from onthedot.schedules.instants import format_instant, read_instant
from tests.schedules.strategies import instants

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("value", "tz", "expected"),
    [
        ("2026-01-01T12:00Z", None, "2026-01-01T12:00Z"),
        ("2026-01-01 12:00:30.5+02:00", None, "2026-01-01T10:00:30.500000Z"),
        ("2026-01-01T12:00", "Europe/Berlin", "2026-01-01T11:00Z"),
        ("2026-07-01", "Europe/Berlin", "2026-06-30T22:00Z"),
        ("2026-01-01T12:00Z", "Europe/Berlin", "2026-01-01T12:00Z"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30Z"),  # shown twice: the first
        (datetime(2026, 10, 25, 2, 30), "Europe/Berlin", "2026-10-25T00:30Z"),  # noqa: DTZ001
        (datetime(2026, 10, 25, 2, 30, fold=1), "Europe/Berlin", "2026-10-25T01:30Z"),  # noqa: DTZ001
        (datetime(2026, 1, 1, 12, tzinfo=BERLIN), None, "2026-01-01T11:00Z"),
        (datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=-5))), None, "2026-01-01T17:00Z"),
    ],
)
def test_what_is_read(value, tz, expected):
    instant = read_instant(value, tz=tz)
    assert instant.tzinfo is UTC
    assert format_instant(instant) == expected


@pytest.mark.parametrize(
    ("value", "tz", "parts"),
    [
        (
            "2026-01-01T12:00",
            None,
            ["at: expected a point in time with an offset", "'2026-01-01T12:00:00+00:00'", "tz"],
        ),
        (datetime(2026, 1, 1), None, ["with an offset", "give tz"]),  # noqa: DTZ001
        ("tomorrow", None, ["expected a point in time like '2026-01-01T09:00+01:00'", "got 'tomorrow'"]),
        (5, None, ["expected a datetime or ISO text, got int 5"]),
        ("2026-03-29T02:30", "Europe/Berlin", ["2026-03-29 02:30:00", "from 2026-03-29 02:00 to 2026-03-29 03:00"]),
        (
            datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN, fold=1),
            None,
            ["Europe/Berlin skip", "02:00 to 2026-03-29 03:00"],
        ),
        ("2011-12-30T12:00", "Pacific/Apia", ["from 2011-12-30 00:00 to 2011-12-31 00:00"]),
        ("2026-01-01T12:00", "Europe/Berln", ["did you mean 'Europe/Berlin'?"]),
        ("0001-01-01T00:00+14:00", None, ["expected a year from 1 to 9999"]),
    ],
)
def test_what_is_refused(value, tz, parts):
    with pytest.raises(ScheduleError) as refused:
        read_instant(value, tz=tz)
    for part in parts:
        assert part in str(refused.value)


@given(instant=instants)
def test_format_is_read_back_exactly(instant):
    assert read_instant(format_instant(instant)) == instant
