"""What the attempts of a run have said: from the output store, and what is not there yet from the store itself."""

from __future__ import annotations

from typing import NamedTuple

from onthedot.errors import OutputUnavailable
from onthedot.output.keeping import Name, Outputs
from onthedot.output.records import Record
from onthedot.stores.base import LogRecord, Store


class Said(NamedTuple):
    """What one attempt has said. `records` is None for what the store has: text as it was told, its end perhaps to
    come. `trouble` says why it is not from the output store, if that could not be asked."""

    attempt: int
    text: str
    records: list[Record] | None = None
    trouble: str = ""


async def read_said(store: Store, outputs: Outputs | None, run_id: int, *, only: int | None = None) -> list[Said]:
    """Every attempt of a run that has said something, in order; or only this one.

    Of an ended attempt whose output is kept: its records, in full. Else what its notes in the store have: that of a
    handler, of an attempt that runs on whichever node, or of one whose output is still on its way.
    """
    told = {record.attempt: Said(record.attempt, record.text) for record in await store.list_logs(run_id)}
    if only is not None:
        told = {attempt: said for attempt, said in told.items() if attempt == only}
    if outputs is None:
        return [said for _, said in sorted(told.items())]
    for attempt in await store.list_attempts(run_id):
        if only not in (None, attempt.attempt):
            continue
        try:
            records = await outputs.records(Name(run_id, attempt.attempt, attempt.lease_id))
        except OutputUnavailable as error:
            noted = told.get(attempt.attempt, Said(attempt.attempt, ""))
            told[attempt.attempt] = noted._replace(trouble=str(error))
            continue
        if records is not None:
            told[attempt.attempt] = Said(attempt.attempt, "".join(record.text for record in records), records)
    return [said for _, said in sorted(told.items())]


async def read_logs(store: Store, outputs: Outputs | None, run_id: int) -> list[LogRecord]:
    """The same as plain text; attempts of which nothing can be read are left out."""
    return [LogRecord(said.attempt, said.text) for said in await read_said(store, outputs, run_id) if said.text]
