"""The JSON schema accepts every valid job and refuses jobs that are clearly wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, example, given, settings

import onthedot as otd
from onthedot.define import key_docs
from onthedot.define.job_reader import JOB, STEP, read_job, read_job_list
from onthedot.define.job_writer import written
from onthedot.define.key_readers import CONTAINER, HTTP, MOUNT, RETRY
from onthedot.define.schema import definitions, file_schema, job_schema
from onthedot.define.yaml_text import WrongText, read_nodes
from onthedot.model.job import Job
from onthedot.model.task import Noop
from tests.define.strategies import jobs
from tests.define.test_job_reader import EXAMPLE_FILE, ODD

ONE = jsonschema_rs.validator_for(job_schema())
FILE = jsonschema_rs.validator_for(file_schema())


def reads(data: object) -> bool:
    try:
        read_job(data)
    except WrongText:
        return False
    return True


def test_both_schemas_are_valid_json_schemas():
    for schema in (job_schema(), file_schema()):
        jsonschema_rs.meta.validate(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert json.loads(json.dumps(schema)) == schema


def test_the_schema_has_every_key_of_the_reader():
    found = definitions()
    assert set(found["job"]["properties"]) == set(JOB)
    assert set(found["step"]["properties"]) == set(STEP)
    assert set(found["job"]["properties"]["retry"]["anyOf"][1]["properties"]) == set(RETRY)
    assert set(found["job"]["properties"]["http"]["anyOf"][1]["properties"]) == set(HTTP)
    container = found["job"]["properties"]["container"]["anyOf"][1]["properties"]
    assert set(container) == set(CONTAINER)
    assert set(container["mounts"]["items"]["properties"]) == set(MOUNT)


def keys_of(schema: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every key that a mapping in this schema can have, with its path and its own schema."""
    if isinstance(schema, dict):
        if schema.get("additionalProperties") is False:
            for name, one in schema["properties"].items():
                yield f"{path}.{name}", one
        inner = [*schema.get("properties", {}).items(), *schema.get("$defs", {}).items()]
        inner += [(word, schema[word]) for word in ("items", "additionalProperties") if word in schema]
        inner += [("", one) for one in schema.get("anyOf", ())]
        for name, one in inner:
            yield from keys_of(one, f"{path}.{name}" if name else path)


KEYS = list(keys_of(file_schema(), "file"))


def test_every_key_has_a_description_and_examples():
    assert len(KEYS) > 150
    wrong = [
        path
        for path, key in KEYS
        if not key.get("examples") or not key.get("description", "").endswith(".") or len(key["description"]) > 250
    ]
    assert not wrong, f"describe these keys in define/key_docs.py: {wrong}"


@pytest.mark.parametrize("schema", [job_schema(), file_schema()], ids=["job", "file"])
def test_every_example_fits_the_schema_of_its_key(schema):
    wrong = []
    for path, key in keys_of(schema, ""):
        fits = jsonschema_rs.validator_for({**key, "$defs": schema["$defs"]})
        wrong += [(path, one) for one in key["examples"] if not fits.is_valid(one)]
    assert wrong == []


NEEDED: dict[str, dict[str, Any]] = {
    "noop": {}, "run": {}, "argv": {}, "command": {}, "steps": {}, "url": {}, "call": {}, "sleep": {}, "http": {},
    "container": {}, "shell": {"command": "x"}, "directory": {"run": "x"}, "env": {"run": "x"}, "stdin": {"run": "x"},
    "source": {"steps": [{"run": "x"}]}, "artifacts": {"steps": [{"run": "x"}]}, "task": {"url": "https://x.org/y"},
    "format": {"url": "https://x.org/y"}, "ref": {"url": "https://x.org/y"}, "isolation": {"run": "x"},
    "params": {"run": "x"}, "bounds": {"run": "x"},
    **{key: {"run": "x", "schedule": "0 3 * * *"} for key in ("tz", "run_once", "is_recurring")},
}  # fmt: skip
"""For each key, the other keys that a job needs with it."""


def with_key(group: str, key: str, value: Any) -> dict[str, Any]:
    """Return a job that has this value under this key."""
    job: dict[str, Any] = {"call": "it"}
    match group:
        case "JOB":
            job = {**NEEDED.get(key, job), key: value}
        case "COMMAND" | "STEP":
            step = {"command": "x"} if key == "shell" else {} if key in ("run", "argv", "command") else {"run": "x"}
            job = {"steps": [{**step, key: value}]}
        case "STEP_RETRY":
            job = {"steps": [{"run": "x", "retry": {key: value}}]}
        case "SOURCE":
            job = {"steps": [{"run": "x"}], "source": {"git": "https://x.org/y", key: value}}
        case "HTTP":
            job = {"http": {"url": "https://x.org", "method": "POST", key: value}}
        case "CONTAINER":
            job = {"container": {"image": "x", key: value}}
        case "MOUNT":
            job = {"container": {"image": "x", "mounts": [{"source": "/a", "target": "/b", key: value}]}}
        case "FORMS":
            job["schedule"] = {key: value}
        case "SCHEDULE":
            form = {"cron": "0 30 2 * * *" if key == "seconds" else "30 2 * * *"}
            job["schedule"] = {**form, key: value}
        case "OVERLAP":
            mode = {"max_running": "allow"}.get(key, "wait")
            job["overlap"] = {"mode": mode, key: value}
        case "AFTER" | "CATCH_UP" | "CONCURRENCY" | "RATE":
            needed = {"AFTER": {"jobs": "a"}, "CATCH_UP": {"mode": "all"}}.get(group, {"most": 1})
            job[group.lower()] = {**needed, key: value}
        case "RETRY" | "PAUSED":
            job[group.lower()] = {key: value}
        case "BOUNDS":
            job = {"run": "x", "bounds": {key: value}}
        case "PARAM":
            job = {"run": "x", "params": [{"name": "it", key: value}]}
    return {"name": "it", **job}


