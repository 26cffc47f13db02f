"""Every problem of a task is found when the job is defined, and all are reported at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import onthedot as otd
from onthedot.define.check import check_job
from onthedot.define.options import build_job
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Job
from onthedot.model.task import Bounds, Command, Container, Http, Mount, Noop, Source, Step, Steps, Task

OK = Step(name="ok", script="true")


def problems(task: Any, **options: Any) -> list[str]:
    try:
        check_job(otd.Job(name="it", task=task, **options))
    except otd.DefinitionError as error:
        return error.problems
    return []


@pytest.mark.parametrize(
    "task",
    [
        Command(argv=("backup", "--all", "")),
        Command(script="echo $HOME\nexit 3", directory="/srv", env={"A_1": "x=y"}, stdin="two\nlines"),
        Steps(steps=(OK, Step(name="Set up Go 1.22", argv=("go",), when="always", timeout=timedelta(1)))),
        Steps(steps=(OK,), source=Source(git="git@example.org:shop.git", ref="v1.2/x"), artifacts=("a/**/*.txt", "b")),
        Noop(),
    ],
)
def test_a_valid_command_or_list_of_steps_is_accepted(task):
    assert problems(task) == []


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (Command(), "expected either argv (a program and its arguments) or script"),
        (Command(argv=("a",), script="a"), "got both"),
        (Command(argv=("a", "b\0")), "NUL"),
        (Command(argv=("",)), "expected the name of a program"),
        (Command(argv="ls -l"), "argv: expected a list of texts"),  # type: ignore[arg-type]
        (Command(script="x\0"), "script: expected text without"),
        (Command(script="x" * 70_000), "at most 65536 characters"),
        (Command(script="x", directory="../../etc"), "leave '..' out"),
        (Command(script="x", env={"1A": "x"}), "as a name, got '1A'"),
        (Command(script="x", env={"A=B": "x"}), "as a name"),
        (Command(script="x", env={"OTD_RUN_ID": "7"}), "onthedot's own"),
        (Command(script="x", env={"A": "x\ny"}), "on one line"),
        (Command(script="x", env={"A": 7}), "on one line"),  # type: ignore[dict-item]
        (Command(script="x", stdin=7), "stdin: expected text"),  # type: ignore[arg-type]
        (Steps(steps=()), "from 1 to 100"),
        (Steps(steps=({"name": "x"},)), "expected a list of Step"),  # type: ignore[arg-type]
        (Steps(steps=(OK, OK)), "got 2 steps named 'ok'"),
        (Steps(steps=(Step(name="", script="x"),)), "expected a name"),
        (Steps(steps=(Step(name="a\nb", script="x"),)), "expected a name"),
        (Steps(steps=(Step(name="a", script="x", attempts=0),)), "attempts: expected a whole number"),
        (Steps(steps=(Step(name="a", script="x", when="never"),)), "when: expected one of"),  # type: ignore[arg-type]
        (Steps(steps=(Step(name="a", script="x", timeout=timedelta(0)),)), "timeout: expected"),
        (Steps(steps=(OK,), artifacts=("/etc/passwd",)), "inside the workspace"),
        (Steps(steps=(OK,), artifacts=("a/../../b",)), "inside the workspace"),
        (Steps(steps=(OK,), artifacts=("**/**/**/x",)), "at most twice"),
        (Steps(steps=(OK,), artifacts="*.txt"), "expected a list of patterns"),  # type: ignore[arg-type]
        (Steps(steps=(OK,), source=Source(git="ext::sh -c id")), "expected a URL by https, ssh or file"),
        (Steps(steps=(OK,), source=Source(git="--upload-pack=id")), "expected a URL"),
        (Steps(steps=(OK,), source=Source(git="a@b:-x")), "expected a URL"),
        *(
            (Steps(steps=(OK,), source=Source(git=url)), "source.git: expected")
            for url in (
                "ssh://-oProxyCommand=id/x",
                "ssh://%2doProxyCommand=id/x",
                "ssh://-oProxyCommand=id@host/x",
                "ssh://-l@host/x",
                "git@-oProxyCommand=id:x",
                "git@-x:y",
                "https://-x/y",
                "https://a@b@c/d",
                "https://example.org\\@127.0.0.1/x",
                "https://0x7f.1/x",
                "https://example.org/x#@y",
                "ssh:///x",
                "https://example.org:0/x",
                "http://example.org/x",
                "git@host://x",
                "https://example.org./x",
                "git@example.org.:x",
                "https://bücher.example/x",
                "https://[0:0::1]/x",
            )
        ),
        (Steps(steps=(OK,), source=Source(git="https://x/y", key="ghp_token")), "source.key: expected the name of a"),
        (Steps(steps=(OK,), source=Source(git="https://me:pw@example.org/x")), "without a password"),
        (Steps(steps=(OK,), source=Source(git="https://x/y", ref="--help")), "source.ref"),
        (Steps(steps=(OK,), source=Source(git="https://x/y", ref="a..b")), "source.ref"),
    ],
)
def test_a_bad_command_or_step_is_refused(task, expected):
    found = problems(task)
    assert any(expected in problem for problem in found), found


def test_all_problems_of_steps_are_reported_at_once():
    found = problems(Steps(steps=(Step(name="a"), Step(name="a", argv=("\0",))), artifacts=("/x",)))
    assert len(found) == 4


def test_an_isolated_job_may_not_use_a_repository_of_its_worker():
    task = Steps(steps=(OK,), source=Source(git="file:///srv/shop.git"))
    assert problems(task) == []
    assert "https or ssh" in problems(task, isolation="sandbox")[0]


@pytest.mark.parametrize("field", ["memory", "processes", "files", "file_bytes", "output", "cpu"])
def test_a_bound_of_zero_is_refused(field):
    nothing: Any = timedelta(0) if field == "cpu" else 0
    assert f"bounds.{field}: expected more than zero" in problems(Noop(), bounds=Bounds(**{field: nothing}))[0]


def test_bounds_are_read_from_what_people_write():
    job = build_job(Command(script="x"), {"name": "it", "bounds": {"memory": "512M", "cpu": "5m", "processes": None}})
    assert job.bounds == Bounds(memory=512 << 20, cpu=timedelta(minutes=5), processes=None)
    with pytest.raises(otd.DefinitionError, match="bounds: unknown 'memry', did you mean 'memory'"):
        build_job(Command(script="x"), {"name": "it", "bounds": {"memry": 1}})
    with pytest.raises(otd.DefinitionError, match=r"bounds\.memory: expected an amount of bytes like '512M'"):
        build_job(Command(script="x"), {"name": "it", "bounds": {"memory": "much"}})


def test_a_text_instead_of_a_list_of_arguments_is_refused():
    with pytest.raises(otd.DefinitionError, match=r"argv: expected a list of texts such as \['pg_dump', '--all'\]"):
        otd.Scheduler("memory:").command("x", "ls -l")


GOOD: list[Task] = [
    Http(url="https://example.com/hook?x=1"),
    Http(url="http://10.0.0.1/", method="POST", headers={"X-A": "${{ secrets.A }}"}, body={"n": 1}, expect=(200, 404)),
    Http(url="https://bücher.example/", method="DELETE"),
    Container(image="alpine:3"),
    Container(
        image="registry.example:5000/a/b@sha256:" + "0" * 64,
        argv=("sh", "-c", "echo $A\ntrue"), env={"A": "b"}, network="bridge", user="1000:1000",
        mounts=(Mount(source="/data", target="/data"), Mount(source="/out", target="/out", writable=True)),
    ),
]  # fmt: skip

BAD: list[tuple[Task, str]] = [
    (Http(url="ftp://example.com"), "url: expected a URL with http or https"),
    (Http(url="https://u:p@example.com"), "url: expected a URL without a user name"),
    (Http(url="https://0x7f.1/"), "url: expected an address"),
    (Http(url="http://x", method="get"), "method: expected one of GET"),
    (Http(url="http://x", method="CONNECT"), "method: expected one of GET"),
    (Http(url="http://x", headers={"a b": "c"}), "headers: expected names"),
    (Http(url="http://x", headers={"A": "b\r\nC: d"}), "headers: expected one line of text for A"),
    (Http(url="http://x", headers={"Host": "y"}), "headers: expected none that is set"),
    (Http(url="http://x", headers={"Onthedot-Fence": "1"}), "headers: expected none that is set"),
    (Http(url="http://x", headers={"A": "1", "a": "2"}), "headers: expected each name once"),
    (Http(url="http://x", headers={f"A{n}": "" for n in range(101)}), "headers: expected at most 100"),
    (Http(url="http://x", body=1), "body: expected none with GET"),
    (Http(url="http://x", method="POST", body=float("nan")), "body: expected JSON"),
    (Http(url="http://x", method="POST", body={1, 2}), "body: expected JSON"),
    (Http(url="http://x", method="POST", body="x" * 300_000), "body: expected at most"),
    (Http(url="http://x", expect=(99,)), "expect: expected statuses"),
    (Http(url="http://x", expect=(True,)), "expect: expected statuses"),
    (Container(image=""), "image: expected"),
    (Container(image="--privileged"), "image: expected"),
    (Container(image="a b"), "image: expected"),
    (Container(image="a", network="host"), "network: expected"),
    (Container(image="a", network="container:abc"), "network: expected"),
    (Container(image="a", network=""), "network: expected"),
    (Container(image="a", user="root; rm"), "user: expected"),
    (Container(image="a", argv=("a\0b",)), "argv: expected"),
    (Container(image="a", env={"A=B": "c"}), "env: expected"),
    (Container(image="a", env={"A": "b\nC=d"}), "env: expected"),
    (Container(image="a", mounts=(Mount(source="data", target="/x"),)), "mounts.source: expected"),
    (Container(image="a", mounts=(Mount(source="/a/../etc", target="/x"),)), "mounts.source: expected"),
    (Container(image="a", mounts=(Mount(source="/a", target="/"),)), "mounts.target: expected"),
    (Container(image="a", mounts=(Mount(source="/a", target="/x"), Mount(source="/b", target="/x"))), "target once"),
]


@pytest.mark.parametrize("task", GOOD, ids=str)
def test_a_valid_http_call_or_container_is_accepted(task: Task):
    check_job(Job(name="j", task=task))


@pytest.mark.parametrize(("task", "words"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_http_call_or_container_is_refused(task: Task, words: str):
    with pytest.raises(DefinitionError) as refused:
        check_job(Job(name="j", task=task))
    assert words in str(refused.value)


def test_all_problems_of_an_http_call_are_reported_at_once():
    with pytest.raises(DefinitionError) as refused:
        check_job(Job(name="j", task=Http(url="x", method="y", expect=(1,))))
    assert len(refused.value.problems) == 3
