"""Schedules survive a round trip through JSON, and their ids never change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import assume, given, settings

from onthedot.model.errors import ScheduleError
from onthedot.model.job import At, Cron, Every, FixedDelay, In
from onthedot.schedules import from_json, schedule_id, to_json
from tests.schedules.strategies import schedules

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (
            Cron(expression="@daily"),
            {
                "kind": "cron",
                "expression": "@daily",
                "tz": "UTC",
                "gap": "run_after",
                "fold": "first",
                "run_once": False,
                "id": "",
            },
        ),
        (
            Every(interval=HOUR, anchor=NEW_YEAR.astimezone(timezone(HOUR)), id="x"),
            {
                "kind": "every",
                "interval_us": 3_600_000_000,
                "anchor": "2026-01-01T00:00:00+00:00",
                "run_once": False,
                "id": "x",
            },
        ),
        (FixedDelay(delay=HOUR), {"kind": "gap", "delay_us": 3_600_000_000, "start": None, "id": ""}),
        (At(instant=NEW_YEAR), {"kind": "at", "instant": "2026-01-01T00:00:00+00:00", "id": ""}),
        (In(delay=HOUR), {"kind": "in", "delay_us": 3_600_000_000, "id": ""}),
    ],
)
def test_each_kind_of_schedule_has_its_json(schedule, expected):
    assert to_json(schedule) == expected
    assert from_json(expected) == schedule


@settings(max_examples=50, deadline=None)
@given(schedule=schedules)
def test_a_schedule_survives_a_round_trip_through_json(schedule):
    stored = json.loads(json.dumps(to_json(schedule)))
    assert from_json(stored) == schedule
    assert to_json(from_json(stored)) == stored


def test_keys_with_a_default_may_be_missing():
    assert from_json({"kind": "cron", "expression": "@daily"}) == Cron(expression="@daily")


def test_a_stored_schedule_with_an_unknown_zone_is_still_readable():
    stored = {"kind": "cron", "expression": "@daily", "tz": "Mars/Olympus"}
    assert from_json(stored) == Cron(expression="@daily", tz="Mars/Olympus")


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (
            {"kind": "evry", "interval_us": 1},
            "kind: expected one of cron, every, gap, at, in, got 'evry', did you mean 'every'?",
        ),
        ({"expression": "@daily"}, "kind: expected one of cron, every, gap, at, in, got None"),
        ({"kind": ["cron"]}, "kind: expected one of"),
        ("@daily", "expected a mapping with 'kind', got str '@daily'"),
        ({"kind": "cron", "expression": "@daily", "zone": "UTC"}, "cron: unknown key 'zone'"),
        ({"kind": "cron", "expression": "@daily", "timezone": "UTC"}, "cron: unknown key 'timezone'"),
        ({"kind": "every"}, "every: expected the key 'interval_us', which is missing"),
        ({"kind": "every", "interval": 5}, "every: unknown key 'interval', did you mean 'interval_us'?"),
        ({"kind": "every", "interval_us": "5"}, "interval_us: expected whole microseconds, got '5'"),
        ({"kind": "every", "interval_us": True}, "interval_us: expected whole microseconds, got True"),
        ({"kind": "every", "interval_us": 1.5}, "interval_us: expected whole microseconds, got 1.5"),
        ({"kind": "every", "interval_us": 10**30}, "interval_us: expected whole microseconds"),
        ({"kind": "every", "interval_us": 1, "run_once": 1}, "run_once: expected true or false, got 1"),
        ({"kind": "at", "instant": "2026-01-01T00:00"}, "instant: expected ISO text with an offset"),
        ({"kind": "at", "instant": None}, "instant: expected ISO text with an offset, got None"),
        ({"kind": "gap", "delay_us": 1, "start": 5}, "start: expected ISO text with an offset or null, got 5"),
        ({"kind": "cron", "expression": None}, "expression: expected text, got None"),
    ],
)
def test_invalid_json_is_refused_with_a_reason(data, part):
    with pytest.raises(ScheduleError) as refused:
        from_json(data)
    assert part in str(refused.value)


def test_an_instant_without_a_zone_is_not_written():
    with pytest.raises(ValueError, match="time zone"):
        to_json(At(instant=NEW_YEAR.replace(tzinfo=None)))


def test_ids_of_schedules_never_change():
    # Stored runs refer to these ids. If they change, every schedule without a given id loses its runs.
    assert schedule_id(Cron(expression="30 2 * * *", tz="Europe/Berlin")) == "2cd1c78ddf"
    assert schedule_id(Every(interval=timedelta(hours=1), anchor=NEW_YEAR)) == "d812ae3128"
    assert schedule_id(In(delay=timedelta(minutes=10))) == "c4ba47ebb9"


def test_a_given_id_is_kept():
    assert schedule_id(Cron(expression="@daily", id="nightly")) == "nightly"


@pytest.mark.slow
def test_the_id_is_the_same_in_a_process_with_another_hash_seed():
    code = "from onthedot.schedules import cron, schedule_id; print(schedule_id(cron('@daily')))"
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert printed.stdout.strip() == schedule_id(Cron(expression="@daily"))


def test_the_same_instant_in_two_zones_has_the_same_id():
    elsewhere = NEW_YEAR.astimezone(timezone(timedelta(hours=9)))
    assert schedule_id(At(instant=NEW_YEAR)) == schedule_id(At(instant=elsewhere))


@settings(max_examples=50, deadline=None)
@given(one=schedules, other=schedules)
def test_ids_differ_exactly_if_the_schedules_differ(one, other):
    one, other = replace(one, id=""), replace(other, id="")
    assert schedule_id(one) == schedule_id(from_json(to_json(one)))
    assert len(schedule_id(one)) == 10
    assume(one != other)
    assert schedule_id(one) != schedule_id(other)


def test_each_option_changes_the_id():
    plain = Cron(expression="@daily")
    others = [
        replace(plain, tz="Asia/Tokyo"),
        replace(plain, gap="skip"),
        replace(plain, fold="second"),
        replace(plain, fold="both"),
        replace(plain, run_once=True),
        replace(plain, expression="0 0 * * *"),
    ]
    assert len({schedule_id(schedule) for schedule in [plain, *others]}) == 7
