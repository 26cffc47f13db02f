"""What attempts leave with their runs, in Redis."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.run import Checkpoint, Lease
from onthedot.stores.redis.rows import lease_asked
from onthedot.stores.redis.tables import Tables, told
from onthedot.stores.values import LogRecord, Note


class Checkpoints(Tables):
    """See `Store`."""

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        asked = [lease_asked(lease) | {"revision": saved.revision, "value": saved.value} for lease, saved in saves]
        return [bool(accepted) for accepted in await self.ask("checkpoint", now=now, saves=asked)]

    async def get_checkpoint(self, run_id: int) -> Checkpoint | None:
        found = await self.look("get_checkpoint", run_id=run_id)
        return None if found is None else Checkpoint(*found)

    async def note(self, notes: Sequence[Note], *, now: Micros | None = None) -> list[bool]:
        said = await self.ask("note", now=now, notes=[_asked(note) for note in notes])
        return [bool(accepted) for accepted in said]

    async def list_logs(self, run_id: int) -> list[LogRecord]:
        found = await self.look("list_logs", run_id=run_id)
        return sorted(LogRecord(attempt, text) for attempt, text in found)


def _asked(note: Note) -> dict[str, object]:
    done, of = (None, None) if note.progress is None else note.progress
    return lease_asked(note.lease) | told(
        number=note.number,
        done=None if done is None else repr(done),
        of=None if of is None else repr(of),
        log=note.log,
    )
