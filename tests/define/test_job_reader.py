"""A file or plain data is read into jobs, or refused with all of its problems and their places."""

from __future__ import annotations

import contextlib
import json
import re
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.define.job_reader import read_file, read_job, read_job_list, read_jobs
from onthedot.define.options import OPTIONS
from onthedot.define.yaml_text import WrongText
from onthedot.model.job import Cron, Every, Job
from onthedot.model.task import Bounds, Command, Param, Source, Step, Steps


def jobs(text: str) -> list[Job]:
    return read_jobs(textwrap.dedent(text))


def one(text: str) -> Job:
    [job] = jobs("jobs:\n  - name: it\n" + textwrap.indent(textwrap.dedent(text), "    "))
    return job


def problems(text: str) -> list[str]:
    with pytest.raises(otd.DefinitionError) as caught:
        one(text)
    return caught.value.problems


EXAMPLE_FILE = """
    jobs:
      - name: BuildAndTest
        schedule: "0 0 * * *"  # Every day at midnight
        run_once: false         # Run multiple times
        steps:
          - name: Set up Go
            run: go mod

          - name: Build
            run: go build -v ./...

          - name: Test
            run: go test -v ./...

      - name: NightlyCleanup
        schedule: "0 2 * * *"  # Every day at 2 AM
        run_once: true          # Run only once
        steps:
          - name: Cleanup
            run: ./cleanup_script.sh
    """


def test_the_example_file_is_read():
    build, clean = jobs(EXAMPLE_FILE)
    assert build == Job(
        name="BuildAndTest",
        schedules=(Cron(expression="0 0 * * *"),),
        task=Steps(
            steps=(
                Step(name="Set up Go", script="go mod"),
                Step(name="Build", script="go build -v ./..."),
                Step(name="Test", script="go test -v ./..."),
            )
        ),
    )  # fmt: skip
    assert clean.schedules == (Cron(expression="0 2 * * *", run_once=True),)


@pytest.mark.parametrize(
    "said",
    [
        "schedule: '30 0 2 *'\nrun_once: false",
        "schedule: ['30 0 2 *']\nis_recurring: true",
        "schedule: {cron: '30 0 2 *'}\nrun_once: false",
        "schedule: {cron: '30 0 2 *', seconds: true}",
        "schedules: [{cron: '30 0 2 *', seconds: true}]\nrun_once: false",
    ],
)
def test_four_fields_begin_with_seconds_if_the_file_says_so(said):
    assert one(f"{said}\nrun: x").schedules == (otd.cron("30 0 2 *", seconds=True),)


@pytest.mark.parametrize(
    "said",
    [
        "schedule: '*/5 * * *'",
        "schedule: {cron: '*/5 * * *'}",
        "schedule: {cron: '*/5 * * *', run_once: true}",
        "schedule: {cron: '*/5 * * *', seconds: false}\nrun_once: true",
    ],
)
def test_four_fields_without_an_option_are_refused_with_both_readings(said):
    with pytest.raises(WrongText) as refused:
        one(f"{said}\nrun: x")
    [problem] = refused.value.problems
    assert "write '*/5 * * * *' (every 5 minutes)" in problem
    assert (
        "'seconds: true' in a file, --seconds on the command line) for 'second minute hour day' (every 5 seconds)"
        in problem
    )


def test_four_fields_are_accepted_if_the_caller_allows_them():
    text = "jobs: [{name: a, schedule: '30 0 2 *', run: x}]"
    [job] = read_jobs(text, four_fields=True)
    assert job.schedules == (otd.cron("30 0 2 *", seconds=True),)


def test_is_recurring_is_the_opposite_of_run_once():
    assert one("schedule: 1h30m\nis_recurring: true\nrun: x").schedules == (Every(interval=timedelta(minutes=90)),)
    once = one("schedule: 1h30m\nis_recurring: false\nrun: x").schedules[0]
    assert isinstance(once, Every)
    assert once.run_once


