"""Arguments are checked against the declared parameters, and get their defaults."""

from __future__ import annotations

import pytest

from onthedot.model.errors import ArgumentsError
from onthedot.model.job import Call, Job
from onthedot.model.task import Command, Json, Noop, Param
from onthedot.runners.params import check_params, require_params, with_defaults
from onthedot.runners.task_template import fill

PARAMS = (
    Param(name="region", choices=("eu", "us"), default="eu"),
    Param(name="depth", kind="whole", required=True),
    Param(name="ratio", kind="number"),
    Param(name="force", kind="yes_or_no", default=False),
    Param(name="note"),
)
TASK = Command(argv=("backup", "--to=${{ params.region }}", "${{params.note}}"), env={"NOTE": "${{ params.note }}"})
JOB = Job(name="backup", task=TASK, params=PARAMS)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"depth": 1}, None),
        ({"depth": 1, "region": "us", "ratio": 1, "force": True, "note": "x"}, None),
        ({"depth": 1, "ratio": 0.5}, None),
        ({}, "depth: expected a whole number, got nothing; it is required"),
        ({"depth": 1.0}, "depth: expected a whole number, got 1.0"),
        ({"depth": True}, "depth: expected a whole number, got true"),
        ({"depth": "1"}, 'depth: expected a whole number, got "1"'),
        ({"depth": None}, "depth: expected a whole number, got null"),
        ({"depth": 1, "ratio": False}, "ratio: expected a number, got false"),
        ({"depth": 1, "force": 1}, "force: expected true or false, got 1"),
        ({"depth": 1, "note": ["x"]}, 'note: expected text, got ["x"]'),
        ({"depth": 1, "region": "cn"}, 'region: expected one of "eu", "us", got "cn"'),
        ({"depth": 1, "regoin": "eu"}, "regoin: expected a parameter of the job, did you mean 'region'?"),
        ({"depth": 1, "note": "a\0"}, "note: expected text without a zero character, got \"a\\u0000\""),
        ({"depth": 1, "note": "a\nb"}, 'note: expected one line, because it goes into the environment, got "a\\nb"'),
    ],
)  # fmt: skip
def test_arguments_are_checked_by_type_and_choice(arguments: dict[str, Json], problem: str | None):
    assert check_params(JOB, arguments) == ([] if problem is None else [problem])


def test_all_problems_are_reported_at_once():
    with pytest.raises(ArgumentsError) as caught:
        require_params(JOB, {"region": 3, "force": "yes", "other": 1})
    assert len(caught.value.problems) == 4
    assert str(caught.value).startswith("job 'backup': ")


def test_infinity_is_not_a_number():
    assert check_params(JOB, {"depth": 1, "ratio": float("inf")}) == ["ratio: expected a number, got Infinity"]


def test_true_does_not_match_the_choice_1():
    job = Job(name="j", task=TASK, params=(Param(name="n", kind="number", choices=(1, 0)),))
    assert check_params(job, {"n": 1}) == []
    assert check_params(job, {"n": 1.0}) == []
    assert check_params(job, {"n": True}) == ["n: expected a number, got true"]


def test_a_job_without_parameters_takes_no_arguments():
    job = Job(name="j", task=Noop())
    assert check_params(job, {}) == []
    assert check_params(job, {"x": 1}) == ["x: expected a parameter of the job, which declares none"]


def test_arguments_of_handlers_are_not_checked_here():
    assert check_params(Job(name="j", task=Call(handler="j")), {"x": 1}) == []


def test_incomplete_arguments_may_miss_a_required_one():
    assert check_params(JOB, {}, complete=False) == []
    assert check_params(JOB, {"depth": "x"}, complete=False) == ['depth: expected a whole number, got "x"']


def test_defaults_replace_missing_arguments():
    given = with_defaults(JOB, {"depth": 2})
    assert given == {"region": "eu", "depth": 2, "ratio": None, "force": False, "note": None}
    task = fill(TASK, given, {}).task
    assert isinstance(task, Command)
    assert (task.argv, task.env) == (("backup", "--to=eu", ""), {"NOTE": ""})
