"""Points in time are read from ISO text, datetimes and plain words, and other text is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given

from onthedot.clock import to_micros
from onthedot.model.errors import ScheduleError
from onthedot.schedules.instants import format_instant, read_instant, read_when
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
def test_iso_text_and_datetimes_become_instants(value, tz, expected):
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
def test_a_bad_instant_is_refused_with_a_reason(value, tz, parts):
    with pytest.raises(ScheduleError) as refused:
        read_instant(value, tz=tz)
    for part in parts:
        assert part in str(refused.value)


@given(instant=instants)
def test_a_formatted_instant_is_read_back_exactly(instant):
    assert read_instant(format_instant(instant)) == instant


NOW = to_micros(datetime(2026, 11, 18, 14, 30, tzinfo=BERLIN))  # a Wednesday, UTC+1

READ = {
    "now": "2026-11-18T13:30Z",
    "today": "2026-11-17T23:00Z",
    "Yesterday": "2026-11-16T23:00Z",
    "tomorrow": "2026-11-18T23:00Z",
    "yesterday 03:00": "2026-11-17T02:00Z",
    "today at 03:00": "2026-11-18T02:00Z",
    "-2h": "2026-11-18T11:30Z",
    "2h ago": "2026-11-18T11:30Z",
    "1h30m ago": "2026-11-18T12:00Z",
    "2 days ago": "2026-11-16T13:30Z",
    "+2h": "2026-11-18T15:30Z",
    "in 90s": "2026-11-18T13:31:30Z",
    "2026-11-17": "2026-11-16T23:00Z",
    "2026-11-17 03:00": "2026-11-17T02:00Z",
    "2026-11-17T03:00:05": "2026-11-17T02:00:05Z",
    "2026-11-17T03:00Z": "2026-11-17T03:00Z",
    "2026-11-17 03:00 UTC": "2026-11-17T03:00Z",
    "2026-11-17 03:00:00 +01:00": "2026-11-17T02:00Z",
    "2026-07-01 03:00": "2026-07-01T01:00Z",
    "monday": "2026-11-15T23:00Z",
    "monday 03:00": "2026-11-16T02:00Z",
    "mon 3:00": "2026-11-16T02:00Z",
    "wednesday 14:30": "2026-11-18T13:30Z",
    "wednesday 14:31": "2026-11-11T13:31Z",
    "thu": "2026-11-11T23:00Z",
    "14:00": "2026-11-18T13:00Z",
    "15:00": "2026-11-17T14:00Z",
    "  monday   03:00 ": "2026-11-16T02:00Z",
}


@pytest.mark.parametrize(("text", "expected"), READ.items())
def test_plain_words_name_the_latest_past_instant(text: str, expected: str):
    assert format_instant(read_when(text, now=NOW, tz=BERLIN)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("monday 03:00", "2026-11-23T02:00Z"),
        ("wednesday 14:30", "2026-11-25T13:30Z"),
        ("15:00", "2026-11-18T14:00Z"),
        ("14:00", "2026-11-19T13:00Z"),
        ("tomorrow", "2026-11-18T23:00Z"),
        ("+2h", "2026-11-18T15:30Z"),
    ],
)
def test_with_ahead_plain_words_name_the_next_future_instant(text: str, expected: str):
    assert format_instant(read_when(text, now=NOW, tz=BERLIN, ahead=True)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "soon", "2h", "-", "ago", "in", "+", "-2x", "25:00", "monday 24:00", "monday 3", "noonday 03:00",
        "now 03:00", "2026-13-01", "2026-02-30", "2026-11-17 25:00", "-999999999999d", "1969-12-31", "0001-01-01",
        "9999-12-31T23:59-14:00", "\x00", "\u0663:\u0664\u0665", "--2h", "x" * 100_000, "9" * 1_000_000,
        " " * 1_000_000, "-" + "1h" * 500_000,
    ],
)  # fmt: skip
def test_unreadable_text_is_refused_fast_with_a_short_message(text: str):
    def once() -> tuple[str, float]:
        began = time.thread_time()
        with pytest.raises(ScheduleError) as refused:
            read_when(text, now=NOW, tz=BERLIN, what="--since")
        return str(refused.value), time.thread_time() - began

    said, took = once()
    assert took < 0.05 or min(once()[1] for _ in range(2)) < 0.05  # repeated, because the machine may be busy
    assert said.startswith("--since: expected a ")
    assert len(said) < 300
    assert "'yesterday', '-2h'" in said or "a year from 1970 to 2199" in said


def test_a_duration_without_a_direction_gets_a_hint():
    with pytest.raises(ScheduleError, match=r"did you mean '2h ago'\?"):
        read_when("2h", now=NOW, tz=BERLIN)


@pytest.fixture
def machine_in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("text", READ)
def test_without_a_zone_the_machines_zone_is_used(machine_in_berlin: None, text: str):
    assert read_when(text, now=NOW) == read_when(text, now=NOW, tz=BERLIN)


def test_plain_words_are_read_on_days_of_clock_changes():
    after = to_micros(datetime(2026, 3, 29, 12, tzinfo=BERLIN))  # 02:00 became 03:00
    assert format_instant(read_when("today", now=after, tz=BERLIN)) == "2026-03-28T23:00Z"
    assert format_instant(read_when("02:30", now=after, tz=BERLIN)) == "2026-03-29T01:30Z"
    assert format_instant(read_when("03:00", now=after, tz=BERLIN)) == "2026-03-29T01:00Z"
    back = to_micros(datetime(2026, 10, 25, 12, tzinfo=BERLIN))  # 02:00 to 03:00 came twice
    assert format_instant(read_when("02:30", now=back, tz=BERLIN)) == "2026-10-25T00:30Z"
    assert read_when("now", now=back).tzinfo is UTC