@pytest.mark.parametrize(
    ("task", "names"),
    [("", ["build", "test"]), ("task: build\n", ["build"]), ("task: build, test\n", ["build", "test"]),
     ("task: [test]\n", ["test"])],
)  # fmt: skip
def test_a_package_becomes_a_source_and_the_usual_steps(task, names):
    job = one(f"url: https://example.org/shop.git\n{task}format: go\nschedule: '@daily'")
    assert isinstance(job.task, Steps)
    assert job.task.source == Source(git="https://example.org/shop.git")
    assert [step.name for step in job.task.steps] == names
    assert all(step.script == f"go {step.name} -v ./..." for step in job.task.steps)


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("run: a | b", Command(script="a | b")),
        ("command: [a, 'b c']", Command(argv=("a", "b c"))),
        ("argv: [a, 1.10]", Command(argv=("a", "1.10"))),
        ("command: a 'b c' $HOME", Command(argv=("a", "b c", "$HOME"))),
        ("command: a $HOME\nshell: true", Command(script="a $HOME")),
        ("run: x\nenv: {A: 1.10, B: yes, C: ''}", Command(script="x", env={"A": "1.10", "B": "yes", "C": ""})),
        ("run: x\ndirectory: sub\nstdin: hello", Command(script="x", directory="sub", stdin="hello")),
    ],
)
def test_each_form_of_a_command_is_read(text, task):
    assert one(text).task == task


def test_steps_with_all_keys_are_read():
    job = one(
        """
        source: {git: "https://example.org/x.git", ref: v1}
        env: {LEVEL: debug}
        artifacts: ["dist/*.whl"]
        steps:
          - name: build
            argv: [make, all]
            directory: sub
            timeout: 20m
            retry: {attempts: 3, delay: 5s}
            env: {A: b}
          - run: cat log
            if: failure
          - name: clean
            when: always
            run: |
              one
              two
            attempts: 2
        """
    )
    assert job.task == Steps(
        source=Source(git="https://example.org/x.git", ref="v1"),
        env={"LEVEL": "debug"},
        artifacts=("dist/*.whl",),
        steps=(
            Step(name="build", argv=("make", "all"), directory="sub", timeout=timedelta(minutes=20), attempts=3,
                 delay=timedelta(seconds=5), env={"A": "b"}),
            Step(name="step 2", script="cat log", when="failure"),
            Step(name="clean", script="one\ntwo\n", when="always", attempts=2),
        ),
    )  # fmt: skip


def test_all_options_are_read():
    text = """
    run: x
    schedules:
      - {cron: "30 2 * * *", tz: Europe/Berlin, jitter: 5m}
      - every 10m
      - {every: 1h, args: {full: true}}
    args: {region: eu}
    params:
      region: {choices: [eu, us], default: eu}
      full: false
    retry: {attempts: 3, delay: 10s, on: [75, ConnectionError], jitter: false}
    timeout: 20m
    catch_up: {mode: all, limit: 5, window: 2h}
    overlap: {mode: wait, max_waiting: 3}
    concurrency: {most: 2, name: db}
    rate: 5/1s
    after: {jobs: [a, b], any: true, on: either}
    guarantee: at_least_once
    isolation: sandbox
    max_recoveries: 1
    namespace: shop
    owner: ada
    queue: builds
    priority: high
    labels: [gpu, region=eu]
    share: region
    assignment: worker
    on: any
    bounds: {memory: 512M, cpu: 5m, processes: 10}
    """
    job = one(text)
    assert job == Job(
        name="it",
        task=Command(script="x"),
        schedules=(
            otd.cron("30 2 * * *", tz="Europe/Berlin", jitter="5m"), otd.every("10m"),
            otd.every("1h", args={"full": True}),
        ),
        args={"region": "eu"},
        params=(Param(name="region", choices=("eu", "us"), default="eu"),
                Param(name="full", kind="yes_or_no", default=False)),
        retry=otd.Retry(3, delay="10s", on=("onthedot.ExitCode.75", "ConnectionError"), jitter=False),
        timeout=timedelta(minutes=20),
        catch_up=otd.CatchUp("all", limit=5, window="2h"),
        overlap=otd.Overlap("wait", max_waiting=3),
        concurrency=otd.Limit(2, name="db"),
        rate=otd.Rate(5, "1s"),
        after=otd.After("a", "b", any=True, on="either"),
        isolation="sandbox", max_recoveries=1, namespace="shop", owner="ada", queue="builds", priority="high",
        labels=frozenset({"gpu", "region=eu"}), share="region",
        bounds=Bounds(memory=512 << 20, cpu=timedelta(minutes=5), processes=10),
    )  # fmt: skip
    missing = [option for option in OPTIONS if f"{option}:" not in text and option not in ("name", "schedule")]
    assert missing == []


