"""Cursors and pages of lists, also when runs change between two reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.model.errors import DefinitionError
from onthedot.model.run import LIVE, TERMINAL, RunRecord, RunState
from onthedot.stores.memory import MemoryStore
from onthedot.stores.queries import (
    FIRST_ENDED,
    AttemptCursor,
    Cursor,
    JobCursor,
    RunCursor,
    RunFilter,
    RunScan,
    Scan,
    decode_cursor,
    encode_cursor,
)
from onthedot.stores.sql.store import SqlQueries

NUMBERS = st.integers(-(2**53), 2**53)
CURSORS = st.one_of(
    st.builds(JobCursor, st.text(), st.text()),
    st.builds(RunCursor, st.booleans(), NUMBERS, NUMBERS),
    st.builds(AttemptCursor, NUMBERS, NUMBERS, NUMBERS),
)
URL_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@given(CURSORS)
def test_a_cursor_is_decoded_unchanged(cursor: Cursor):
    text = encode_cursor(cursor)
    assert set(text) <= set(URL_SAFE)
    assert decode_cursor(text, type(cursor)) == cursor


@given(CURSORS, st.data())
def test_a_cursor_that_was_changed_is_refused(cursor: Cursor, data: st.DataObject):
    text = encode_cursor(cursor)
    place = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from(URL_SAFE).filter(lambda one: one != text[place]))
    for changed in (text[:place] + letter + text[place + 1 :], text[:place], text + letter, text + "="):
        with pytest.raises(DefinitionError, match="cursor: expected one from an earlier answer"):
            decode_cursor(changed, type(cursor))


@given(st.text())
def test_any_other_text_is_refused_with_our_error(text: str):
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
def test_a_forged_cursor_is_refused(kind: type[Cursor], fields: tuple[Any, ...]):
    with pytest.raises(DefinitionError, match="one from an earlier answer"):
        decode_cursor(encode_cursor(kind(*fields)), kind)


def test_a_cursor_of_another_list_is_refused():
    with pytest.raises(DefinitionError):
        decode_cursor(encode_cursor(JobCursor("default", "report")), RunCursor)


def test_a_filter_without_states_means_all_states():
    assert (RunFilter().live_states, RunFilter().ended_states) == (LIVE, TERMINAL)
    some = RunFilter(states=frozenset({RunState.DEAD, RunState.RUNNING}))
    assert set(some.live_states) == {RunState.RUNNING}
    assert set(some.ended_states) == {RunState.DEAD}


def run(number: int, *, due: int = 5, ended: int | None = None) -> RunRecord:
    state = RunState.SCHEDULED if ended is None else RunState.SUCCEEDED
    return RunRecord(number, "job", "default", "submit:x", due, due, state, "", 0, 0, 0, 0, ended_at=ended)


class ScriptedQueries(SqlQueries):
    """Answers scans with the given results, one after the other."""

    def __init__(self, live: list[RunScan], ended: list[RunScan]) -> None:
        super().__init__(MemoryStore().database)
        self.live, self.ended = live, ended

    async def scan_live(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        return self.live.pop(0)

    async def scan_ended(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        return self.ended.pop(0)


async def test_an_empty_page_has_a_cursor_to_continue():
    queries = ScriptedQueries([Scan([], RunCursor(False, 7, 3))], [])
    assert await queries.find_runs(RunFilter()) == ([], RunCursor(False, 7, 3))


async def test_a_page_full_of_live_runs_continues_with_finished_ones():
    queries = ScriptedQueries([Scan([run(1)])], [])
    assert await queries.find_runs(RunFilter(), limit=1) == ([run(1)], FIRST_ENDED)
    queries = ScriptedQueries([Scan([run(1)])], [])
    alive = RunFilter(states=frozenset({RunState.SCHEDULED}))
    assert await queries.find_runs(alive, limit=1) == ([run(1)], None)


async def test_a_run_that_ends_between_two_scans_is_on_a_page_once():
    queries = ScriptedQueries([Scan([run(1), run(2)])], [Scan([run(1, ended=9), run(3, ended=8)])])
    assert await queries.find_runs(RunFilter()) == ([run(1), run(2), run(3, ended=8)], None)


async def test_a_list_shows_the_latest_state_of_a_run_that_moved():
    moved = replace(run(1), due_at=8)
    queries = ScriptedQueries([Scan([run(1)], RunCursor(False, 5, 1)), Scan([moved, run(2, due=9)])], [Scan([])])
    assert await queries.list_runs() == [moved, run(2, due=9)]
