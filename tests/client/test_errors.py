"""Errors of the client: an error on the server is raised by the client as the same class with the same message."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from onthedot.client.errors import error_of
from onthedot.model import errors
from onthedot.model.errors import DefinitionError, OnTheDotError, StoreError, StoreUnavailable
from onthedot.server.problems import problem_of, shown

AT = "http://server"
PLAIN = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, OnTheDotError) and kind.__name__ in {
        "AccessDenied", "UnknownJob", "UnknownRun", "UnknownSlot", "KeyConflict", "SlotSettled", "StateError",
        "RevisionConflict", "UnknownHandler", "UnknownSecret", "LayoutConflict", "OutputUnavailable",
    }
]  # fmt: skip


def sent(error: OnTheDotError) -> OnTheDotError:
    """Send the error through the JSON of a problem, and read it back."""
    problem = problem_of(error)
    return error_of(problem.status, shown(problem, "r-1"), server=AT)


@pytest.mark.parametrize("kind", PLAIN)
def test_an_error_keeps_its_class_and_message(kind: type[OnTheDotError]):
    got = sent(kind("expected this, got that"))
    assert type(got) is kind
    assert str(got) == "expected this, got that"


@pytest.mark.parametrize("subject", ["", "job 'x'"])
@pytest.mark.parametrize("problems", [["name: expected text"], ["no name"], ["name: a", "task: b", "c"]])
@pytest.mark.parametrize(
    "kind",
    [DefinitionError, errors.ScheduleError, errors.ArgumentsError, errors.DependencyCycle, errors.SourceConflict],
)
def test_a_definition_error_has_all_its_problems(kind: type[DefinitionError], problems: list[str], subject: str):
    error = kind(problems, subject=subject)
    got = sent(error)
    assert type(got) is kind
    assert isinstance(got, DefinitionError)
    assert (str(got), got.problems, got.subject) == (str(error), problems, subject)


def test_an_unavailable_store_is_reported_with_the_server():
    got = sent(StoreUnavailable("shop.db: locked"))
    assert type(got) is StoreUnavailable
    assert str(got) == "http://server: shop.db: locked"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, errors.KeyRefused), (403, errors.AccessDenied), (404, errors.UnknownJob), (409, errors.StateError),
        (412, errors.RevisionConflict), (413, DefinitionError), (422, DefinitionError), (429, StoreUnavailable),
        (503, StoreUnavailable), (500, StoreError),
    ],
)  # fmt: skip
def test_an_answer_without_an_error_name_is_mapped_by_its_status(status: int, kind: type[OnTheDotError]):
    got = error_of(status, {"detail": "no", "status": status}, server=AT)
    assert type(got) is kind
    assert "no" in str(got)


@pytest.mark.parametrize("told", [None, "<html>", [], {"detail": 7}, {}])
@pytest.mark.parametrize(("status", "kind"), [(404, StoreError), (200, StoreError), (502, StoreUnavailable)])
def test_an_answer_of_another_program_is_a_store_error(told: Any, status: int, kind: type[OnTheDotError]):
    got = error_of(status, told, server=AT)
    assert type(got) is kind
    assert "expected the answer of an onthedot server" in str(got)


@pytest.mark.parametrize(
    "name", ["KeyboardInterrupt", "did_you_mean", "annotations", "RunFailed", "WindowStale", "", 7]
)
def test_an_unknown_error_name_is_ignored(name: Any):
    assert type(error_of(409, {"detail": "no", "error": name}, server=AT)) is errors.StateError


@pytest.mark.parametrize(
    "told",
    [
        {"detail": "Not Found"},
        {"detail": "expected a path of this server, got '/x'", "type": "https://onthedot.invalid/problems/path"},
    ],
)
def test_an_unknown_route_is_not_reported_as_an_unknown_job(told: dict[str, str]):
    got = error_of(404, {**told, "request_id": "r-1"}, server=AT)
    assert type(got) is StoreError
    assert "r-1" in str(got)
