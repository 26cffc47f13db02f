"""Tasks as text: whole, and refused if this version cannot have written them."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta

import pytest

from onthedot.model.job import Job
from onthedot.model.job_json import Unreadable, decode, encode, task_to_json
from onthedot.model.task import Call, Command, Container, Http, Mount, Noop, Sleep, Source, Step, Steps, Task

STEP = Step(
    name="build", argv=("make",), script="make", directory="src", env={"A": "1"}, when="always",
    timeout=timedelta(minutes=1), attempts=3, delay=timedelta(seconds=9),
)  # fmt: skip

# Every field differs from its default.
FULL: list[Task] = [
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


@pytest.mark.parametrize("task", FULL, ids=lambda task: type(task).__name__)
def test_a_task_comes_back_whole(task: Task):
    assert decode(encode(Job(name="j", task=task))).task == task
    assert len(task_to_json(task)) == 1 + len(fields(task)), "a field was left out: the sample has its default"


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
def test_what_this_version_cannot_have_written_is_refused(task: dict[str, object]):
    with pytest.raises(Unreadable):
        decode(json.dumps({"name": "j", "task": task}))