def test_short_forms_of_options_are_read():
    job = one("run: x\nretry: 3\noverlap: skip\ncatch_up: none\nconcurrency: 4\nrate: 60\nafter: [a]\nlabels: [b]")
    assert (job.retry.attempts, job.overlap, job.catch_up.mode) == (3, otd.Overlap("skip"), "none")
    assert (job.concurrency, job.rate, job.after) == (otd.Limit(4), otd.Rate(60), otd.After("a"))


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_problems_of_a_file_are_reported_with_their_places():
    text = """
    jobs:
      - name: one
        schedul: "@daily"
        timeout: 20x
        steps:
          - name: a
            rn: make
          - name: b
            run: x
            if: never
      - name: two
        schedule: "61 * * * *"
        run: x
        retry: {attemps: 3}
      - name: three
    """
    with pytest.raises(otd.DefinitionError) as caught:
        jobs(text)
    found = caught.value.problems
    assert [problem.split(" ")[0] for problem in found] == [
        "jobs.yaml:4:5:", "jobs.yaml:5:14:", "jobs.yaml:7:9:", "jobs.yaml:8:9:", "jobs.yaml:9:9:", "jobs.yaml:13:15:",
        "jobs.yaml:15:13:", "jobs.yaml:16:5:",
    ], found  # fmt: skip
    assert "unknown key 'schedul', did you mean 'schedule'?" in found[0]
    assert any("unknown key 'rn', did you mean 'run'?" in problem for problem in found)
    assert any("unknown key 'attemps', did you mean 'attempts'?" in problem for problem in found)
    assert any(
        "expected one of steps, run (or argv, command) and url, got none of them" in problem for problem in found
    )


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("run: x\ntimeout: 20x", "4:14", "timeout: expected a length of time"),
        ("run: x\nsteps: []", "2:5", "expected one of steps, run (or argv, command) and url, got steps and run"),
        ("run: x\nargv: [a]", "2:5", "as one of run, argv and command; got run and argv"),
        ("run: [a]", "3:10", "run: expected a text, got a list"),
        ("argv: a b", "3:11", "argv: expected a list of texts, got 'a b'"),
        ("command: a 'b", "3:14", "no closing quotation"),
        ("run: x\nschedule: sometimes", "4:15", "expected a schedule, got 'sometimes'"),
        ("run: x\nrun_once: true", "4:15", "run_once: expected a schedule beside it"),
        ("run: x\nschedule: '@daily'\nrun_once: maybe", "5:15", "expected true or false, got 'maybe'"),
        ("run: x\nenv: {A: [1]}", "4:14", "env: expected a text for 'A', got a list"),
        ("run: x\nenv: {OTD_X: y}", "4:10", "onthedot's own"),
        ("run: x\nartifacts: [a]", "4:5", "artifacts: it does not go with 'run'; use steps ('steps: [{run: …}]')"),
        ("steps:\n  - name: a\n    run: x\n  - name: a\n    run: y", "4:7", "got 2 steps named 'a'"),
        ("steps:\n  - name: a\n    run: x\n    attempts: 0", "6:19", "attempts: expected a whole number"),
        ("steps:\n  - name: a", "4:9", "expected what is to be run, as one of run, argv and command; got none of them"),
        ("steps: {a: b}", "3:12", "steps: expected a list of steps"),
        ("steps: [x]", "3:13", "expected a step: a mapping with name and run, got 'x'"),
        ("url: ftp://x/y", "2:5", "source.git: expected a URL"),
        ("url: https://x/y\nformat: rust", "4:13", "format: expected one of go, make, got 'rust'"),
        ("url: https://x/y\ntask: fly", "4:11", "task: expected some of build, test, got 'fly'"),
        ("run: x\npriority: top", "4:15", "priority: expected one of"),
        ("run: x\nguarantee: exactly_once", "4:16", "guarantee: expected"),
    ],
)
def test_a_mistake_is_refused_with_its_place(text, place, expected):
    found = problems(text)
    assert any(expected in problem for problem in found), found
    assert any(problem.startswith(f"jobs.yaml:{place}: ") for problem in found if expected in problem), found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected YAML with jobs in it, got nothing"),
        ("[]", "expected a mapping with the key 'jobs', got a list"),
        ("job: []", "unknown key 'job', did you mean 'jobs'?"),
        ("jobs: 7", "jobs: expected a list of jobs"),
        ("jobs: [7]", "expected a job: a mapping"),
        ("jobs: [{name: a, run: x}, {name: a, run: y}]", "jobs.yaml:1:34: name: expected each job once, got 'a' again"),
        ("jobs: [{name: a}, {name: a, rum: y}]", "jobs.yaml:1:26: name: expected each job once, got 'a' again"),
        ("jobs: [{name: 7, run: x}]", "name: expected a text"),
        ("jobs: [{name: a, name: b}]", "expected each key once, got 'name' again"),
        ("jobs: [{name: a, run: !!python/name:os.system x}]", "leave the tag out"),
        ("jobs: !include x", "leave the tag out"),
        ("jobs: [", "expected YAML, which this is not: expected the node content, but found"),
        ("a: &a [*a]", "before and outside of *a"),
        ("jobs: []\n---\njobs: []", "expected one document"),
        ("jobs: [{<<: {name: a}, run: x}]", "expected no merge keys"),
        ("[" * 100, "expected at most 20 levels"),
        ("x" * 2_000_000, "expected at most 1048576 characters"),
    ],
)
def test_a_file_that_is_no_list_of_jobs_is_refused(text, expected):
    with pytest.raises(otd.DefinitionError) as caught:
        read_jobs(text)
    assert expected in str(caught.value)


