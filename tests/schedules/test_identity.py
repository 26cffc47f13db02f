"""Ids that stay the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import assume, given, settings

from onthedot.model.job import At, Cron, Every, In
from onthedot.schedules import from_json, schedule_id, to_json
from tests.schedules.strategies import schedules

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def test_ids_are_these_for_good():
    # Stored runs refer to them: a change here orphans every schedule without an id of its own.
    assert schedule_id(Cron(expression="30 2 * * *", tz="Europe/Berlin")) == "2cd1c78ddf"
    assert schedule_id(Every(interval=timedelta(hours=1), anchor=NEW_YEAR)) == "d812ae3128"
    assert schedule_id(In(delay=timedelta(minutes=10))) == "c4ba47ebb9"


def test_a_given_id_is_the_id():
    assert schedule_id(Cron(expression="@daily", id="nightly")) == "nightly"


@pytest.mark.slow
def test_the_id_is_the_same_in_a_process_with_another_hash_seed():
    code = "from onthedot.schedules import cron, schedule_id; print(schedule_id(cron('@daily')))"
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert printed.stdout.strip() == schedule_id(Cron(expression="@daily"))


def test_one_instant_written_in_two_zones_has_one_id():
    elsewhere = NEW_YEAR.astimezone(timezone(timedelta(hours=9)))
    assert schedule_id(At(instant=NEW_YEAR)) == schedule_id(At(instant=elsewhere))


@settings(max_examples=50, deadline=None)
@given(one=schedules, other=schedules)
def test_ids_differ_exactly_when_the_schedules_do(one, other):
    one, other = replace(one, id=""), replace(other, id="")
    assert schedule_id(one) == schedule_id(from_json(to_json(one)))
    assert len(schedule_id(one)) == 10
    assume(one != other)
    assert schedule_id(one) != schedule_id(other)


def test_each_option_matters():
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
