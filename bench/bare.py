"""Bare loops: the same work as ours with nothing around it, to compare with.

They use the drivers' own statements and calls, one no-op task per run, and batches of the same size. They have no
engine thread, lease renewal, retries, time-outs or planner.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bench.nodes import JOB, wall
from onthedot.clock import Micros
from onthedot.ids import SeededIds
from onthedot.model.run import Lease, RunState
from onthedot.model.task import Call, task_name
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.settings import Settings
from onthedot.stores.protocol import Store
from onthedot.stores.sql.reserve import ARM_NOW, LIST_DUE
from onthedot.stores.sqlite.connection import begin, commit, connect
from onthedot.stores.sqlite.fast_finish import END_RUN, INSERT_ATTEMPT, INSERT_HISTORY
from onthedot.stores.sqlite.writer_thread import TAKE_NUMBERS
from onthedot.stores.values import Node, ReserveRequest

BATCH = Settings().batch
TASKS = frozenset({task_name(Call(handler=JOB))})

_LONG: Micros = 10**12
_INCARNATION = "bare"
_SUCCEEDED = Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED)

Taken = tuple[Any, ...]  # a row of LIST_DUE, then its lease id, fence and the instant it was armed


async def perform(run_ids: Sequence[int], executed: list[int]) -> tuple[Micros, Micros]:
    """Execute one task per run, and return the instants at which the batch started and ended."""
    everything = asyncio.Event()
    started_at, left = wall(), len(run_ids)

    async def noop(run_id: int) -> None:
        nonlocal left
        executed.append(run_id)
        left -= 1
        if not left:
            everything.set()

    tasks = [asyncio.create_task(noop(run_id)) for run_id in run_ids]
    await everything.wait()
    del tasks
    return started_at, wall()


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────


async def drain_store(store: Store, seed: int) -> tuple[float, list[int]]:
    """Drain a store with its own batched calls. Return the seconds and the executed runs."""
    await store.register(Node("bare", _INCARNATION), ttl=_LONG)
    ids, executed = SeededIds(seed), list[int]()
    began = time.perf_counter()
    while True:
        reserved = await store.reserve(ReserveRequest(_INCARNATION, ids.leases(BATCH), BATCH, tasks=TASKS))
        if not reserved.armed:
            return time.perf_counter() - began, executed
        started_at, ended_at = await perform([lease.run_id for lease in reserved.armed], executed)
        await store.finish(_verdicts(reserved.armed, started_at, ended_at))


def _verdicts(leases: Sequence[Lease], started_at: Micros, ended_at: Micros) -> list[Finish]:
    return [Finish(lease, _SUCCEEDED, started_at, ended_at) for lease in leases]


# ── SQLite ───────────────────────────────────────────────────────────────────────────────────────────────────


async def drain_sqlite(path: Path, seed: int) -> tuple[float, list[int]]:
    """Drain a SQLite file with the driver's statements on a plain connection, in the thread of the event loop.

    Each commit has the finish of one batch and the reserve of the next. Return the seconds and the executed runs.
    """
    db = connect(str(path), writing=True)
    ids, executed = SeededIds(seed), list[int]()
    taken: list[Taken] = []
    started_at = ended_at = 0
    began = time.perf_counter()
    try:
        while True:
            begin(db, writing=True)
            _finish(db, taken, started_at, ended_at)
            taken = _take(db, ids)
            commit(db)
            if not taken:
                return time.perf_counter() - began, executed
            started_at, ended_at = await perform([row[1] for row in taken], executed)
    finally:
        db.close()


def _take(db: sqlite3.Connection, ids: SeededIds) -> list[Taken]:
    now = wall()
    values = (now, json.dumps(sorted(TASKS)), "[]", BATCH, "default", 1, 0)
    rows = list(islice(db.execute(LIST_DUE.sqlite, values), BATCH))
    if not rows:
        return []
    [last] = db.execute(TAKE_NUMBERS, ("fence", len(rows))).fetchone()
    leases = zip(ids.leases(len(rows)), range(last - len(rows) + 1, last + 1), strict=True)
    taken = [(*row[:16], *lease, now) for row, lease in zip(rows, leases, strict=True)]  # without rank and `gated`
    arms = [(row[1], row[16], row[3], _INCARNATION, now, row[17]) for row in taken]
    db.executemany(ARM_NOW.sqlite, arms)
    return taken


def _finish(db: sqlite3.Connection, taken: Sequence[Taken], started_at: Micros, ended_at: Micros) -> None:
    if not taken:
        return
    ended = db.executemany(END_RUN, [(row[1], row[16]) for row in taken]).rowcount
    assert ended == len(taken), "expected to finish every run: a bare loop is the only worker"
    history, attempts = [], []
    for (_, run_id, job_id, revision, _, trigger, slot_at, due_at, args, attempt, failures, recoveries, created_at,
         target, queue, priority, lease_id, fence, armed_at) in taken:  # fmt: skip
        history.append((
            run_id, job_id, "succeeded", slot_at, due_at, attempt + 1, failures, recoveries, created_at, armed_at,
            started_at, ended_at, queue, priority, trigger, target, "", args, None, None,
        ))  # fmt: skip
        attempts.append((
            run_id, attempt + 1, lease_id, fence, _INCARNATION, revision, "succeeded", None, due_at, armed_at,
            armed_at, started_at, ended_at,
        ))  # fmt: skip
    db.executemany(INSERT_HISTORY, history)
    db.executemany(INSERT_ATTEMPT, attempts)


# ── timers ───────────────────────────────────────────────────────────────────────────────────────────────────


async def timers(instants: Sequence[Micros]) -> list[Micros]:
    """Return how late `loop.call_at` is at these instants of the wall clock, in order of its calls."""
    loop = asyncio.get_running_loop()
    all_rung = asyncio.Event()
    late: list[Micros] = []

    def ring(instant: Micros) -> None:
        late.append(wall() - instant)
        if len(late) == len(instants):
            all_rung.set()

    offset = loop.time() - wall() / 1_000_000
    for instant in instants:
        loop.call_at(offset + instant / 1_000_000, ring, instant)
    await all_rung.wait()
    return late
