"""Runs as people are shown them, from the rows of a SQL store. Its statements name the columns in this order:

id, job, namespace, trigger, slot_at, due_at, state, reason, attempts, failures, recoveries, created_at, armed_at,
started_at, ended_at, error, result, queue, priority, target, progress, args, settled, owner, node, revision, job_id
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onthedot.route import PRIORITIES
from onthedot.run import Progress, RunRecord, RunState

_ID, _STATE, _PRIORITY, _PROGRESS = 0, 6, 18, 20  # where they stand in a run's row


def shown(row: Sequence[Any]) -> RunRecord:
    """A run, from its row."""
    run = list(row)
    run[_STATE] = RunState(run[_STATE])
    run[_PRIORITY] = PRIORITIES[run[_PRIORITY]]
    run[_PROGRESS] = None if run[_PROGRESS] is None else Progress(*json.loads(run[_PROGRESS]))
    return RunRecord(*run)


def by_id(rows: Iterable[Sequence[Any]]) -> list[RunRecord]:
    """Runs in the order in which they were made."""
    return [shown(row) for row in sorted(rows, key=lambda row: int(row[_ID]))]


def counted(rows: Mapping[str, int]) -> dict[RunState, int]:
    """How many runs there are, by state, in the order of the states."""
    return {state: rows[state.value] for state in RunState if state.value in rows}
