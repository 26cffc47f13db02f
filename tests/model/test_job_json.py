"""Job definitions survive a round trip through text, and text that this version cannot write is refused."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest

from onthedot.model.after import After
from onthedot.model.job import (
    At,
    CatchUp,
    Cron,
    Every,
    FixedDelay,
    Guarantee,
    In,
    Job,
    Limit,
    Overlap,
    Pause,
    Rate,
    Retry,
)
from onthedot.model.job_json import Unreadable, decode, encode, hash_of, task_to_json
from onthedot.model.task import (
    Bounds,
    Call,
    Command,
    Container,
    Http,
    Mount,
    Noop,
    Param,
    Sleep,
    Source,
    Step,
    Steps,
    Task,
)
from onthedot.rules.shards import BUCKETS, bucket_of

PLAIN = Job(name="job", task=Call(handler="work"))

# One job whose every field differs from its default.
FULL = Job(
    name="report",
    task=Sleep(duration=timedelta(seconds=1.5)),
    schedules=(
        Cron(expression="30 2 * * *", tz="Europe/Berlin", gap="skip", fold="both", run_once=True, id="c"),
        Every(interval=timedelta(minutes=5), anchor=datetime(2026, 1, 1, tzinfo=UTC), run_once=True),
        FixedDelay(delay=timedelta(minutes=1), start=datetime(2026, 1, 1, tzinfo=UTC), id="f"),
        At(instant=datetime(2026, 3, 29, 2, 30, tzinfo=UTC)),
        In(delay=timedelta(hours=1)),
        Cron(
            expression="H 2 * * *",
            start=datetime(2026, 1, 1, tzinfo=UTC),
            end=datetime(2027, 1, 1, tzinfo=UTC),
            max_count=5,
            jitter=timedelta(seconds=30),
            args={"a": 1},
        ),
        At(
            instant=datetime(2026, 1, 1, tzinfo=UTC),
            more=(datetime(2026, 2, 1, tzinfo=UTC),),
            jitter=timedelta(seconds=1),
            args={"a": 2},
        ),
    ),
    after=After("load", "clean", any=True, on="either"),
    args={"z": [1, 2.5, None, True], "a": {"ü": '"\n'}},
    namespace="team",
    owner="ops",
    guarantee=Guarantee.AT_MOST_ONCE,
    catch_up=CatchUp(mode="all", limit=7, window=timedelta(hours=3)),
    overlap=Overlap("wait", max_waiting=5),
    concurrency=Limit(10, key="tenant", name="mail"),
    rate=Rate(5, timedelta(seconds=2), burst=3, key="tenant", name="mail"),
    retry=Retry(
        attempts=5,
        backoff="linear",
        delay=timedelta(seconds=2),
        max_delay=timedelta(minutes=9),
        jitter=False,
        on=("builtins.OSError",),
        on_timeout=False,
        when="app.rules.patient",
    ),
    timeout=timedelta(minutes=20),
    max_recoveries=1,
    queue="mail",
    priority="critical",
    labels=frozenset({"gpu", "region=eu"}),
    bounds=Bounds(cpu=None, memory=1 << 20, processes=7, files=8, file_bytes=None, output=9),
    params=(Param(name="n", kind="whole", default=3, choices=(1, 3), required=True),),
    on="all",
    share="tenant",
    assignment="leader",
    isolation="process",
)


@pytest.mark.parametrize("job", [PLAIN, FULL], ids=["plain", "full"])
def test_a_written_job_is_read_back(job):
    assert decode(encode(job)) == job


def test_the_pause_of_a_file_is_not_part_of_the_text():
    assert encode(replace(FULL, paused=Pause(reason="it moves"))) == encode(FULL)


@pytest.mark.parametrize("field", [field.name for field in fields(Job) if field.name != "paused"])
def test_every_field_of_a_job_is_written(field):
    """Add a new field of a job or of a policy to `FULL` here, and to `model/job_json.py`."""
    one = replace(FULL, **{field: getattr(PLAIN, field)})
    assert getattr(FULL, field) != getattr(PLAIN, field), f"give {field} another value than its default in FULL"
    assert encode(one) != encode(FULL)
    assert decode(encode(one)) == one


@pytest.mark.parametrize(("policy", "name"), [(FULL.retry, "retry"), (FULL.catch_up, "catch_up")])
def test_every_field_of_a_policy_is_written(policy, name):
    for field in fields(policy):
        assert getattr(policy, field.name) != getattr(type(policy)(), field.name), f"change {field.name} in FULL"
        one = replace(FULL, **{name: replace(policy, **{field.name: getattr(type(policy)(), field.name)})})
        assert encode(one) != encode(FULL)
        assert decode(encode(one)) == one


def test_equal_jobs_have_equal_texts():
    one = replace(PLAIN, args={"a": 1, "b": 2})
    two = replace(PLAIN, args={"b": 2, "a": 1})
    assert encode(one) == encode(two)
    assert hash_of(encode(one)) == hash_of(encode(two)) != hash_of(encode(PLAIN))


def test_defaults_are_left_out():
    """Texts stay readable and equal when a later version adds a policy."""
    assert json.loads(encode(PLAIN)) == {"name": "job", "task": {"kind": "call", "handler": "work"}}
    partly = replace(PLAIN, retry=Retry(attempts=3))
    assert json.loads(encode(partly))["retry"] == {"attempts": 3}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"name":"a"}',
        '{"name":"a","task":{"kind":"container"}}',
        '{"name":"a","task":{"kind":"call","handler":"h"},"colour":"red"}',
        '{"name":"a","task":{"kind":"call","handler":"h"},"guarantee":"maybe"}',
        '{"name":"a","task":{"kind":"call","handler":"h"},"schedules":[{"kind":"moon"}]}',
        '{"name":"a","task":{"kind":"call","handler":"h"},"retry":{"delay_us":"long"}}',
        '{"name":"a","task":{"kind":"call","handler":"h"},"args":[1]}',
    ],
)
def test_invalid_text_is_unreadable(text):
    with pytest.raises(Unreadable, match="expected a job definition, got"):
        decode(text)


def test_buckets_are_stable_and_evenly_used():
    assert [bucket_of(job_id) for job_id in (1, 2, 3, 1_000_000)] == [886, 876, 513, 484]
    counts = [0] * BUCKETS
    for job_id in range(100_000):
        counts[bucket_of(job_id)] += 1
    assert min(counts) > 50
    assert max(counts) < 150


STEP = Step(
    name="build", argv=("make",), script="make", directory="src", env={"A": "1"}, when="always",
    timeout=timedelta(minutes=1), attempts=3, delay=timedelta(seconds=9),
)  # fmt: skip

# Every field differs from its default.
FULL_TASKS: list[Task] = [
    Call(handler="work"),
    Sleep(duration=timedelta(seconds=1.5)),
    Noop(),
    Command(argv=("a", "${{ params.x }}"), script="b", directory="/tmp", env={"A": "ü"}, stdin="in"),
    Steps(steps=(STEP, Step(name="x")), env={"B": "2"}, source=Source(git="https://x/y", ref="main"), artifacts=("*",)),
    Http(url="https://x", method="POST", headers={"A": "b"}, body={"n": [1, None]}, expect=(200, 404)),
    Container(
        image="busybox", argv=("ls",), env={"A": "1"}, network="bridge", user="1000", entrypoint="sh",
        mounts=(Mount(source="/a", target="/b", writable=True),),
    ),
]  # fmt: skip


@pytest.mark.parametrize("task", FULL_TASKS, ids=lambda task: type(task).__name__)
def test_every_field_of_a_task_is_read_back(task: Task):
    assert decode(encode(Job(name="j", task=task))).task == task
    assert len(task_to_json(task)) == 1 + len(fields(task)), (
        "expected every field: give each another value than its default in FULL_TASKS"
    )


@pytest.mark.parametrize(
    "task",
    [
        {"kind": "magic"},
        {"kind": "command", "argv": ["a"], "sudo": True},
        {"kind": "sleep", "duration_us": "long"},
        {"kind": "steps", "steps": [{"name": "a", "speed": 1}]},
        {},
    ],
)
def test_an_invalid_task_is_refused(task: dict[str, object]):
    with pytest.raises(Unreadable):
        decode(json.dumps({"name": "j", "task": task}))
