"""What attempts leave with their runs, in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.run import Checkpoint, Lease, RunState
from onthedot.stores.values import LogRecord, Note
from tests.review.dictionaries.tables import Tables


class Checkpoints(Tables):
    """See `Store`."""

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        del now
        return [self._save(lease, checkpoint) for lease, checkpoint in saves]

    def _save(self, lease: Lease, checkpoint: Checkpoint) -> bool:
        current = self._current(lease)
        if current is None:
            return False
        known = self.checkpoints.get(lease.run_id)
        if known is None or known.revision < checkpoint.revision:
            self.checkpoints[lease.run_id] = current.checkpoint = checkpoint
        return True

    def _current(self, lease: Lease) -> Lease | None:
        """The store's own lease, if the run is running under this one."""
        run = self.runs.get(lease.run_id)
        if run is None or run.state is not RunState.RUNNING or run.lease is None:
            return None
        return run.lease if run.lease.lease_id == lease.lease_id else None

    async def get_checkpoint(self, run_id: int) -> Checkpoint | None:
        return self.checkpoints.get(run_id)

    async def note(self, notes: Sequence[Note], *, now: Micros | None = None) -> list[bool]:
        del now
        return [self._note(note) for note in notes]

    def _note(self, note: Note) -> bool:
        current = self._current(note.lease)
        if current is None:
            return False
        of_run = self.notes.setdefault(note.lease.run_id, {})
        known = of_run.get(current.attempt)
        if known is None:
            of_run[current.attempt] = note
        elif known.number < note.number:
            progress = known.progress if note.progress is None else note.progress
            of_run[current.attempt] = note._replace(progress=progress, log=known.log if note.log is None else note.log)
        return True

    async def list_logs(self, run_id: int) -> list[LogRecord]:
        notes = sorted(self.notes.get(run_id, {}).items())
        return [LogRecord(attempt, note.log) for attempt, note in notes if note.log is not None]
