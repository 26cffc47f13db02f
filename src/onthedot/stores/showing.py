"""Runs as people are shown them, from the rows of a SQL store. Its statements name the columns in this order:

id, job, namespace, trigger, slot_at, due_at, state, reason, attempts, failures, recoveries, created_at, armed_at,
started_at, ended_at, error, result, queue, priority, target, progress, args, settled, owner, node, revision
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onthedot.route import PRIORITIES
from onthedot.run import LIVE, TERMINAL, Progress, RunRecord, RunState

_ID, _STATE, _ENDED_AT, _PRIORITY, _PROGRESS = 0, 6, 14, 18, 20  # where they stand in a run's row


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


def newest_end_first(rows: Iterable[Any]) -> list[Any]:
    """Rows of finished runs, of several jobs, in the order of one."""
    return sorted(rows, key=lambda row: (row[_ENDED_AT], row[_ID]), reverse=True)


def states_wanted(states: Iterable[RunState] | None) -> tuple[list[str], list[str]]:
    """Which states of live runs, and which of finished ones, are asked for. None: all."""
    wanted = frozenset(RunState if states is None else states)
    return [state.value for state in LIVE & wanted], [state.value for state in TERMINAL & wanted]


def counted(rows: Mapping[str, int]) -> dict[RunState, int]:
    """How many runs there are, by state, in the order of the states."""
    return {state: rows[state.value] for state in RunState if state.value in rows}
