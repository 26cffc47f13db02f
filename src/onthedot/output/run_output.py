"""Reads the logs and artifacts of a run: from the output store, or from the store until the output store has them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.errors import OutputUnavailable
from onthedot.output.log_positions import note_records, read_note
from onthedot.output.output_store import Kept, Name, OutputStore
from onthedot.output.records import Record
from onthedot.stores.protocol import Store
from onthedot.stores.values import LogRecord


class AttemptOutput(NamedTuple):
    """The output of one attempt. `records` is None if a node of an older version wrote the output: then only the text
    is known. `kept`: the output is complete, and comes from the output store. Otherwise it comes from the store, and
    its end may be missing. `trouble`: why the output store could not be read; empty if it could."""

    attempt: int
    text: str
    records: list[Record] | None = None
    trouble: str = ""
    kept: bool = False


async def read_output(
    store: Store, outputs: OutputStore | None, run_id: int, *, only: int | None = None
) -> list[AttemptOutput]:
    """Return the output of each attempt of a run in order, or of one attempt only. Attempts without output are left
    out.

    If an attempt's output is kept, all of its records are returned. Otherwise its notes in the store are returned: for
    handlers, for attempts that still run on any node, and for output that is not kept yet.
    """
    told = {
        noted.attempt: AttemptOutput(noted.attempt, *note_records(read_note(noted.text)))
        for noted in await store.queries.list_logs(run_id)
    }
    if only is not None:
        told = {attempt: said for attempt, said in told.items() if attempt == only}
    if outputs is None:
        return [said for _, said in sorted(told.items())]
    for attempt in await store.queries.list_attempts(run_id):
        if only not in (None, attempt.attempt):
            continue
        try:
            records = await outputs.records(Name(run_id, attempt.attempt, attempt.lease_id))
        except OutputUnavailable as error:
            noted = told.get(attempt.attempt, AttemptOutput(attempt.attempt, ""))
            told[attempt.attempt] = noted._replace(trouble=str(error))
            continue
        if records is not None:
            text = "".join(record.text for record in records)
            told[attempt.attempt] = AttemptOutput(attempt.attempt, text, records, kept=True)
    return [said for _, said in sorted(told.items())]


async def read_logs(store: Store, outputs: OutputStore | None, run_id: int) -> list[LogRecord]:
    """Return the output of each attempt as plain text. Attempts without output are left out."""
    return [LogRecord(said.attempt, said.text) for said in await read_output(store, outputs, run_id) if said.text]


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────

PIECE = 256 * 1024
"""How many bytes of an artifact are read at once."""


class Artifact(NamedTuple):
    """A file that an attempt left. `name` is one of `Index.by_name`, `ended_at` the end of the attempt."""

    of: Name
    name: str
    kept: Kept
    ended_at: Micros


async def list_artifacts(
    store: Store, outputs: OutputStore | None, run_id: int, *, attempt: int | None = None
) -> list[Artifact]:
    """Return the kept files of all attempts of a run, or of one attempt."""
    found: list[Artifact] = []
    for one in await store.queries.list_attempts(run_id) if outputs is not None else ():
        if outputs is not None and attempt in (None, one.attempt):
            of = Name(run_id, one.attempt, one.lease_id)
            index = await outputs.index(of)
            named = index.by_name() if index else {}
            found += [Artifact(of, name, kept, one.ended_at) for name, kept in named.items()]
    return found


async def read_artifact(outputs: OutputStore, artifact: Artifact) -> AsyncGenerator[bytes]:
    """Yield the bytes of a file, piece by piece. If the file has changed, raise `OutputUnavailable` at the end at the
    latest."""
    digest, kept = hashlib.sha256(), artifact.kept
    for start in range(0, kept.size, PIECE):
        piece = await outputs.read(artifact.of, kept, start=start, length=PIECE)
        digest.update(piece)
        last = start + PIECE >= kept.size
        if len(piece) != min(PIECE, kept.size - start) or (last and digest.hexdigest() != kept.sha256):
            raise OutputUnavailable(f"{outputs}: the artifact {kept.name!r} was changed since it was kept")
        yield piece
