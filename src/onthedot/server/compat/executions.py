"""What has become of a job: its runs, as the documents' routes ask for them."""

from __future__ import annotations

from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.job import JobRecord, JobState
from onthedot.model.run import LIVE, TERMINAL, RunRecord, RunState
from onthedot.operations.next_slots import look_ahead
from onthedot.operations.open_verbs import OpenStore
from onthedot.rules.next_slots import coming
from onthedot.server.compute import computed
from onthedot.stores.queries import RunFilter, all_runs

_RUNNING = frozenset({RunState.RUNNING})
_TRIED = TERMINAL - {RunState.SKIPPED}


class Stands(NamedTuple):
    """How a job stands: the run that says most about that, and when it runs next."""

    newest: RunRecord | None
    next_at: Micros | None


async def stands(there: OpenStore, record: JobRecord) -> Stands:
    """How a job stands now."""
    running = await _first(there, record, _RUNNING)
    waiting = await _first(there, record, LIVE - _RUNNING)
    newest = running or waiting or await _first(there, record, TERMINAL)
    if record.state is JobState.PAUSED:
        return Stands(newest, None)
    now = there.clock.now()
    found = await computed(coming, await look_ahead(there.store, record.id, now), now, 1)
    instants = [one.due_at for one in found] + ([waiting.due_at] if waiting else [])
    return Stands(newest, min(instants, default=None))


async def last_execution(there: OpenStore, record: JobRecord) -> RunRecord | None:
    """The run that runs, waits for another try, or ended last; not one that was never tried."""
    running = await _first(there, record, _RUNNING)
    if running is not None:
        return running
    for states in (LIVE - _RUNNING, _TRIED):
        found = await all_runs(there.store.queries, RunFilter(job_id=record.id, states=states), 100)
        tried = [run for run in found if run.attempts]
        if tried:
            return tried[0]
    return None


async def _first(there: OpenStore, record: JobRecord, states: frozenset[RunState]) -> RunRecord | None:
    return next(iter(await all_runs(there.store.queries, RunFilter(job_id=record.id, states=states), 1)), None)
