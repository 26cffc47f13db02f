"""`parse` reads every schedule that `to_text` writes, and refuses other text with a reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.model.errors import ScheduleError
from onthedot.model.job import At, Cron, Every, FixedDelay, In
from onthedot.schedules import check, parse, to_text
from onthedot.schedules.parse import FORMS
from tests.schedules.strategies import schedules

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
NINETY = timedelta(minutes=90)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every 1h30m", Every(interval=NINETY)),
        ("  Every 90 minutes ", Every(interval=NINETY)),
        ("every 1h30m from 2026-01-01T00:00Z", Every(interval=NINETY, anchor=NEW_YEAR)),
        ("1h30m", Every(interval=NINETY)),
        ("gap 90m", FixedDelay(delay=NINETY)),
        ("gap 90m from 2026-01-01T01:00+01:00", FixedDelay(delay=NINETY, start=NEW_YEAR)),
        ("in 90m", In(delay=NINETY)),
        ("at 2026-01-01T00:00Z", At(instant=NEW_YEAR)),
        ("30 2 * * *", Cron(expression="30 2 * * *")),
        ("*/5 * * * * *", Cron(expression="*/5 * * * * *")),
        ("@daily", Cron(expression="@daily")),
    ],
)
def test_each_form_is_parsed(text, expected):
    assert parse(text) == expected


def test_the_options_reach_the_schedule():
    assert parse("@daily", tz="Asia/Tokyo", gap="skip", fold="both", run_once=True, id="x") == Cron(
        expression="@daily", tz="Asia/Tokyo", gap="skip", fold="both", run_once=True, id="x"
    )
    assert parse("30 15 2 1", seconds=True) == Cron(expression="30 15 2 1")
    assert parse("every 90m", run_once=True, id="x") == Every(interval=NINETY, run_once=True, id="x")
    assert parse("at 2026-01-01T09:00", tz="Asia/Tokyo") == At(instant=NEW_YEAR)


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ("whenever", {}, ["expected a schedule, got 'whenever'", *FORMS]),
        ("", {}, ["expected a schedule, got ''", *FORMS]),
        ("every", {}, ["expected a schedule, got 'every'", "'every 1h30m'"]),
        ("in  ", {}, ["accepted forms"]),
        (5, {}, ["expected a schedule, got int 5"]),
        ("every fortnight", {}, ["interval: expected a length of time like '90s'"]),
        ("every 1h from", {}, ["interval: expected a length of time"]),
        ("every 1h from noon", {}, ["anchor: expected a point in time like"]),
        ("at 2026-01-01T09:00", {}, ["at: expected a point in time with an offset"]),
        ("* * *", {}, ["expected 5 fields (minute hour day month weekday), or 6"]),
        ("every 1h", {"gap": "skip", "fold": "both"}, ["gap: it belongs to cron, not to 'every'", "fold: it belongs"]),
        ("in 1h", {"run_once": True}, ["run_once: it belongs to cron and 'every', not to 'in'"]),
    ],
)
def test_bad_text_and_options_are_refused_with_a_reason(text, options, parts):
    with pytest.raises(ScheduleError) as refused:
        parse(text, **options)
    for part in parts:
        assert part in str(refused.value)


@settings(max_examples=50, deadline=None)
@given(schedule=schedules)
def test_a_printed_schedule_is_read_back(schedule):
    names = [name for name in ("tz", "gap", "fold", "run_once") if hasattr(schedule, name)]
    options = {name: getattr(schedule, name) for name in names}
    for name in ("start", "end", "max_count", "jitter", "args"):
        value = getattr(schedule, name, None)
        if value and not (name == "start" and isinstance(schedule, FixedDelay)):  # part of its text
            options[name] = value
    if isinstance(schedule, Cron):
        options["seconds"] = len(schedule.expression.split()) == 4
    assert parse(to_text(schedule), **options, id=schedule.id) == schedule


@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=30) | st.from_regex(r"(every|in|at|gap) [0-9a-zA-Z: .+-]{0,20}", fullmatch=True))
def test_any_text_is_read_or_refused(text):
    try:
        schedule = parse(text)
    except ScheduleError:
        return
    check(schedule)


@pytest.mark.parametrize(
    ("text", "options", "part"),
    [
        ("gap 10m", {"jitter": "30s"}, "jitter: it belongs to 'cron' and 'every' and 'at' and 'in', not to 'gap'"),
        ("at 2026-01-01T00:00Z", {"max_count": 3}, "max_count: it belongs to 'cron' and 'every', not to 'at'"),
        ("in 10m", {"end": NEW_YEAR}, "end: it belongs to 'cron' and 'every', not to 'in'"),
        ("every 10m", {"jiter": "30s"}, "jiter: unknown option, did you mean 'jitter'?"),
    ],
)
def test_options_of_another_kind_are_refused(text, options, part):
    with pytest.raises(ScheduleError) as refused:
        parse(text, **options)
    assert part in str(refused.value)


def test_several_instants_are_written_as_one_line():
    text = "at 2026-01-01T00:00Z, 2026-02-01T00:00Z"
    assert parse("at 2026-02-01T00:00Z,2026-01-01T01:00+01:00 , 2026-01-01T00:00Z") == parse(text)
    assert to_text(parse(text)) == text
    assert parse("at 2026-01-01T00:00:00,5Z") == parse("at 2026-01-01T00:00:00.5Z")
