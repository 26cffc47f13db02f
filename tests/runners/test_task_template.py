"""Values are filled into argument lists, the environment and headers, each as one piece, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.model.errors import ArgumentsError, UnknownSecret
from onthedot.model.task import Command, Container, Http, Json, Noop, Step, Steps, Task
from onthedot.runners.task_template import fill, secret_names

HOSTILE = ("; rm -rf /", "$(id)", "`id`", "a b", "'", '"', "\\", "${{ secrets.KEY }}", "$HOME", "--help", "a\nb", "☃")


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_stays_one_piece(value: str):
    task = fill(Command(argv=("echo", "a${{ params.x }}b", "c")), {"x": value}, {"KEY": "hush"}).task
    assert task == Command(argv=("echo", f"a{value}b", "c"))


@given(value=st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"])))
def test_a_value_is_not_filled_in_again(value: str):
    task = fill(Command(argv=("echo", "${{ params.x }}"), env={"X": "<${{ params.x }}>"}), {"x": value}, {}).task
    assert task == Command(argv=("echo", value), env={"X": f"<{value}>"})


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (1.5, "1.5"), (True, "true"), (False, "false"), (None, ""), ("", ""), (10**20, "1" + "0" * 20)],
)
def test_values_become_text(value: Json, text: str):
    assert fill(Command(argv=("echo", "${{ params.x }}")), {"x": value}, {}).task == Command(argv=("echo", text))


def test_the_placeholder_can_be_escaped():
    task = fill(Command(argv=("echo", "$${{ params.x }} ${{ params.x }} $$${{")), {"x": "1"}, {}).task
    assert task == Command(argv=("echo", "${{ params.x }} 1 $${{"))


def test_secrets_are_filled_into_the_environment_and_headers():
    secrets = {"TOKEN": "hush-token", "OTHER": "hush-other", "UNUSED": "hush-unused"}
    command, used = fill(Command(argv=("ls",), env={"A": "x-${{ secrets.TOKEN }}-${{ secrets.TOKEN }}"}), {}, secrets)
    assert command == Command(argv=("ls",), env={"A": "x-hush-token-hush-token"})
    assert used == ("hush-token",)
    http, used = fill(
        Http(url="https://example.org", headers={"Authorization": "Bearer ${{secrets.OTHER}}"}), {}, secrets
    )
    assert http == Http(url="https://example.org", headers={"Authorization": "Bearer hush-other"})
    assert used == ("hush-other",)


def test_steps_and_containers_are_filled():
    first = Step(name="a", argv=("ls", "${{ params.x }}"))
    second = Step(name="b", script="ls", env={"X": "${{ params.x }}"})
    steps = Steps(env={"T": "${{ secrets.T }}"}, steps=(first, second))
    made, used = fill(steps, {"x": "1"}, {"T": "hush"})
    expected = (Step(name="a", argv=("ls", "1")), Step(name="b", script="ls", env={"X": "1"}))
    assert made == Steps(env={"T": "hush"}, steps=expected)
    assert used == ("hush",)
    container = Container(image="busybox", argv=("ls", "${{ params.x }}"), env={"T": "${{ secrets.T }}"})
    assert fill(container, {"x": "1"}, {"T": "hush"}).task == Container(
        image="busybox", argv=("ls", "1"), env={"T": "hush"}
    )
    started = Container(image="busybox", entrypoint="ls", argv=("${{ params.x }}",))
    assert fill(started, {"x": "1"}, {}).task == Container(image="busybox", entrypoint="ls", argv=("1",))


def test_a_task_without_placeholders_does_not_change():
    for task in (Noop(), Command(script="echo $HOME"), Http(url="https://example.org", body={"a": "${{"})):
        assert fill(task, {"x": 1}, {"T": "hush"}) == (task, ())


def test_a_secret_does_not_appear_in_repr_or_str():
    filled = fill(Command(argv=("ls",), env={"A": "Bearer ${{ secrets.T }}"}), {}, {"T": "hush"})
    assert "hush" not in repr(filled) + str(filled) + repr(filled.task)
    assert isinstance(filled.task, Command)
    assert filled.task.env["A"].encode() == b"Bearer hush"


@pytest.mark.parametrize(
    "task",
    [
        Command(argv=("ls", "${{ secrets.T }}")),
        Command(argv=("${{ params.x }}",)),
        Command(argv=("sh", "-c", "echo ${{ params.x }}")),
        Command(argv=("/usr/bin/env", "bash", "-ec", "echo ${{ params.x }}")),
        Command(argv=("python3", "-c", "${{ params.x }}")),
        Command(argv=("perl", "${{ params.x }}")),
        Command(argv=("ls", "${{ env.HOME }}")),
        Command(argv=("ls", "${{ params.x")),
        Http(url="https://example.org", headers={"A": "${{ params.x }}"}),
    ],
)
def test_a_placeholder_at_a_forbidden_place_is_refused(task: Task):
    """The definition refuses it already. This protects against a row that somebody wrote into the store."""
    with pytest.raises(ArgumentsError, match="expected nothing to fill in here"):
        fill(task, {"x": "1"}, {"T": "hush"})


def test_arguments_that_only_look_like_a_shell_are_allowed():
    fill(Command(argv=("grep", "sh", "${{ params.x }}")), {"x": "1"}, {})
    fill(Command(argv=("python3", "report.py", "--count", "${{ params.x }}")), {"x": "1"}, {})
    fill(Command(argv=("tar", "-c", "${{ params.x }}")), {"x": "1"}, {})


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\0b"])
def test_line_breaks_are_refused_in_the_environment_and_headers(value: str):
    for task, arguments, secrets in (
        (Command(argv=("ls",), env={"A": "${{ params.x }}"}), {"x": value}, {}),
        (Command(argv=("ls",), env={"A": "${{ secrets.T }}"}), {}, {"T": value}),
        (Http(url="https://example.org", headers={"A": "${{ secrets.T }}"}), {}, {"T": value}),
    ):
        with pytest.raises(ArgumentsError, match="expected one line") as caught:
            fill(task, arguments, secrets)
        assert value not in str(caught.value)
    with pytest.raises(ArgumentsError, match="expected one line"):
        fill(Command(argv=("ls", "${{ params.x }}")), {"x": "\0"}, {})


def test_a_missing_parameter_or_secret_is_named():
    with pytest.raises(ArgumentsError, match=r"argv\[1\]: expected a parameter, got 'y'; known: x"):
        fill(Command(argv=("ls", "${{ params.y }}")), {"x": "1"}, {})
    with pytest.raises(UnknownSecret, match="secret T: expected its value, got none"):
        fill(Command(argv=("ls",), env={"A": "${{ secrets.T }}"}), {}, {})


def test_the_secrets_that_a_task_needs_are_listed():
    steps = Steps(env={"A": "${{ secrets.A }}"}, steps=(Step(name="a", script="x", env={"B": "${{ secrets.B }}"}),))
    assert secret_names(steps) == {"A", "B"}
    assert secret_names(Http(url="https://example.org", headers={"H": "${{ secrets.H }} $${{ secrets.I }}"})) == {"H"}
    assert secret_names(Command(script="${{ secrets.A }}")) == frozenset()


def test_a_text_with_many_unclosed_placeholders_is_read_quickly():
    with pytest.raises(ArgumentsError):
        fill(Command(argv=("ls", "${{" * 200_000)), {}, {})
