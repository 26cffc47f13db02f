"""Cursors: the text that a reader carries from page to page."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.model.errors import DefinitionError
from onthedot.model.run import LIVE, TERMINAL, RunState
from onthedot.stores.queries import AttemptCursor, Cursor, JobCursor, RunCursor, RunFilter, decode_cursor, encode_cursor

NUMBERS = st.integers(-(2**53), 2**53)
CURSORS = st.one_of(
    st.builds(JobCursor, st.text(), st.text()),
    st.builds(RunCursor, st.booleans(), NUMBERS, NUMBERS),
    st.builds(AttemptCursor, NUMBERS, NUMBERS, NUMBERS),
)
URL_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@given(CURSORS)
def test_a_cursor_comes_back_as_it_was(cursor: Cursor):
    text = encode_cursor(cursor)
    assert set(text) <= set(URL_SAFE)
    assert decode_cursor(text, type(cursor)) == cursor


@given(CURSORS, st.data())
def test_a_cursor_that_was_changed_is_refused(cursor: Cursor, data: st.DataObject):
    text = encode_cursor(cursor)
    place = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from(URL_SAFE).filter(lambda one: one != text[place]))
    for changed in (text[:place] + letter + text[place + 1 :], text[:place], text + letter, text + "="):
        with pytest.raises(DefinitionError, match="cursor: expected one as it was answered"):
            decode_cursor(changed, type(cursor))


@given(st.text())
def test_any_text_is_refused_in_our_words(text: str):
    with pytest.raises(DefinitionError):
        decode_cursor(text, JobCursor)
    with pytest.raises(DefinitionError):
        decode_cursor(text, RunCursor)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (JobCursor, ("a", 2)),
        (RunCursor, (True, "x", 1)),
        (RunCursor, (1, 2, 3)),
        (RunCursor, (True, 1.5, 1)),
        (AttemptCursor, (10**40, 1, 1)),
    ],
)
def test_a_cursor_that_somebody_has_made_is_refused(kind: type[Cursor], fields: tuple[Any, ...]):
    with pytest.raises(DefinitionError, match="as it was answered"):
        decode_cursor(encode_cursor(kind(*fields)), kind)


def test_a_cursor_of_something_else_is_refused():
    with pytest.raises(DefinitionError):
        decode_cursor(encode_cursor(JobCursor("default", "report")), RunCursor)


def test_states_that_are_not_asked_for_are_all_of_them():
    assert (RunFilter().live_states, RunFilter().ended_states) == (LIVE, TERMINAL)
    some = RunFilter(states=frozenset({RunState.DEAD, RunState.RUNNING}))
    assert set(some.live_states) == {RunState.RUNNING}
    assert set(some.ended_states) == {RunState.DEAD}
