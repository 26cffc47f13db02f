"""Rows of SQL stores become runs and counts as users see them."""

from __future__ import annotations

from typing import Any

from onthedot.model.run import Progress, RunState
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sql.history import shown
from onthedot_verify.contract.workbench import DEAD, Workbench


def row(run_id: int = 1, *, state: str = "succeeded", ended_at: int | None = 5, progress: str | None = None) -> Any:
    return (
        run_id, "job", "default", "submit:1", 1, 2, state, "", 1, 0, 0, 1, 3, 4, ended_at, None, None,
        "default", 0, "", progress,
    )  # fmt: skip


def test_a_row_becomes_a_run():
    run = shown(*row(7, progress="[3, 10]"))
    assert (run.id, run.job, run.state, run.ended_at, run.progress) == (
        7,
        "job",
        RunState.SUCCEEDED,
        5,
        Progress(3, 10),
    )
    assert shown(*row()).progress is None


async def test_counts_come_in_the_order_of_the_states():
    bench = Workbench(MemoryStore())
    record, node = await bench.define(), await bench.node()
    await bench.submit(record)
    [lease] = await bench.take(node)
    assert await bench.finish(lease, DEAD)
    await bench.submit(record)
    counts = await bench.store.queries.count_runs()
    assert list(counts.items()) == [(RunState.SCHEDULED, 1), (RunState.DEAD, 1)]
