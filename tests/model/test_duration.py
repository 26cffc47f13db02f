"""Durations are read from what people write, and printed so that they are read back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.model.duration import LONGEST, format_duration, micros, parse_duration
from onthedot.model.errors import DefinitionError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        (" 1 H  30 M ", timedelta(minutes=90)),
        ("2 days", timedelta(days=2)),
        ("1w2d3h4m5s6ms7us", timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5, milliseconds=6, microseconds=7)),
        ("250ms", timedelta(milliseconds=250)),
        ("1.5h", timedelta(minutes=90)),
        ("0.1s", timedelta(milliseconds=100)),
        ("3 µs", timedelta(microseconds=3)),
        ("1 hour 1 min 1 sec", timedelta(seconds=3661)),
        (90, timedelta(seconds=90)),
        (0.25, timedelta(milliseconds=250)),
        (timedelta(seconds=3), timedelta(seconds=3)),
        (LONGEST, LONGEST),
    ],
)
def test_a_duration_is_read(value, expected):
    assert parse_duration(value) == expected


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("", ["duration: expected a length of time like '90s', '1h30m' or '2 days', got ''"]),
        ("   ", ["expected a length of time like"]),
        ("5", ["expected a length of time like", "got '5'"]),
        ("h", ["expected a length of time like"]),
        ("-5m", ["expected a length of time like"]),
        ("1h-30m", ["expected a length of time like"]),
        ("1,5h", ["expected a length of time like"]),
        ("5 minuts", ["unknown unit 'minuts', did you mean 'minutes'?"]),
        ("0s", ["expected a length of time above zero, got '0s'", "'1h30m'"]),
        (0, ["above zero, got 0"]),
        (-1, ["above zero, got -1"]),
        (1e-9, ["above zero"]),
        (timedelta(seconds=-1), ["above zero"]),
        ("40000d", ["expected at most 36525 days, got '40000d'"]),
        (f"{'9' * 400}d", ["expected at most 36525 days"]),
        (1e300, ["expected at most 36525 days, got 1e+300"]),
        (float("inf"), ["expected at most 36525 days"]),
        (float("nan"), ["expected at most 36525 days"]),
        (True, ["expected text like '1h30m', seconds or a timedelta, got bool True"]),
        (None, ["got NoneType None"]),
        (["5m"], ["got list"]),
    ],
)
def test_a_bad_duration_is_refused_with_a_reason(value, parts):
    with pytest.raises(DefinitionError) as refused:
        parse_duration(value)
    for part in parts:
        assert part in str(refused.value)


def test_the_message_names_the_option():
    with pytest.raises(DefinitionError, match=r"^timeout: expected"):
        parse_duration("soon", what="timeout")


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (timedelta(minutes=90), "1h30m"),
        (timedelta(days=8, milliseconds=5), "1w1d5ms"),
        (timedelta(microseconds=1), "1us"),
        (timedelta(seconds=-90), "-1m30s"),
        (timedelta(0), "0s"),
        (1_500_000, "1s500ms"),
        (0, "0s"),
    ],
)
def test_a_duration_is_printed(length, expected):
    assert format_duration(length) == expected


@given(length=st.timedeltas(timedelta(microseconds=1), LONGEST))
def test_a_printed_duration_is_read_back_exactly(length):
    assert parse_duration(format_duration(length)) == length
    assert timedelta(microseconds=micros(length)) == length
    assert format_duration(micros(length)) == format_duration(length)


@given(text=st.text(max_size=30) | st.from_regex(r"([0-9.]{1,6} ?[a-zµ]{1,4} ?){1,3}", fullmatch=True))
def test_any_text_is_read_or_refused(text):
    try:
        length = parse_duration(text)
    except DefinitionError:
        return
    assert timedelta(0) < length <= LONGEST
