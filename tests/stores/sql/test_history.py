"""Rows of SQL stores, as people are shown them."""

from __future__ import annotations

from typing import Any

from onthedot.run import Progress, RunState
from onthedot.stores.sql.history import counted, shown


def row(run_id: int = 1, *, state: str = "succeeded", ended_at: int | None = 5, progress: str | None = None) -> Any:
    return (
        run_id, "job", "default", "submit:1", 1, 2, state, "", 1, 0, 0, 1, 3, 4, ended_at, None, None,
        "default", 0, "", progress,
    )  # fmt: skip


def test_a_row_is_a_run():
    run = shown(*row(7, progress="[3, 10]"))
    assert (run.id, run.job, run.state, run.ended_at, run.progress) == (
        7,
        "job",
        RunState.SUCCEEDED,
        5,
        Progress(3, 10),
    )
    assert shown(*row()).progress is None


def test_counts_come_in_the_order_of_the_states():
    found = counted({"dead": 2, "scheduled": 1})
    assert list(found.items()) == [(RunState.SCHEDULED, 1), (RunState.DEAD, 2)]
