"""Formats for people: instants, lengths of time, and untrusted text on one line."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.clock import SECOND
from onthedot.observe.formats import count, iso, length, moment, plain, span, time_of_day
from tests.observe.sample_events import NOON

DAY = 86_400 * SECOND


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0.0 ms"),
        (1, "1 µs"),
        (99, "99 µs"),
        (100, "0.1 ms"),
        (1_249, "1.2 ms"),
        (999_949, "999.9 ms"),
        (999_950, "1.0 s"),
        (59_949_999, "59.9 s"),
        (59_950_000, "1 m"),
        (61 * SECOND, "1 m 1 s"),
        (3_599_400_000, "59 m 59 s"),
        (3_599_600_000, "1 h"),
        (3 * 3_600 * SECOND + 12 * 60 * SECOND, "3 h 12 m"),
        (DAY, "1 d"),
        (2 * DAY + 3 * 3_600 * SECOND, "2 d 3 h"),
        (-1_249, "-1.2 ms"),
    ],
)
def test_lengths_of_time_are_short(micros: int, text: str):
    assert length(micros) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Überweisung 北京", "Überweisung 北京"),
        ("a\nb", "a\\nb"),
        ("a\r\tb", "a\\r\\tb"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("\u2028\u202e", "\\u2028\\u202e"),
        ("\ud800", "\\ud800"),
        ("\x00", "\\x00"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str):
    assert plain(text) == shown


@given(st.text())
def test_any_text_becomes_one_printable_line(text: str):
    assert plain(text).isprintable()


def test_long_text_is_cut():
    assert plain("x" * 500, most=10) == "xxxxxxxxx…"


def test_a_time_is_shown_in_its_zone():
    assert time_of_day(NOON + 1_999, UTC) == "12:00:00.001"
    assert time_of_day(NOON, ZoneInfo("Asia/Kolkata")) == "17:30:00.000"


def test_an_instant_on_another_day_has_its_date():
    assert moment(NOON, NOON + SECOND, UTC) == "12:00:00"
    assert moment(NOON + 5_000, NOON, UTC) == "12:00:00.005"
    assert moment(NOON - DAY, NOON, UTC) == "2025-12-31 12:00:00"


def test_a_span_of_one_instant_is_shown_as_that_instant():
    assert span(NOON, NOON, NOON, UTC) == "at 12:00:00"
    assert span(NOON, NOON + SECOND, NOON, UTC) == "from 12:00:00 to 12:00:01"


def test_json_instants_are_utc_with_microseconds():
    assert iso(NOON) == "2026-01-01T12:00:00.000000Z"


def test_counts_have_singular_and_plural():
    assert [count(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
