"""Reads and changes the tables of a memory store directly, past its methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from onthedot.model.run import RunRecord, RunState
from onthedot.stores.memory import MemoryStore
from onthedot.stores.transactions import run_now


def behind(store: MemoryStore, statement: str, *values: object) -> list[Any]:
    """Execute a statement directly on the database of the store, and return its rows."""
    with store.database.lock:
        return store.database.db.execute(statement, values).fetchall()


def runs_of(store: MemoryStore, states: Iterable[RunState]) -> list[RunRecord]:
    """Return the runs in these states, by id. It needs no event loop."""
    return sorted(run_now(store.queries.list_runs(states=states)), key=lambda run: run.id)


class Instructions:
    """Counts the instructions that SQLite executes in a `with` block. The number is the same on every machine."""

    def __init__(self, store: MemoryStore) -> None:
        self._set_handler: Callable[..., None] = store.database.db.set_progress_handler
        self.count = 0

    def __enter__(self) -> Instructions:
        self._set_handler(self._add, 1)
        return self

    def _add(self) -> int:
        self.count += 1
        return 0

    def __exit__(self, *raised: object) -> None:
        self._set_handler(None, 1)
