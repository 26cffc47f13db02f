"""Plain data becomes a job by the reader of the files; its problems have paths, and nothing is guessed."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from onthedot.define.from_mapping import read_job, read_job_list
from onthedot.define.places import WrongText
from onthedot.define.yaml_file import read_jobs
from tests.define.test_yaml_file import KEYS


def told(data: object) -> list[tuple[str, str]]:
    """Path and problem of everything that is wrong."""
    with pytest.raises(WrongText) as caught:
        read_job(data)
    return [(one.at.path if one.at else "", one.problem) for one in caught.value.told]


JOB: dict[str, Any] = {"name": "it", "run": "x"}


@pytest.mark.parametrize(
    ("more", "path", "problem"),
    [
        ({"schedules": ["@daily", {"cron": "61 * * * *"}]}, "schedules[1].cron", "minute: expected 0-59"),
        ({"schedule": {"cron": "@daily", "tz": "Mars/Phobos"}}, "schedule.tz", "Mars/Phobos"),
        ({"schedule": {"every": "1h", "max_count": 0}}, "schedule.max_count", "expected a whole number"),
        ({"schedule": {"every": "1h", "at": "2026-01-01T00:00Z"}}, "schedule", "expected one of cron, every"),
        ({"schedule": {"cron": "@daily", "tz": None}}, "schedule.tz", "expected a value, got nothing"),
        ({"schedule": 7}, "schedule", "expected a text such as '0 2 * * *' or 'every 10m', got 7"),
        ({"timeout": "20x"}, "timeout", "expected a length of time"),
        ({"timeout": None}, "timeout", "expected a value, got nothing; leave it out"),
        ({"retry": {"attempts": 3, "delay": "x"}}, "retry.delay", "expected a length of time"),
        ({"retry": {"jitter": "no"}}, "retry.jitter", "expected true or false, got 'no'"),
        ({"retry": {"when": 7}}, "retry.when", "expected the name of a function"),
        ({"retri": 3}, "retri", "did you mean 'retry'?"),
        ({"env": {"A": 1}}, "env.A", "expected a text for 'A', got 1"),
        ({"directory": 7}, "directory", "expected a text, got 7"),
        ({"priority": "top"}, "priority", "expected one of"),
        ({"max_recoveries": True}, "max_recoveries", "expected"),
        ({"bounds": {"memory": "much"}}, "bounds.memory", "expected an amount of bytes"),
        ({"params": {"a": {"kind": []}}}, "params.a.kind", "expected a text such as 'whole'"),
        ({"params": {"a": {"required": 1}}}, "params.a.required", "expected true or false, got 1"),
        ({"params": [{"kind": "text"}]}, "params[0]", "expected a name for each"),
        ({"namespace": "a b"}, "namespace", "expected letters"),
        ({"name": 7}, "name", "expected a text"),
        ({"owner": "\ud800"}, "owner", "half a character"),
        ({"args": {"a": 1 << 50_000}}, "args.a", "expected a number of at most 4096 bits"),
        ({"args": {"a": {"b": {1}}}}, "args.a.b", "expected plain data as in JSON, got set"),
        ({"args": {"a": float("nan")}}, "args.a", "expected plain data as in JSON, got float"),
    ],
)
def test_what_is_wrong_has_its_path(more, path, problem):
    found = told({**JOB, **more})
    assert any(at == path and problem in text for at, text in found), found


@pytest.mark.parametrize(
    ("task", "path", "problem"),
    [
        ({}, "", "expected one of steps, run (or argv, command) and url, got none of them; or call, sleep, noop, http"),
        ({"call": "a", "run": "b"}, "", "got run and call"),
        ({"call": ""}, "call", "expected a text"),
        ({"noop": False}, "noop", "expected true"),
        ({"sleep": "long"}, "sleep", "expected a length of time"),
        ({"http": {"method": "GET"}}, "http", "expected 'url' among its keys"),
        ({"http": {"url": "ftp://x"}}, "http.url", "expected"),
        ({"http": {"url": "https://x.org", "headers": {"A": 1}}}, "http.headers.A", "expected a text for 'A', got 1"),
        ({"http": {"url": "https://x.org", "expect": ["2"]}}, "http.expect", "expected statuses from 200 to 599"),
        ({"http": {"url": "https://x.org", "methd": "GET"}}, "http.methd", "did you mean 'method'?"),
        (
            {"noop": True, "paused": "yes"},
            "paused",
            "expected true, false, or a mapping with reason and until, got 'yes'",
        ),
        ({"noop": True, "paused": {"until": "soon"}}, "paused.until", "expected a point in time like"),
        ({"noop": True, "paused": {"reason": "a\nb"}}, "paused.reason", "expected one line of at most 500 characters"),
        ({"noop": True, "paused": {"reson": "a"}}, "paused.reson", "did you mean 'reason'?"),
        ({"container": {"image": "a b"}}, "container.image", "expected a name such as 'alpine:3'"),
        ({"container": {"image": "a", "mounts": [{"source": "/a"}]}}, "container.mounts[0]", "expected 'target'"),
        ({"container": {"image": "a"}, "env": {}}, "env", "it does not go with 'container'"),
        ({"steps": [{"name": "a", "run": "x"}, {"name": "b", "rn": "x"}]}, "steps[1].rn", "did you mean 'run'?"),
        ({"steps": [{"name": "a", "run": "x", "timeout": "x"}]}, "steps[0].timeout", "expected a length of time"),
        ({"steps": [{"name": "a", "run": "x", "attempts": 0}]}, "steps[0].attempts", "expected a whole number"),
        ({"steps": [{"name": "a", "run": 7}]}, "steps[0].run", "expected a text, got 7"),
        ({"source": {"git": "ftp://x"}, "steps": [{"run": "x"}]}, "source.git", "expected a URL"),
    ],
)
def test_what_is_wrong_with_a_task_has_its_path(task, path, problem):
    found = told({"name": "it", **task})
    assert any(at == path and problem in text for at, text in found), found


@pytest.mark.parametrize("data", [None, 7, "x", [], [JOB], True, {}, {1: 2}, {"name": "a"}])
def test_what_is_no_job_at_all(data):
    assert told(data)


def test_too_much_and_too_deep():
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    assert "at most 20 levels" in told({**JOB, "args": {"a": deep}})[0][1]
    assert "at most 50000 values" in told({**JOB, "args": {"a": [1] * 60_000}})[0][1]


def test_everything_is_told_at_once():
    found = told({"nam": "a", "run": 1, "timeout": "x", "schedules": ["a", "b"], "retry": {"a": 1, "b": 2}})
    assert [path for path, _ in found] == [
        "name",
        "nam",
        "run",
        "timeout",
        "schedules[0]",
        "schedules[1]",
        "retry.a",
        "retry.b",
    ]


def test_a_list_of_jobs():
    assert [job.name for job in read_job_list({"jobs": [JOB, {**JOB, "name": "b"}]})] == ["it", "b"]
    with pytest.raises(WrongText, match=r"jobs\[1\].name: expected each job once"):
        read_job_list({"jobs": [JOB, JOB]})
    assert len(read_job_list({"jobs": [JOB, {**JOB, "namespace": "b"}]})) == 2


ODD: list[Any] = [
    *([], {}, [1], {"a": "b"}, 7, -1, 1.5, "", None, True, "x", [[]], {"a": {"b": ["c"]}}, [None], 10**400, {"": ""}),
    *({"attempts": []}, {"most": []}, {"mode": []}, {"jobs": 7}, {"cron": 7}, {"cron": "x", "tz": 7}, {"every": []}),
    *({"at": {}}, {"a": {"default": []}}, {"git": 7}, {"memory": []}, {"on": 7}, {"most": 5, "per": []}, {"gap": []}),
    *({"at": [7]}, {"cron": "@daily", "id": []}, {"url": []}, {"image": [], "argv": 7}, {"in": {}}, [{"name": []}]),
    *({"a": {"kind": {}}}, {"a": {"choices": [[]], "default": []}}, {"cpu": True}, {"files": "7"}),
    *("5/x", "/", [{"run": []}]),
]  # fmt: skip


@pytest.mark.parametrize("key", [*KEYS, "call", "sleep", "noop", "http", "container"])
def test_whatever_stands_there_is_a_job_or_told(key):
    for odd in ODD:
        for base in ({"run": "x"}, {"schedule": "@daily", "noop": True}, {"steps": [{"name": "a", "run": "x"}]}, {}):
            with contextlib.suppress(WrongText):
                read_job({"name": "it", **base, key: odd})


def test_a_file_and_its_data_are_one():
    """JSON is YAML, so that a body can be put into a file."""
    data = {"jobs": [{**JOB, "schedule": {"at": ["2026-01-01T00:00Z", "2026-02-01T00:00Z"]}, "http": None}]}
    del data["jobs"][0]["http"]
    assert read_jobs(json.dumps(data)) == read_job_list(data)
