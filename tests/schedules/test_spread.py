"""`H` fields and jitter are computed from the job's name: the same name gives the same times."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.clock import SECOND
from onthedot.model.duration import micros
from onthedot.model.errors import ScheduleError
from onthedot.model.job import Call, Cron, FixedDelay, Job
from onthedot.model.job_json import decode, encode
from onthedot.schedules import cron, cron_fields, describe, due_of, every, gap, parse, schedule_id, slots, to_text
from onthedot.schedules.cron_parser import read_fields

names = st.text(min_size=1, max_size=20)
RANGES = {"second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 28), "month": (1, 12), "weekday": (0, 6)}


def of_job(text: str, name: str = "report", namespace: str = "default", **options) -> Cron:
    """Return the cron schedule after it has become part of a job with this name."""
    job = Job(name=name, namespace=namespace, task=Call(handler="x"), schedules=(cron(text, **options),))
    [schedule] = job.schedules
    assert isinstance(schedule, Cron)
    return schedule


def fields(text: str, name: str = "report") -> dict[str, str]:
    return cron_fields(text, of_job(text, name).spread)


def test_an_h_field_always_gives_the_same_time():
    # If these values change, the times of every user's job with an H change.
    assert fields("H H H H H H") == {
        "second": "1", "minute": "17", "hour": "18", "day": "23", "month": "11", "weekday": "4",
    }  # fmt: skip
    assert fields("H/15 H(2-4) * * *")["minute"] == "2-59/15"


@settings(max_examples=100, deadline=None)
@given(name=names)
def test_an_h_field_is_one_value_within_its_range(name):
    found = fields("H H H H H H", name)
    assert all(low <= int(found[field]) <= high for field, (low, high) in RANGES.items())


@settings(max_examples=100, deadline=None)
@given(name=names, low=st.integers(0, 59), high=st.integers(0, 59), step=st.integers(1, 60))
def test_an_h_field_keeps_to_its_range_and_step(name, low, high, step):
    low, high = sorted((low, high))
    assert low <= int(fields(f"H({low}-{high}) * * * *", name)["minute"]) <= high
    schedule = of_job(f"H({low}-{high})/{step} 0 * * *", name)
    minutes = {slot // (60 * SECOND) % 60 for slot in islice(slots(schedule, 0, origin=0), 60)}
    first = min(minutes)
    assert low <= first < low + step
    assert minutes == set(range(first, high + 1, step))


@settings(max_examples=50, deadline=None)
@given(name=names, text=st.sampled_from(["H * * * *", "H/7 H(0-5) * * *", "H,30 H H/9 * *", "H H 0 * * H(1-5)"]))
def test_an_h_expression_equals_the_plain_one_that_cron_fields_returns(name, text):
    schedule = of_job(text, name, tz="Europe/Berlin")
    plain = cron(" ".join(read_fields(text, schedule.spread)), tz="Europe/Berlin")
    assert list(islice(slots(schedule, 0, origin=0), 10)) == list(islice(slots(plain, 0, origin=0), 10))
    assert describe(schedule) == describe(plain)


def test_a_thousand_jobs_are_spread_evenly():
    minutes = Counter(fields("H * * * *", f"job{number}")["minute"] for number in range(1_000))
    assert len(minutes) == 60
    assert max(minutes.values()) < 40


def test_h_depends_on_the_name_and_the_namespace_only():
    text = "H H * * *"
    assert of_job(text).spread == of_job(text, tz="Asia/Tokyo", id="x").spread
    assert of_job(text).spread != of_job(text, namespace="other").spread
    assert of_job("0 0 * * THU").spread == of_job("@hourly").spread == ""


def test_an_h_expression_keeps_its_text_and_gets_its_id_from_it():
    schedule = of_job("H H(0-5) * * *")
    assert to_text(schedule) == "H H(0-5) * * *"
    assert (
        schedule_id(schedule) == schedule_id(cron("H H(0-5) * * *")) == schedule_id(of_job("H H(0-5) * * *", "other"))
    )
    assert parse("H * * * *") == cron("H * * * *")


def test_a_stored_job_gets_its_h_back_from_its_name():
    job = Job(name="report", task=Call(handler="x"), schedules=(cron("H * * * *"), every("1h")))
    assert "spread" not in encode(job)
    [stored, _] = decode(encode(job)).schedules
    assert isinstance(stored, Cron)
    assert stored.spread == "default/report"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("H(5-60) * * * *", "minute: expected 0-59"),
        ("H(9-5) * * * *", "minute: expected a range that goes up, from 0 to 59, in 'H(9-5)'"),
        ("H(5) * * * *", "minute: expected a range that goes up"),
        ("0 0 H(20-31) * *", "day: expected a range that goes up, from 1 to 28, in 'H(20-31)'"),
        ("H/0 * * * *", "minute: expected a step from 1 to 60 after '/', got '0'"),
        ("H/99 * * * *", "minute: expected a step from 1 to 60 after '/', got '99'"),
        ("H-5 * * * *", "minute: expected 0-59"),
        ("0 0 * * H#2", "weekday: expected 0-7"),
        ("HH * * * *", "minute: expected 0-59"),
    ],
)
def test_a_malformed_h_is_refused(text, part):
    with pytest.raises(ScheduleError) as refused:
        cron(text)
    assert part in str(refused.value)


# ── jitter ───────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=50, deadline=None)
@given(name=names, slot=st.integers(0, 10**16), jitter=st.timedeltas(timedelta(microseconds=1), timedelta(days=1)))
def test_a_run_is_always_due_at_the_same_instant_within_its_jitter(name, slot, jitter):
    schedule = every("1h", jitter=jitter)
    due = due_of(Job(name=name, task=Call(handler="x"), schedules=(schedule,)), schedule)
    assert 0 <= due(slot) - slot < micros(jitter)
    again = due_of(Job(name=name, task=Call(handler="y"), schedules=(schedule,)), schedule)
    assert due(slot) == again(slot)


def test_jitter_differs_by_job_schedule_and_slot():
    one, two = every("1h", jitter="1h"), every("2h", jitter="1h")
    dues = [
        due_of(Job(name=name, task=Call(handler="x"), schedules=(schedule,)), schedule)(slot) - slot
        for name in ("a", "b")
        for schedule in (one, two)
        for slot in (0, 7_200 * SECOND)
    ]
    assert len(set(dues)) == 8


def test_without_jitter_a_run_is_due_at_its_slot():
    for schedule in (every("1h"), gap("1h")):
        assert due_of(Job(name="a", task=Call(handler="x"), schedules=(schedule,)), schedule)(5) == 5
    assert not hasattr(FixedDelay(delay=timedelta(hours=1)), "jitter")
