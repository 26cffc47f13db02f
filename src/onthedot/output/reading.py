"""What the attempts of a run have said and left: from the output store; what they say and is not there yet, from the
store itself."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.errors import OutputUnavailable
from onthedot.output.following import note_records, read_note
from onthedot.output.keeping import Kept, Name, Outputs
from onthedot.output.records import Record
from onthedot.stores.protocol import Store
from onthedot.stores.values import LogRecord


class Said(NamedTuple):
    """What one attempt has said. `records` is None if only its text is known: a node of an older version has told it.
    `kept`: it is all there, from the output store; else the store has it as it was told, its end perhaps to come.
    `trouble` says why it is not from the output store, if that could not be asked."""

    attempt: int
    text: str
    records: list[Record] | None = None
    trouble: str = ""
    kept: bool = False


async def read_said(store: Store, outputs: Outputs | None, run_id: int, *, only: int | None = None) -> list[Said]:
    """Every attempt of a run that has said something, in order; or only this one.

    Of an ended attempt whose output is kept: its records, in full. Else what its notes in the store have: that of a
    handler, of an attempt that runs on whichever node, or of one whose output is still on its way.
    """
    told = {
        noted.attempt: Said(noted.attempt, *note_records(read_note(noted.text)))
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
            noted = told.get(attempt.attempt, Said(attempt.attempt, ""))
            told[attempt.attempt] = noted._replace(trouble=str(error))
            continue
        if records is not None:
            text = "".join(record.text for record in records)
            told[attempt.attempt] = Said(attempt.attempt, text, records, kept=True)
    return [said for _, said in sorted(told.items())]


async def read_logs(store: Store, outputs: Outputs | None, run_id: int) -> list[LogRecord]:
    """The same as plain text; attempts of which nothing can be read are left out."""
    return [LogRecord(said.attempt, said.text) for said in await read_said(store, outputs, run_id) if said.text]


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────

PIECE = 256 * 1024
"""How much of an artifact is read at once, in bytes."""


class Artifact(NamedTuple):
    """A file that an attempt has left. `name` is one of `Index.by_name`, `ended_at` the end of the attempt."""

    of: Name
    name: str
    kept: Kept
    ended_at: Micros


async def list_artifacts(
    store: Store, outputs: Outputs | None, run_id: int, *, attempt: int | None = None
) -> list[Artifact]:
    """The files that the attempts of a run have left, or only this one, and that are kept."""
    found: list[Artifact] = []
    for one in await store.queries.list_attempts(run_id) if outputs is not None else ():
        if outputs is not None and attempt in (None, one.attempt):
            of = Name(run_id, one.attempt, one.lease_id)
            index = await outputs.index(of)
            named = index.by_name() if index else {}
            found += [Artifact(of, name, kept, one.ended_at) for name, kept in named.items()]
    return found


async def read_artifact(outputs: Outputs, artifact: Artifact) -> AsyncGenerator[bytes]:
    """A file piece by piece. One that was changed since it was kept is broken off, at its end at the latest."""
    digest, kept = hashlib.sha256(), artifact.kept
    for start in range(0, kept.size, PIECE):
        piece = await outputs.read(artifact.of, kept, start=start, length=PIECE)
        digest.update(piece)
        last = start + PIECE >= kept.size
        if len(piece) != min(PIECE, kept.size - start) or (last and digest.hexdigest() != kept.sha256):
            raise OutputUnavailable(f"{outputs}: the artifact {kept.name!r} was changed since it was kept")
        yield piece
