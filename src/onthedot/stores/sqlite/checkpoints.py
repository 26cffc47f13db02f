"""What attempts leave with their runs, in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.run import Checkpoint, Lease
from onthedot.stores.base import LogRecord, Note
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.tables import Tables, find_checkpoint

# Everything below happens under the write lock: what is running now is so until the commit.
FIND_ATTEMPT = "SELECT attempt FROM runs WHERE id = ? AND lease_id = ? AND state = 'running'"

SAVE = """
INSERT INTO checkpoints (run_id, revision, value, written_at) VALUES (:run_id, :revision, :value, :now)
ON CONFLICT (run_id) DO UPDATE
SET revision = excluded.revision, value = excluded.value, written_at = excluded.written_at
WHERE excluded.revision > revision
"""

NOTE = """
INSERT INTO notes (run_id, attempt, number, progress, log) VALUES (:run_id, :attempt, :number, :progress, :log)
ON CONFLICT (run_id, attempt) DO UPDATE
SET number = excluded.number, progress = coalesce(excluded.progress, progress), log = coalesce(excluded.log, log)
WHERE excluded.number > number
"""

LIST_LOGS = "SELECT attempt, log FROM notes WHERE run_id = ? AND log IS NOT NULL ORDER BY attempt"


class Checkpoints(Tables):
    """See `CheckpointsSlice`."""

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        def work(tx: Transaction) -> list[bool]:
            at = self.read_clock(now)
            return [_save(tx.db, lease, checkpoint, at) for lease, checkpoint in saves]

        return await self.write(work)

    async def get_checkpoint(self, run_id: int) -> Checkpoint | None:
        return await self.read(lambda tx: find_checkpoint(tx.db, run_id))

    async def note(self, notes: Sequence[Note], *, now: Micros | None = None) -> list[bool]:
        del now
        return await self.write(lambda tx: [_note(tx.db, note) for note in notes])

    async def list_logs(self, run_id: int) -> list[LogRecord]:
        return await self.read(lambda tx: [LogRecord(*row) for row in tx.db.execute(LIST_LOGS, (run_id,))])


def _find_attempt(db: sqlite3.Connection, lease: Lease) -> int | None:
    """The number of the attempt that runs under this lease."""
    row = db.execute(FIND_ATTEMPT, (lease.run_id, lease.lease_id)).fetchone()
    return None if row is None else int(row[0])


def _save(db: sqlite3.Connection, lease: Lease, checkpoint: Checkpoint, now: Micros) -> bool:
    if _find_attempt(db, lease) is None:
        return False
    values = {"run_id": lease.run_id, "revision": checkpoint.revision, "value": checkpoint.value, "now": now}
    db.execute(SAVE, values)
    return True


def _note(db: sqlite3.Connection, note: Note) -> bool:
    attempt = _find_attempt(db, note.lease)
    if attempt is None:
        return False
    progress = None if note.progress is None else json.dumps(note.progress)
    values = {"run_id": note.lease.run_id, "attempt": attempt, "number": note.number}
    db.execute(NOTE, {**values, "progress": progress, "log": note.log})
    return True