GROUPS: dict[str, dict[str, key_docs.KeyDoc]] = {
    name: docs for name, docs in vars(key_docs).items() if name.isupper() and name[0] != "_"
}


@pytest.mark.parametrize("group", GROUPS)
def test_the_reader_accepts_every_example(group):
    if group == "FILE":
        assert all(read_job_list({"jobs": jobs}) for jobs in GROUPS[group]["jobs"].examples)
        return
    for key, doc in GROUPS[group].items():
        for value in doc.examples:
            data = json.loads(json.dumps(with_key(group, key, value)))
            assert (data, read_job(data).name) == (data, data["name"])
            assert ONE.is_valid(data), data


def test_every_description_belongs_to_a_key_of_the_schema():
    assert set(key_docs.JOB) == set(JOB)
    assert set(key_docs.STEP) == set(STEP)
    told = {key["description"] for _, key in KEYS}
    spare = [
        f"{group}.{key}" for group, docs in GROUPS.items() for key, doc in docs.items() if doc.description not in told
    ]
    assert spare == []


def test_a_pattern_is_short_or_has_an_error_message():
    """An editor without support for `patternErrorMessage` shows the pattern itself."""

    def patterns(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            if isinstance(value.get("pattern"), str):
                yield value
            value = list(value.values())
        if isinstance(value, list):
            for one in value:
                yield from patterns(one)

    found = list(patterns(file_schema()))
    assert max(len(one["pattern"]) for one in found) < 2_000
    assert [
        one["pattern"][:40] for one in found if len(one["pattern"]) > 130 and "patternErrorMessage" not in one
    ] == []


def test_definitions_can_have_another_prefix():
    text = json.dumps(definitions("#/components/schemas/"))
    assert "#/$defs/" not in text
    assert "#/components/schemas/step" in text


@pytest.mark.slow
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(jobs())
@example(Job(name="a", task=Noop(), rate=otd.Rate(1_000_000, "1us")))
def test_the_schema_accepts_every_written_job(job):
    data = json.loads(json.dumps(written(job)))
    assert ONE.is_valid(data), [error.message for error in ONE.iter_errors(data)]
    assert FILE.is_valid({"jobs": [data]})


def test_the_schema_accepts_files_that_people_write():
    assert FILE.is_valid(read_nodes(EXAMPLE_FILE, "x").value)
    assert FILE.is_valid({"jobs": [{"name": "a", "argv": ["x", 1.5], "env": {"LEVEL": 3}}]})
    assert not ONE.is_valid({"name": "a", "argv": ["x", 1.5]})


RIGHT: list[dict[str, Any]] = [
    *({"run": "x", "schedule": line} for line in (
        "@daily", "@Hourly", "0 0 * * *", "*/5 * * * *", "0 22-6/2 * NOV-FEB fri-mon",
        "0 30 2 * * MON-FRI", "H H(0-5) * * *",
        "H/15 * * * *",
        "0 0 L * *", "0 0 LW * *", "0 0 15w,L-3,l-30W,29-L * *", "0 0 * * 5L", "0 0 * * fri#2",
        "0 0 * * mon-fri#1,friL,SAT#L",
        "0,30 8-18 1-31/2 jan-mar *", "every 1h30m", "1h30m",
        "2 days", "every 1h from 2026-01-01T00:00Z", "gap 10m", "at 2026-01-01T09:00+01:00", "in 10m",
        "at 2026-01-01T09:00Z, 2026-02-01T09:00:00.5Z", "EVERY 5 Minutes",
    )),
    {"run": "x", "schedule": "30 0 2 *", "run_once": False},
    {"run": "x", "schedule": {"cron": "30 0 2 *", "seconds": True}},
    {"run": "x", "schedule": {"cron": "@daily", "gap": "skip", "tz": "Europe/Berlin", "start": "2026-01-01"}},
    {"run": "x", "schedules": [{"gap": "10m", "id": "a"}, {"at": ["2026-01-01T00:00Z"]}, {"in": "5m", "jitter": "1s"}]},
    {"url": "https://example.org/x.git", "task": "build, test", "format": "go", "schedule": "1h",
     "is_recurring": True},
    {"http": {"url": "https://example.org", "method": "POST", "body": [1], "expect": 200}},
    {"noop": True, "paused": True}, {"noop": True, "paused": False}, {"noop": True, "paused": {}},
    {"noop": True, "paused": {"reason": "the database moves", "until": "2027-01-01T09:00+01:00"}},
    {"container": {"image": "alpine:3", "entrypoint": "sh", "argv": ["-c", "date"]}},
]  # fmt: skip


@pytest.mark.parametrize("job", RIGHT, ids=lambda job: json.dumps(job)[:60])
def test_a_valid_job_is_accepted_by_schema_and_reader(job):
    assert ONE.is_valid({"name": "it", **job})
    assert reads({"name": "it", **job})


WRONG_OPTIONS: list[dict[str, Any]] = [
    {"colour": "red"}, {"name": "a b"}, {"name": ""}, {"name": 7}, {"namespace": "ä"}, {"queue": "-"},
    {"owner": "a\nb"},
    {"schedule": "sometimes"}, {"schedule": "* * *"}, {"schedule": "60 * * * *"}, {"schedule": "* 24 * * *"},
    {"schedule": "@often"}, {"schedule": {"every": "1h", "cron": "@daily"}}, {"schedule": {}}, {"schedule": 7},
    {"schedule": {"every": "1h", "fold": "both"}}, {"schedule": {"cron": "@daily", "tz": None}},
    {"schedule": {"every": "1h", "max_count": 0}}, {"schedule": {"every": "1h", "max_count": 2, "run_once": True}},
    {"schedule": "@daily", "schedules": []}, {"run_once": True}, {"timeout": "20x"},
    {"timeout": 0}, {"timeout": None},
    {"timeout": True}, {"retry": 0}, {"retry": "3"}, {"retry": {"attemps": 3}}, {"retry": {"jitter": "no"}},
    {"overlap": "maybe"}, {"overlap": {"mode": "skip", "max_waiting": 1}}, {"catch_up": {"limit": 3}},
    {"rate": "5"},
    {"rate": {"per": "1s"}}, {"concurrency": 0}, {"after": []}, {"after": ["a", "a"]}, {"after": {"any": True}},
    {"labels": "gpu"}, {"labels": ["a b"]}, {"priority": "top"}, {"on": "some"}, {"guarantee": "maybe"},
    {"isolation": "jail"}, {"bounds": {"memory": "much"}}, {"bounds": {"output": None}}, {"bounds": {"files": 0}},
    {"args": []}, {"params": {"a b": 1}}, {"params": {"a": {"kind": "date"}}}, {"params": [{"kind": "text"}]},
    {"max_recoveries": -1}, {"max_recoveries": True},
    {"paused": None}, {"paused": "yes"}, {"paused": 1}, {"paused": []}, {"paused": {"why": "x"}},
    {"paused": {"reason": "a\nb"}}, {"paused": {"reason": "x" * 501}}, {"paused": {"until": "soon"}},
    {"paused": {"until": "2027-01-01"}}, {"paused": {"until": "2027-01-01T09:00"}}, {"paused": {"until": 7}},
]  # fmt: skip
WRONG: list[dict[str, Any]] = [
    {}, {"run": "x", "argv": ["y"]}, {"run": "x", "call": "y"}, {"run": ""}, {"argv": []}, {"run": 7}, {"run": "x\0"},
    {"noop": False}, {"noop": 1}, {"call": ""}, {"sleep": "long"}, {"sleep": -1}, {"http": "ftp://x"}, {"http": {}},
    {"http": {"url": "https://x", "body": 1}}, {"http": {"url": "https://x", "expect": [99]}},
    {"http": {"url": "https://x", "method": "get"}}, {"container": {"image": "a b"}}, {"container": {}},
    {"container": {"image": "a", "network": "host"}}, {"container": {"image": "a", "mounts": [{"source": "/a"}]}},
    {"steps": []}, {"steps": [{"name": "a"}]}, {"steps": [{"run": "x", "argv": ["y"]}]},
    {"steps": [{"run": "x", "rn": 1}]},
    {"steps": [{"run": "x", "if": "never"}]}, {"steps": [{"run": "x", "attempts": 0}]}, {"noop": True, "env": {}},
    {"run": "x", "source": "https://x/y"}, {"steps": [{"run": "x"}], "stdin": "y"},
    {"url": "https://x/y", "format": "rust"},
    *({"noop": True, **more} for more in WRONG_OPTIONS),
]  # fmt: skip


@pytest.mark.parametrize("job", WRONG, ids=lambda job: json.dumps(job)[:60])
def test_an_invalid_job_is_refused_by_schema_and_reader(job):
    data = {"name": "it", **job}
    assert not reads(data)
    assert not ONE.is_valid(data)


@pytest.mark.slow
def test_the_schema_refuses_nothing_that_the_reader_accepts():
    """Otherwise an editor that uses the schema would show an error for a valid job."""
    more: list[object] = []
    for key in JOB:
        for odd in ODD:
            for base in (
                {"run": "x"},
                {"schedule": "@daily", "noop": True},
                {"steps": [{"name": "a", "run": "x"}]},
                {},
            ):
                data = {"name": "it", **base, key: odd}
                if reads(data) and not ONE.is_valid(data):
                    more.append(data)
    assert more == []
