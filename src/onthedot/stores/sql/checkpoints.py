"""Stores what attempts report while they run: checkpoints, progress and logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import compress

from onthedot.model.run import Checkpoint, Lease
from onthedot.stores.sql.port import Now, Tx, plain, sql
from onthedot.stores.values import LogRecord, Note

# These runs keep running under these leases until the transaction ends.
HOLD_RUNNING = sql("""
SELECT id, lease_id, attempt FROM runs WHERE id {in1} AND lease_id {in2} AND state = 'running' ORDER BY id [[FOR SHARE]]
""")

SAVE = sql("""
INSERT INTO checkpoints (run_id, revision, value, written_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (run_id) DO UPDATE
SET revision = excluded.revision, value = excluded.value, written_at = excluded.written_at
WHERE excluded.revision > checkpoints.revision
""")

FIND_CHECKPOINTS = sql("SELECT run_id, revision, value FROM checkpoints WHERE run_id {in1}")

NOTE = sql("""
INSERT INTO notes (run_id, attempt, number, progress, log) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (run_id, attempt) DO UPDATE
SET number = excluded.number, progress = coalesce(excluded.progress, notes.progress),
    log = coalesce(excluded.log, notes.log)
WHERE excluded.number > notes.number
""")

LIST_LOGS = sql("SELECT attempt, log FROM notes WHERE run_id = $1 AND log IS NOT NULL ORDER BY attempt", LogRecord)


async def checkpoint(tx: Tx, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Now = None) -> list[bool]:
    at = await tx.clock(now)
    running = await _hold_running(tx, (lease for lease, _ in saves))
    accepted = [_key(lease) in running for lease, _ in saves]
    rows = ((lease.run_id, checkpoint.revision, checkpoint.value, at) for lease, checkpoint in saves)
    await tx.each(SAVE, sorted(compress(rows, accepted)))
    return accepted


async def get_checkpoint(tx: Tx, run_id: int) -> Checkpoint | None:
    return (await find_checkpoints(tx, [run_id])).get(run_id)


async def find_checkpoints(tx: Tx, run_ids: Iterable[int]) -> dict[int, Checkpoint]:
    """Return the newest checkpoint of each of these runs that has one, by run."""
    wanted = list(run_ids)
    rows = await tx.rows(FIND_CHECKPOINTS, wanted) if wanted else ()
    return {run_id: Checkpoint(revision, value) for run_id, revision, value in rows}


async def note(tx: Tx, notes: Sequence[Note], *, now: Now = None) -> list[bool]:
    del now
    running = await _hold_running(tx, (note.lease for note in notes))
    rows = []
    for note in sorted(notes, key=lambda note: (note.lease.run_id, note.number)):
        attempt = running.get(_key(note.lease))
        if attempt is not None:
            progress = None if note.progress is None else json.dumps(note.progress)
            rows.append((note.lease.run_id, attempt, note.number, progress, plain(note.log)))
    await tx.each(NOTE, rows)
    return [_key(note.lease) in running for note in notes]


async def list_logs(tx: Tx, run_id: int) -> list[LogRecord]:
    return await tx.rows(LIST_LOGS, run_id)


async def _hold_running(tx: Tx, leases: Iterable[Lease]) -> dict[tuple[int, str], int]:
    """Lock the running attempts and return their numbers, by run and lease."""
    keys = [_key(lease) for lease in leases]
    rows = await tx.rows(HOLD_RUNNING, [run_id for run_id, _ in keys], [lease_id for _, lease_id in keys])
    return {(run_id, lease_id): attempt for run_id, lease_id, attempt in rows}


def _key(lease: Lease) -> tuple[int, str]:
    return lease.run_id, lease.lease_id
