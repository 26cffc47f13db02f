"""A written job is read back as the same job: as plain data, through JSON, and through YAML."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import onthedot as otd
from onthedot.define.check import check_job
from onthedot.define.job_reader import read_job, read_job_list, read_jobs
from onthedot.define.job_writer import exported, written, yaml_file
from onthedot.define.yaml_text import read_nodes, yaml_text
from onthedot.model.job import Call, Cron, Job, JobRecord, JobState, Pause
from onthedot.model.task import Command, Container, Http, Noop, Param, Sleep, Step, Steps
from onthedot.schedules import cron_fields, describe, from_json, schedule_id
from tests.define.strategies import jobs, values
from tests.model.test_job_json import FULL

slowly = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@pytest.mark.slow
@slowly
@given(jobs())
def test_every_written_job_is_read_back_unchanged(job):
    data = written(job)
    assert read_job(data) == job
    assert read_job(json.loads(json.dumps(data))) == job
    assert read_jobs(yaml_text({"jobs": [data]})) == [job]


@pytest.mark.slow
@slowly
@given(st.lists(jobs(), max_size=3, unique_by=lambda job: (job.namespace, job.name)))
def test_several_written_jobs_are_read_back_unchanged(several):
    data = {"jobs": [written(job) for job in several]}
    assert read_job_list(data) == several
    assert read_jobs(yaml_text(data)) == several


@settings(deadline=None, max_examples=300)
@given(values)
def test_any_data_survives_a_round_trip_through_yaml(data):
    read = read_nodes(yaml_text({"it": data}), "x").value
    assert read == {"it": data}
    assert json.dumps(read) == json.dumps({"it": data}), "expected the same types: 1, 1.0 and True are equal in Python"


def test_a_long_key_is_read_back():
    data = {"it": {"k" * 5_000: {"a\n": [1, {"name": [[], {}]}]}}}
    assert read_nodes(yaml_text(data), "x").value == data


def test_defaults_are_left_out():
    assert written(Job(name="a", task=Noop())) == {"name": "a", "noop": True}


def test_every_field_of_a_job_is_written():
    plain = written(Job(name="report", task=FULL.task))
    for field in fields(Job):
        if field.name not in ("name", "task", "paused"):
            one = replace(Job(name="report", task=FULL.task), **{field.name: getattr(FULL, field.name)})
            assert written(one) != plain, f"give {field.name} a place in define/job_writer.py"


@pytest.mark.parametrize(
    ("pause", "data"),
    [
        (Pause(), True),
        (Pause(on=False), False),
        (Pause(reason="it: moves"), {"reason": "it: moves"}),
        (Pause(until=datetime(2027, 1, 1, 9, tzinfo=UTC)), {"until": "2027-01-01T09:00Z"}),
    ],
)
def test_a_pause_is_written_and_read_back(pause: Pause, data: object):
    said = written(Job(name="a", task=Noop(), paused=pause))
    assert said == {"name": "a", "paused": data, "noop": True}
    assert read_job(said).paused == pause
    [job] = read_jobs(yaml_text({"jobs": [said]}))
    assert job.paused == pause


SHORT: list[tuple[Job, dict[str, Any]]] = [
    (Job(name="a", task=Call(handler="h")), {"call": "h"}),
    (Job(name="a", task=Sleep(duration=timedelta(seconds=90))), {"sleep": "1m30s"}),
    (Job(name="a", task=Sleep(duration=timedelta(0))), {"sleep": "0s"}),
    (Job(name="a", task=Command(script="x | y")), {"run": "x | y"}),
    (Job(name="a", task=Command(argv=("x", "y"))), {"argv": ["x", "y"]}),
    (Job(name="a", task=Http(url="https://x.org/")), {"http": "https://x.org/"}),
    (Job(name="a", task=Http(url="https://x.org/", method="POST", body="")),
     {"http": {"url": "https://x.org/", "method": "POST", "body": ""}}),
    (Job(name="a", task=Container(image="alpine:3")), {"container": "alpine:3"}),
    (Job(name="a", task=Steps(steps=(Step(name="s", script="x", attempts=3),))),
     {"steps": [{"name": "s", "run": "x", "retry": 3}]}),
    (Job(name="a", task=Noop(), schedules=(otd.cron("@daily"),)), {"schedule": "@daily", "noop": True}),
    (Job(name="a", task=Noop(), schedules=(otd.gap("1h", id="x"), otd.every("1h"))),
     {"schedules": [{"gap": "1h", "id": "x"}, "every 1h"], "noop": True}),
    (Job(name="a", task=Noop(), retry=otd.Retry(3), rate=otd.Rate(5, "1s"), overlap=otd.Overlap("skip")),
     {"noop": True, "overlap": "skip", "rate": "5/1s", "retry": 3}),
    (Job(name="a", task=Noop(), params=(Param(name="b", default="eu"), Param(name="c", required=True))),
     {"noop": True, "params": {"b": "eu", "c": {"required": True}}}),
]  # fmt: skip


@pytest.mark.parametrize(("job", "short"), SHORT, ids=[str(list(short)) for _, short in SHORT])
def test_short_forms_are_written_and_read_back(job, short):
    assert written(job) == {"name": "a", **short}
    assert read_job({"name": "a", **short}) == job


def test_a_job_is_written_as_readable_yaml():
    job = Job(
        name="report",
        task=Steps(
            steps=(
                Step(name="build", script="make\nmake test\n"),
                Step(name="mourn", argv=("cat", "-n", "log"), when="failure"),
            )
        ),
        schedules=(otd.cron("30 2 * * *", tz="Europe/Berlin"),),
        labels=frozenset({"gpu", "region=eu"}),
        on="all",
    )
    assert yaml_text({"jobs": [written(job)]}) == (
        "jobs:\n"
        "  - name: report\n"
        '    schedule: {cron: "30 2 * * *", tz: Europe/Berlin}\n'
        "    steps:\n"
        "      - name: build\n"
        "        run: |\n"
        "          make\n"
        "          make test\n"
        "      - name: mourn\n"
        "        if: failure\n"
        '        argv: [cat, "-n", log]\n'
        "    labels: [gpu, region=eu]\n"
        "    on: all\n"
    )


STORED_BEFORE = {"kind": "cron", "expression": "*/5 * * *", "tz": "Europe/Berlin", "gap": "run_after", "fold": "first",
                 "run_once": False, "id": ""}  # fmt: skip


@pytest.mark.parametrize("expression", ["*/5 * * *", "0 2 * *", "30 15 2 1", "H H(0-5) 2 *", "0,30 1-5 * L"])
def test_a_stored_schedule_of_four_fields_keeps_its_meaning(expression):
    schedule = from_json({**STORED_BEFORE, "expression": expression})
    job = Job(name="old", task=Noop(), schedules=(schedule,))
    record = JobRecord(id=1, job=job, state=JobState.ACTIVE, revision=1, created_at=0, updated_at=0)
    data, notes = exported(record).data, exported(record).notes
    assert notes == []
    assert data is not None
    assert data["schedule"] == {"cron": expression, "tz": "Europe/Berlin", "seconds": True}
    assert read_job(data) == job
    assert read_jobs(yaml_file([exported(record)])) == [job]
    [read] = read_job(data).schedules
    assert schedule_id(read) == schedule_id(schedule)
    assert describe(read) == describe(job.schedules[0])
    assert isinstance(read, Cron)
    assert cron_fields(read.expression)["month"] == cron_fields(read.expression)["weekday"] == "*"
    check_job(job)