def test_aliases_are_expanded_and_count_in_full():
    text = "jobs:\n  - {name: a, run: x, env: &e {A: b}}\n  - {name: b, run: y, env: *e}"
    assert [job.task.env for job in read_jobs(text) if isinstance(job.task, Command)] == [{"A": "b"}, {"A": "b"}]
    lists = "".join(f"- &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    with pytest.raises(otd.DefinitionError, match="aliases count in full"):
        read_jobs(f"- &a0 [x, x, x, x, x, x, x, x, x]\n{lists}")
    deep = "".join(f"- &a{n} [*a{n - 1}]\n" for n in range(1, 2_000))
    with pytest.raises(otd.DefinitionError, match="at most 20 levels"):
        read_jobs(f"- &a0 [x]\n{deep}")


ODD: list[str] = ["[]", "{}", "[1]", "{a: b}", "7", "-1", "1.5", "''", "~", "true", "x", "[[]]", "{a: {b: [c]}}", "[~]"]


KEYS = (
    *OPTIONS,
    *("run", "argv", "command", "shell", "env", "stdin", "directory", "tz", "source", "artifacts", "steps", "url"),
    *("task", "format", "ref", "run_once", "is_recurring"),
)
MORE_ODD = [
    *("{attempts: []}", "{most: []}", "{mode: []}", "{jobs: 7}", "{cron: 7}", "{cron: x, tz: 7}", "{every: []}"),
    *("{at: {}}", "{default: []}", "{git: 7}", "{memory: []}", "{on: 7}", "{most: 5, per: []}"),
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "base", ["run: x", "schedule: '@daily'\n    run: x", "steps: [{name: a, run: x}]", "url: https://x/y"]
)
def test_any_odd_value_is_read_or_refused_with_its_place(key, base):
    for odd in [*ODD, *MORE_ODD]:
        names: dict[str, Any] = {"name": "it"} | dict(line.strip().split(": ", 1) for line in base.split("\n"))
        names[key] = odd
        text = "jobs:\n  - " + "\n    ".join(f"{name}: {value}" for name, value in names.items())
        found = problems_of_file(text)
        assert all(problem.startswith("jobs.yaml:") for problem in found), (text, found)


def problems_of_file(text: str) -> list[str]:
    """Return every problem of a file; an empty list if it is valid."""
    try:
        read_jobs(text)
    except otd.DefinitionError as error:
        return error.problems
    return []


def test_an_unreadable_file_is_refused(tmp_path: Path):
    with pytest.raises(otd.DefinitionError, match="expected a file that can be read, got No such file"):
        read_file(tmp_path / "no.yaml")
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(otd.DefinitionError, match="expected text in UTF-8"):
        read_file(tmp_path / "bad.yaml")


def test_the_examples_of_the_documentation_are_read():
    page = (Path(__file__).parents[2] / "docs" / "guides" / "files.md").read_text()
    names = [[job.name for job in read_jobs(example)] for example in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    assert names == [["build_and_test", "shop", "send_report"], ["report"]]


def test_all_mistakes_of_a_job_are_reported_at_once():
    """Checks of the whole job run even if another option cannot be read."""
    text = """jobs:
  - name: a
    run: x
    env: {WHO: "${{ params.who }}"}
    queue: "a b"
    priority: 11
    isolation: jail
    timeout: soon
    schedule: "61 * * * *"
    owner: 3
    params: 5
    colour: red
"""
    with pytest.raises(WrongText) as wrong:
        read_jobs(text)
    assert [(told.at.line if told.at else 0, told.problem.partition(":")[0]) for told in wrong.value.told] == [
        (5, "queue"), (6, "priority"), (7, "isolation"), (8, "timeout"), (9, "schedule"), (10, "owner"), (11, "params"),
        (12, "unknown key 'colour'; known"),
    ]  # fmt: skip


def problems_of_data(data: object) -> list[tuple[str, str]]:
    """Return the path and the text of every problem."""
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
def test_a_mistake_in_data_is_reported_with_its_path(more, path, problem):
    found = problems_of_data({**JOB, **more})
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
def test_a_mistake_in_a_task_is_reported_with_its_path(task, path, problem):
    found = problems_of_data({"name": "it", **task})
    assert any(at == path and problem in text for at, text in found), found


@pytest.mark.parametrize("data", [None, 7, "x", [], [JOB], True, {}, {1: 2}, {"name": "a"}])
def test_data_that_is_no_job_is_refused(data):
    assert problems_of_data(data)


def test_too_large_and_too_deep_data_is_refused():
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    assert "at most 20 levels" in problems_of_data({**JOB, "args": {"a": deep}})[0][1]
    assert "at most 50000 values" in problems_of_data({**JOB, "args": {"a": [1] * 60_000}})[0][1]


def test_all_problems_of_data_are_reported_at_once():
    found = problems_of_data({"nam": "a", "run": 1, "timeout": "x", "schedules": ["a", "b"], "retry": {"a": 1, "b": 2}})
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


def test_a_list_of_jobs_is_read():
    assert [job.name for job in read_job_list({"jobs": [JOB, {**JOB, "name": "b"}]})] == ["it", "b"]
    with pytest.raises(WrongText, match=r"jobs\[1\].name: expected each job once"):
        read_job_list({"jobs": [JOB, JOB]})
    assert len(read_job_list({"jobs": [JOB, {**JOB, "namespace": "b"}]})) == 2


ODD_DATA: list[Any] = [
    *([], {}, [1], {"a": "b"}, 7, -1, 1.5, "", None, True, "x", [[]], {"a": {"b": ["c"]}}, [None], 10**400, {"": ""}),
    *({"attempts": []}, {"most": []}, {"mode": []}, {"jobs": 7}, {"cron": 7}, {"cron": "x", "tz": 7}, {"every": []}),
    *({"at": {}}, {"a": {"default": []}}, {"git": 7}, {"memory": []}, {"on": 7}, {"most": 5, "per": []}, {"gap": []}),
    *({"at": [7]}, {"cron": "@daily", "id": []}, {"url": []}, {"image": [], "argv": 7}, {"in": {}}, [{"name": []}]),
    *({"a": {"kind": {}}}, {"a": {"choices": [[]], "default": []}}, {"cpu": True}, {"files": "7"}),
    *("5/x", "/", [{"run": []}]),
]  # fmt: skip


@pytest.mark.parametrize("key", [*KEYS, "call", "sleep", "noop", "http", "container"])
def test_any_odd_data_is_read_or_refused(key):
    for odd in ODD_DATA:
        for base in ({"run": "x"}, {"schedule": "@daily", "noop": True}, {"steps": [{"name": "a", "run": "x"}]}, {}):
            with contextlib.suppress(WrongText):
                read_job({"name": "it", **base, key: odd})


def test_a_json_file_is_read_like_its_data():
    """JSON is valid YAML, so that a body of a request can be saved as a file."""
    data = {"jobs": [{**JOB, "schedule": {"at": ["2026-01-01T00:00Z", "2026-02-01T00:00Z"]}, "http": None}]}
    del data["jobs"][0]["http"]
    assert read_jobs(json.dumps(data)) == read_job_list(data)
