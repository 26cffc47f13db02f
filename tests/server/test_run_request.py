"""A run that is asked for over HTTP: read the short way, it is what the model says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import example, given
from hypothesis import strategies as st

from onthedot.server.problems import Problem
from onthedot.server.run_request import MOST_DEEP, RunRequest, Submit, read_body, read_run_request

TEXTS = st.text(st.characters(blacklist_categories=[]), max_size=110)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "job": TEXTS | VALUES, "args": st.dictionaries(TEXTS, VALUES, max_size=4) | VALUES,
    "key": TEXTS | VALUES, "delay": st.just("5s") | VALUES, "more": VALUES,
}  # fmt: skip
BODIES = st.fixed_dictionaries({}, optional=FIELDS) | VALUES


def by_model(body: bytes) -> RunRequest | str:
    try:
        return RunRequest(**dict(read_body(Submit, body)))
    except (RequestValidationError, Problem) as error:
        return str(error)


def read(body: bytes) -> RunRequest | str:
    try:
        return read_run_request(body)
    except (RequestValidationError, Problem) as error:
        return str(error)


@given(BODIES.map(lambda value: json.dumps(value).encode()))
@example(b'{"job":"a","args":{"x":NaN}}')
@example(b'{"job":"a","args":{"x":1e400}}')
@example(b'{"job":"a","args":{"x":"\\ud800"}}')
@example(b'{"job":"a","args":{"x":"\xff"}}')
@example(b'{"job":"a","args":{"x":1},"args":{"y":2}}')
@example(b'{"job":"a\\u0000","args":{}}')
@example(b'{"job":"a","args":{}} {}')
@example(b'{"job":"a","args":{"x":' + b"9" * 5000 + b"}}")
@example(b'{"job":"a","args":{"x":' + b"[" * MOST_DEEP + b"]" * MOST_DEEP + b"}}")
def test_the_short_way_reads_what_the_model_reads(body: bytes):
    assert repr(read(body)) == repr(by_model(body))


@pytest.mark.parametrize("deep", [MOST_DEEP - 2, MOST_DEEP - 1])
def test_how_deep_it_may_be(deep: int):
    body = b'{"job":"a","args":{"x":' + b"[" * deep + b"]" * deep + b"}}"
    assert isinstance(read(body), RunRequest) is (deep + 2 <= MOST_DEEP)
