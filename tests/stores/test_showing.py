"""Rows of SQL stores, as people are shown them."""

from __future__ import annotations

from typing import Any

from onthedot.run import LIVE, TERMINAL, Progress, RunState
from onthedot.stores.showing import by_id, counted, newest_end_first, shown, states_wanted


def row(run_id: int = 1, *, state: str = "succeeded", ended_at: int | None = 5, progress: str | None = None) -> Any:
    return (
        run_id, "job", "default", "submit:1", 1, 2, state, "", 1, 0, 0, 1, 3, 4, ended_at, None, None,
        "default", 0, "", progress,
    )  # fmt: skip


def test_a_row_is_a_run():
    run = shown(row(7, progress="[3, 10]"))
    assert (run.id, run.job, run.state, run.ended_at, run.progress) == (
        7,
        "job",
        RunState.SUCCEEDED,
        5,
        Progress(3, 10),
    )
    assert shown(row()).progress is None


def test_runs_come_in_the_order_in_which_they_were_made_or_ended():
    assert [run.id for run in by_id([row(2), row(10), row(1)])] == [1, 2, 10]
    rows = [row(1, ended_at=5), row(2, ended_at=9), row(3, ended_at=5)]
    assert [run[0] for run in newest_end_first(rows)] == [2, 3, 1]


def test_the_states_that_are_asked_for_are_live_or_finished():
    live, finished = states_wanted(None)
    assert (set(live), set(finished)) == (set(LIVE), set(TERMINAL))
    assert states_wanted([RunState.RUNNING, RunState.DEAD]) == (["running"], ["dead"])
    assert states_wanted([]) == ([], [])


def test_counts_come_in_the_order_of_the_states():
    found = counted({"dead": 2, "scheduled": 1})
    assert list(found.items()) == [(RunState.SCHEDULED, 1), (RunState.DEAD, 2)]
