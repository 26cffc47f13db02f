"""What attempts leave with their runs, in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from onthedot.clock import Micros
from onthedot.run import Checkpoint, Lease
from onthedot.stores.base import LogRecord, Note
from onthedot.stores.postgres.tables import Tables, find_checkpoints
from onthedot.stores.postgres.transaction import Transaction, plain

# Those of these leases under which a run is running, and stays so until the end of the transaction.
HOLD_RUNNING = """
SELECT r.lease_id, r.attempt
FROM runs r JOIN unnest($1::bigint[], $2::text[]) given (id, lease_id)
  ON r.id = given.id AND r.lease_id = given.lease_id
WHERE r.state = 'running' ORDER BY r.id FOR SHARE OF r
"""

SAVE = """
INSERT INTO checkpoints (run_id, revision, value, written_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (run_id) DO UPDATE
SET revision = excluded.revision, value = excluded.value, written_at = excluded.written_at
WHERE excluded.revision > checkpoints.revision
"""

NOTE = """
INSERT INTO notes (run_id, attempt, number, progress, log) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (run_id, attempt) DO UPDATE
SET number = excluded.number, progress = coalesce(excluded.progress, notes.progress),
    log = coalesce(excluded.log, notes.log)
WHERE excluded.number > notes.number
"""

LIST_LOGS = "SELECT attempt, log FROM notes WHERE run_id = $1 AND log IS NOT NULL ORDER BY attempt"


class Checkpoints(Tables):
    """See `CheckpointsSlice`."""

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        async def work(tx: Transaction) -> list[bool]:
            at = await tx.clock(now)
            running = await _hold(tx, (lease for lease, _ in saves))
            rows = [
                (lease.run_id, checkpoint.revision, checkpoint.value, at)
                for lease, checkpoint in saves
                if lease.lease_id in running
            ]
            await tx.each(SAVE, sorted(rows))
            return [lease.lease_id in running for lease, _ in saves]

        return await self.write(work)

    async def get_checkpoint(self, run_id: int) -> Checkpoint | None:
        return (await self.read(lambda tx: find_checkpoints(tx, [run_id]))).get(run_id)

    async def note(self, notes: Sequence[Note], *, now: Micros | None = None) -> list[bool]:
        del now

        async def work(tx: Transaction) -> list[bool]:
            running = await _hold(tx, (note.lease for note in notes))
            rows = [_row(note, running[note.lease.lease_id]) for note in notes if note.lease.lease_id in running]
            await tx.each(NOTE, sorted(rows, key=lambda row: (row[0], row[1], row[2])))
            return [note.lease.lease_id in running for note in notes]

        return await self.write(work)

    async def list_logs(self, run_id: int) -> list[LogRecord]:
        return [LogRecord(*row) for row in await self.read(lambda tx: tx.rows(LIST_LOGS, run_id))]


async def _hold(tx: Transaction, leases: Iterable[Lease]) -> dict[str, int]:
    """By lease: the number of the attempt that runs under it."""
    pairs = [(lease.run_id, lease.lease_id) for lease in leases]
    return dict(await tx.rows(HOLD_RUNNING, [run_id for run_id, _ in pairs], [lease_id for _, lease_id in pairs]))


def _row(note: Note, attempt: int) -> tuple[int, int, int, str | None, str | None]:
    progress = None if note.progress is None else json.dumps(note.progress)
    return (note.lease.run_id, attempt, note.number, progress, plain(note.log))
