"""Bad parameters, references, arguments and guarantees are refused when the job is defined."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SystemClock
from onthedot.define.check import check_job
from onthedot.model.after import After
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Call, Every, Guarantee, Job, Sleep
from onthedot.model.job_json import decode, encode
from onthedot.model.task import Command, Container, Http, Param, Step, Steps, Task
from onthedot.operations.put_job import put_job
from onthedot.schedules import every
from onthedot.settings import Settings
from onthedot.stores.sqlite import SqliteStore

LS = Command(argv=("ls", "${{ params.where }}"))
WHERE = Param(name="where")


def problems(task: Task = LS, *params: Param, **options: Any) -> list[str]:
    try:
        check_job(Job(name="j", task=task, params=params or (WHERE,), **options))
    except DefinitionError as error:
        return error.problems
    return []


@pytest.mark.parametrize(
    ("param", "problem"),
    [
        (Param(name="where", default="/", choices=("/", "/tmp")), None),
        (Param(name="where", required=True), None),
        (Param(name="where", kind="whole", default="1"), 'params.default of where: expected a whole number, got "1"'),
        (Param(name="where", kind="whole", choices=(1, "2")), 'params.choices of where: expected a whole number'),
        (Param(name="where", default="x", choices=("y",)), 'params.default of where: expected one of "y", got "x"'),
        (Param(name="where", default="x", required=True), "expected no default, because it is required, got 'x'"),
        (Param(name="where", kind="txt"), "expected a kind such as 'text', got 'txt', did you mean 'text'?"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_bad_parameter_is_refused(param: Param, problem: str | None):
    found = problems(LS, param)
    assert len(found) == (problem is not None)
    assert problem is None or problem in found[0]


def test_names_of_parameters_are_valid_and_unique():
    assert problems(LS, WHERE, WHERE) == ["params: expected each name once, got 'where' 2 times"]
    [problem] = problems(LS, WHERE, Param(name="a-b"))
    assert problem == "params: expected a name of letters, digits and '_', not a digit first, got 'a-b'"


def test_a_python_handler_may_not_declare_parameters():
    [problem] = problems(Call(handler="j"), WHERE)
    assert problem.startswith("params: expected none for a Python handler")


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        (Command(argv=("ls", "$${{ anything")), None),
        (Command(script="echo ${{ github.ref }}"), None),
        (Command(argv=("ls", "${{ params.wher }}")), "argv[1]: expected a parameter of the job, got 'wher', did"),
        (Command(argv=("ls", "${{ where }}")), "argv[1]: expected '${{ params.name }}' or '${{ secrets.NAME }}', got"),
        (Command(argv=("ls", "${{ params.where")), "argv[1]: expected '${{ params.name }}' or"),
        (Command(argv=("ls", "${{ params.where | upper }}")), "argv[1]: expected '${{ params.name }}' or"),
        (Command(argv=("ls", "${{ secrets.X }}")), "argv[1]: expected no '${{ secrets.X }}' here; put a secret"),
        (Command(argv=("${{ params.where }}",)), "argv[0]: expected no '${{ params.where }}' here; name the program"),
        (Command(argv=("sh", "-c", "ls ${{ params.where }}")), "argv[2]: expected no '${{ params.where }}' here"),
        (Command(script="ls ${{ params.where }}"), "script: expected no '${{ … }}': nothing is filled in here; put it"),
        (Command(argv=("ls",), directory="${{ params.where }}"), "directory: expected no"),
        (Command(argv=("ls",), stdin="${{ secrets.X }}"), "stdin: expected no"),
        (Command(argv=("ls",), env={"${{ params.where }}": "x"}), "env: expected letters"),
        (Steps(steps=(Step(name="a", script="${{secret.X}}"),)), "steps.a.script: expected no"),
        (Steps(steps=(Step(name="a", argv=("ls", "${{x}}")),)), "steps.a.argv[1]: expected '${{ params.name }}' or"),
        (Http(url="https://${{ params.where }}/"), "url: expected no"),
        (Http(url="https://a/", headers={"A": "${{ params.where }}"}), "headers.A: expected no '${{ params.wh"),
        (Http(url="https://a/", method="POST", body={"a": ["${{ params.where }}"]}), "body: expected no"),
        (Container(image="${{ params.where }}"), "image: expected no"),
    ],
)  # fmt: skip
def test_a_bad_reference_in_a_task_is_refused(task: Task, problem: str | None):
    found = problems(task)
    assert len(found) == (problem is not None)
    assert problem is None or found[0].startswith(problem)


def test_arguments_of_a_definition_must_fit_its_parameters():
    depth = Param(name="depth", kind="whole", required=True)
    task = Command(argv=("ls", "${{ params.depth }}"))
    missing = "args.depth: expected a whole number, got nothing; it is required"
    wrong = 'args.depth: expected a whole number, got "x"'
    hourly: Every = every("1h", args={"depth": 2})
    assert problems(task, depth) == []  # a submit provides it
    assert problems(task, depth, args={"depth": "x"}) == [wrong]
    assert problems(task, depth, schedules=(every("1h"),)) == [missing]
    assert problems(task, depth, schedules=(hourly,)) == []
    assert problems(task, depth, schedules=(every("1h", args={"depth": "x"}), hourly)) == [wrong]
    assert problems(task, depth, after=After("other")) == [missing]
    assert problems(task, depth, after=After("other"), args={"depth": 1}) == []
    assert problems(task, depth, args={"dept": 1}) == [
        "args.dept: expected a parameter of the job, did you mean 'depth'?"
    ]


def test_a_default_used_in_the_environment_must_be_one_line():
    task = Command(argv=("ls",), env={"A": "${{ params.where }}"})
    [problem] = problems(task, Param(name="where", default="a\nb"))
    assert problem.startswith("params.default of where: expected one line")


JOB = Job(name="receipt", task=Call(handler="receipt"), guarantee=Guarantee.EXACTLY_ONCE)


async def receipt(ctx: otd.Context) -> None:
    async with ctx.transaction():
        pass


def test_the_memory_store_accepts_exactly_once():
    sched = otd.Scheduler("memory:")
    sched.job(guarantee="exactly_once", retry=otd.Retry(3))(receipt)
    job = sched.jobs["receipt"]
    assert decode(encode(job)).guarantee is Guarantee.EXACTLY_ONCE


def _decorate(sched: otd.Scheduler) -> Any:
    return sched.job(guarantee="exactly_once")(receipt)


def _add(sched: otd.Scheduler) -> Any:
    sched.registry.add("receipt", receipt)
    return sched.add(JOB)


@pytest.mark.parametrize("define", [_decorate, _add])
def test_sqlite_refuses_exactly_once_when_the_job_is_defined(define: Callable[[otd.Scheduler], Any], tmp_path: Path):
    sched = otd.Scheduler(f"sqlite:///{tmp_path / 'otd.db'}")
    with pytest.raises(otd.DefinitionError, match=r"'receipt'.*'exactly_once' \(PostgreSQL, or memory for tests\)"):
        define(sched)
    assert sched.jobs == {}


async def test_put_job_refuses_exactly_once_on_a_store_without_transactions(tmp_path: Path):
    store = await SqliteStore.open(tmp_path / "otd.db")
    try:
        with pytest.raises(otd.DefinitionError, match=r"ctx\.run_id"):
            otd.Scheduler(store).job(guarantee="exactly_once")(receipt)
        with pytest.raises(otd.DefinitionError, match=r"ctx\.run_id"):
            await put_job(store, JOB, clock=SystemClock(), settings=Settings())
        assert await store.queries.list_jobs() == []
    finally:
        await store.close()


def test_exactly_once_needs_a_handler_with_a_context():
    sched = otd.Scheduler("memory:")
    with pytest.raises(otd.DefinitionError, match="first parameter named ctx"):
        sched.job(guarantee="exactly_once", name="bare")(lambda: None)
    sched.registry.add("bare", lambda: None)
    with pytest.raises(otd.UnknownHandler, match="first parameter named ctx"):
        sched.add(Job(name="bare", task=Call(handler="bare"), guarantee=Guarantee.EXACTLY_ONCE))


def test_exactly_once_needs_a_handler_in_this_process():
    with pytest.raises(otd.DefinitionError, match="another process"):
        check_job(Job(name="apart", task=JOB.task, guarantee=Guarantee.EXACTLY_ONCE, isolation="process"))
    with pytest.raises(otd.DefinitionError, match="no Python handler"):
        check_job(Job(name="nap", task=Sleep(duration=timedelta(seconds=1)), guarantee=Guarantee.EXACTLY_ONCE))
